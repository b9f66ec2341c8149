"""Witnesses beside the truth: what is right, what is missed, and how long it took since the fault was in force."""

from typing import Any

import numpy as np
from scipy.stats import binom

from agent.spraycheck.paths import FabricPath
from agent.spraycheck.statistics.verdicts import Requirements
from scenarios.file.model import Scenario
from scenarios.file.plan import Flow
from scenarios.run.judge.detection import Accused, Conclusion
from scenarios.run.judge.witnesses import (
    SILENT,
    EvPath,
    Truth,
    conclusion_of_events,
    ev_paths,
    in_force_since,
    note_on,
    silence_of_events,
    witness_of,
)
from scenarios.workload.traffic import FlowEnd, FlowProgress, OpenFlow, WorkerCounts
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


LEAVES = SPINES = 8
ASKED = Requirements(0.01)
UPLINK = "p0:leaf3>spine5"
END_NS = 10_000


def path(
    src: int, spine: int, dst: int, sent: int, left_ns: int | None = None, began_ns: int = 0, ended_ns: int = END_NS
) -> EvPath:
    qpn = dst << 12 | src
    return EvPath(FabricPath(0, src, spine, dst), qpn, src, sent, began_ns, ended_ns, left_ns, sent if left_ns else 0)


def run(rate: float, sent: int, rng: np.random.Generator, stray: float = 0.0) -> list[EvPath]:
    """Strides 1 and 3; a path is retired at its first loss, which is over `p0:leaf3>spine5` or a stray one."""
    found = []
    for src in range(LEAVES):
        for dst in ((src + 1) % LEAVES, (src + 3) % LEAVES):
            for spine in range(SPINES):
                drops = rate if (src, spine) == (3, 5) else stray
                first = int(rng.geometric(drops)) if drops else sent + 1
                left = first if first <= sent else None
                found.append(path(src, spine, dst, min(first, sent), left))
    return found


def test_two_hosts_views_name_the_link_they_share_as_soon_as_both_have_lost() -> None:
    paths = [path(3, 5, 4, 100, left_ns=50), path(3, 5, 6, 300, left_ns=70), path(2, 5, 4, 2000)]
    said = conclusion_of_events([*paths, path(3, 4, 4, 2000), path(3, 4, 6, 2000)], ASKED)
    (accused,) = said.accused
    assert (accused.link, accused.by, accused.named_ns) == (UPLINK, ("h3",), 70)
    assert (accused.packets, accused.paths) == (400, 2)


def test_one_retired_path_leaves_two_links_until_a_flow_that_had_packets_enough_clears_one() -> None:
    paths = [path(3, 5, 4, 100, left_ns=50), *(path(3, spine, 4, 2000) for spine in range(3))]
    said = conclusion_of_events(paths, ASKED)
    assert (said.state, said.candidates) == ("ambiguous", ((UPLINK, "p0:spine5>leaf4"),))
    few = conclusion_of_events([*paths, path(2, 5, 4, 600)], ASKED)
    assert few.state == "ambiguous", "600 packets lose none of 1 % once in 400 flows: too often to clear a link"
    enough = conclusion_of_events([*paths, path(2, 5, 4, 700)], ASKED)
    assert [(each.link, each.named_ns) for each in enough.accused] == [(UPLINK, END_NS)]


def test_a_flow_that_ended_before_the_first_loss_clears_nothing() -> None:
    lossy = [path(3, 5, 4, 3000, left_ns=6_000), *(path(3, spine, 4, 3000) for spine in range(3))]
    over, all_along = path(3, 5, 6, 3000, ended_ns=5_000), path(3, 5, 6, 3000)
    later = path(3, 5, 6, 3000, began_ns=END_NS + 1, ended_ns=2 * END_NS)
    for each in (over, later):
        assert conclusion_of_events([*lossy, each], ASKED).candidates == ((UPLINK, "p0:spine5>leaf4"),)
    assert [each.link for each in conclusion_of_events([*lossy, all_along], ASKED).accused] == ["p0:spine5>leaf4"]


def test_a_flow_that_lost_most_of_its_paths_accuses_none_of_them() -> None:
    paths = [path(3, spine, dst, 100, left_ns=9 if spine < 5 else None) for spine in range(8) for dst in (4, 6)]
    said = conclusion_of_events(paths, ASKED)
    assert (said.state, said.accused, said.verdicts) == ("none", (), {"insufficient": 16})


def test_over_many_seeds_one_per_cent_is_named_and_nothing_else() -> None:
    named, wrong = 0, 0
    for seed in range(300):
        said = conclusion_of_events(run(0.01, 2000, np.random.default_rng(seed)), ASKED)
        links = {each.link for each in said.accused}
        named += UPLINK in links
        wrong += bool(links - {UPLINK})
    # Missed only if one of two paths loses none of 2,000 packets: 2 * 0.99^2000 = 4e-9.
    assert (named, wrong) == (300, 0)


def test_stray_losses_accuse_a_healthy_link_only_where_two_flows_lose_on_it() -> None:
    runs = 400
    wrong = 0
    for seed in range(runs):
        said = conclusion_of_events(run(0, 2000, np.random.default_rng(seed), stray=1e-5), ASKED)
        wrong += bool(said.accused)
    # One stray loss retires a path here. One such path contradicts the flows beside it; two over one link accuse it:
    # 128 links with two flows each, each of which loses with probability q.
    q = 1 - (1 - 1e-5) ** 2000
    rate = 1 - (1 - q**2) ** 128
    low, high = (binom.ppf(p, runs, rate) for p in (1e-5, 1 - 1e-5))
    assert low <= wrong <= high


def test_paths_are_told_from_counters_and_records() -> None:
    fabric = Fabric.of(FabricSpec(planes=1, leaves=4, spines=2, hosts_per_leaf=1))
    source, target = FlowEnd(0, 1), FlowEnd(2, 2)
    flow = OpenFlow(Flow(0, 2, 100, 100), 1, source, target)
    done = FlowProgress(0, 1, "RTS", 1, 1, 30, 0, 0, 0, 5, 99)
    rows = [
        {"host": 0, "qpn": 1, "ev": ev, "plane": 0, "spine": spine, "tx_first": sent}
        for ev, spine, sent in ((7, 0, 10), (8, 0, 4), (9, 1, 16))
    ]
    changes = [
        {"event": "EV_STATE", "node": "h0", "qpn": 1, "mono_ns": at, "state": state, "signal": signal, "evs": [ev],
         "sent": [sent]}
        for at, state, signal, ev, sent in (
            (40, "ASSUMED_BAD", "LOST", "0x00000008", 4),
            (50, "GOOD", "REVIVED", "0x00000008", 4),
            (60, "ASSUMED_BAD", "LOST", "0x00000008", 4),
            (30, "DENIED", "DENY", "0x00000009", 16),
        )
    ]  # fmt: skip
    workers = [WorkerCounts(ports=(), cpu_ns=0, sched_wait_ns=0, evs=tuple(rows))]
    found = ev_paths([flow], [done], workers, changes, fabric)
    assert found == [
        EvPath(FabricPath(0, 0, 0, 2), 1, 0, 14, 5, 99, 40, 4),
        EvPath(FabricPath(0, 0, 1, 2), 1, 0, 16, 5, 99, None, 0),
    ]
