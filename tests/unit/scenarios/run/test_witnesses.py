"""Witnesses beside the truth: what is right, what is missed, and how long it took since the fault was in force."""

from typing import Any

from scenarios.file.model import Scenario
from scenarios.run.judge.expect import Accused, Conclusion
from scenarios.run.judge.witnesses import SILENT, Truth, in_force_since, note_on, silence_of_events, witness_of
from testbed.model.fabric import Fabric, FabricSpec

FABRIC = Fabric.of(FabricSpec(planes=2, leaves=4, spines=2, hosts_per_leaf=1))
UP, OTHER, HOST = "p0:leaf3>spine1", "p1:spine0>leaf2", "p0:h3>leaf3"
S = 10**9


def truth(*dropping: str, first_ns: int = 10 * S, **since_ns: int) -> Truth:
    return Truth(frozenset(dropping), frozenset(), {UP: since_ns.get("up", 0)}, first_ns)


def said(*accused: Accused, common: tuple[Accused, ...] = (), state: str = "named") -> Conclusion:
    return Conclusion(state, accused, (), {"failed": 2, "healthy": 6}, 8, common=common)


def named(link: str, at_ns: int) -> Accused:
    return Accused(link, ("p0-leaf0",), None, at_ns, 4000, 2)


def test_seconds_run_from_the_first_packet_or_from_the_fault_whichever_is_later() -> None:
    for up_ns, seconds in ((1 * S, 4.0), (12 * S, 2.0)):
        found = witness_of("x", said(named(UP, 14 * S)), truth(UP, up=up_ns), FABRIC, True)
        assert (found.seconds, found.packets) == (seconds, 4000)
    assert in_force_since([{"event": "FAULT_SET", "link": UP, "mono_ns": at} for at in (7, 3, 9)]) == {UP: 3}


def test_right_and_wrong_names_are_counted() -> None:
    found = witness_of("x", said(named(UP, 14 * S), named(OTHER, 11 * S)), truth(UP, HOST), FABRIC, True)
    assert [(each.link, each.right) for each in found.named] == [(UP, True), (OTHER, False)]
    assert (found.precision, found.recall, found.false_alarms, found.missed) == (0.5, 0.5, 1, (HOST,))
    assert found.seconds == 4.0, "the wrong name came earlier and does not count"


def test_a_healthy_run_has_no_precision_and_counts_false_alarms() -> None:
    quiet = witness_of("x", said(state="none"), truth(), FABRIC, True)
    assert (quiet.precision, quiet.recall, quiet.false_alarms, quiet.seconds) == (None, None, 0, None)
    loud = witness_of("x", said(named(OTHER, 11 * S)), truth(), FABRIC, True)
    assert (loud.precision, loud.recall, loud.false_alarms) == (0.0, None, 1)


def test_a_common_cause_stands_for_all_its_links() -> None:
    host = witness_of("x", said(common=(named(HOST, 12 * S),)), truth(HOST), FABRIC, True)
    assert (host.precision, host.recall, host.seconds) == (1.0, 1.0, 2.0)
    uplinks = named("p0:leaf3>spine*", 12 * S)
    some = witness_of("x", said(common=(uplinks,)), truth(UP), FABRIC, True)
    assert (some.precision, some.recall, some.named[0].right) == (0.5, 1.0, False)
    both = witness_of("x", said(common=(uplinks,)), truth(UP, "p0:leaf3>spine0"), FABRIC, True)
    assert (both.precision, both.recall, both.named[0].right) == (1.0, 1.0, True)


def test_what_stays_among_suspects_is_neither_missed_nor_recalled() -> None:
    open_ended = Conclusion("ambiguous", (), ((UP, OTHER),), {"failed": 1}, 8, common_candidates=((HOST,),))
    found = witness_of("x", open_ended, truth(UP, HOST), FABRIC, True)
    assert (found.missed, found.suspected, found.recall) == ((), (HOST, UP), None)
    uplinks = Conclusion("none", (), (), {}, 8, common_candidates=(("p0:leaf3>spine*", HOST),))
    assert witness_of("x", uplinks, truth(UP), FABRIC, True).suspected == (UP,)


def test_to_name_what_may_have_dropped_is_right_and_not_to_is_no_miss() -> None:
    shut = Truth(frozenset((UP,)), frozenset((OTHER,)), {}, 10 * S)
    assert witness_of("x", said(named(UP, 14 * S)), shut, FABRIC, True).missed == ()
    both = witness_of("x", said(named(UP, 14 * S), named(OTHER, 14 * S)), shut, FABRIC, True)
    assert (both.precision, both.recall, both.false_alarms) == (1.0, 1.0, 0)


def scenario(**parts: Any) -> Scenario:
    return Scenario.model_validate(
        {"version": 1, "name": "x", "workloads": ({"strides": (1,), "packets": 100},)} | parts
    )


def test_why_a_witness_says_nothing() -> None:
    paper = {"transport": {"ev": {"loss_policy": "paper"}}, "detector": {"expectation": "declared"}}
    assert silence_of_events(scenario()) == "no events (loss policy off)"
    assert silence_of_events(scenario(**paper, events="off")) == "no events (events: off)"
    assert silence_of_events(scenario(**paper)) == ""
    mute = witness_of("x", SILENT, truth(UP), FABRIC, False, "no events (loss policy off)")
    assert (mute.state, mute.precision, mute.recall, mute.missed) == ("silent", None, 0.0, (UP,))


def test_notes_on_verdicts() -> None:
    assert note_on(said(), scenario()) == ""
    unsure = Conclusion("none", (), (), {}, 8, links_wanted=8, undecided={"p0:leaf1>spine0": "why"})
    assert note_on(unsure, scenario()) == "1 of 8 links undecided"
    narrow = Conclusion("silent", (), (), {}, 8, expectation="declared")
    together = Conclusion("none", (), (), {"healthy": 8}, 8, added_up=8)
    assert note_on(together, scenario()) == "8 paths judged by several flows together"
    assert "16-bit" in note_on(narrow, scenario(detector={"counter_bits": 16, "expectation": "uniform"}))
