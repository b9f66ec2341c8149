"""What SprayCheck concluded of a run to what the run is judged by."""

from typing import Any

from results.detect_log import Said, said_in
from results.files.event_log import Fields
from scenarios.run import collect
from scenarios.run.judge.detection import Conclusion, conclusion_of

UP, DOWN, HOST_LINK = "p0:leaf3>spine5", "p0:spine5>leaf4", "p0:h3>leaf3"
ASKED = "a drop of 1% needs 1,321 over a link"


def line(event: str, mono_ns: int = 10, **fields: Any) -> Fields:
    return {
        "event": event,
        "ts": "",
        "mono_ns": mono_ns,
        "node": "monitor",
        "epoch": 2,
        "expectation": "uniform",
    } | fields


def detect(qpn: int, dst: int, verdict: str, **more: Any) -> Fields:
    told = {"qpn": qpn, "plane": 0, "spine": 5, "src_leaf": 3, "dst_leaf": dst, "verdict": verdict, "N": 1000}
    return line("DETECT", **told, **{"lambda": 1000.0, "count": 1000, "threshold": None, "reason": None}, **more)


def path(dst: int, verdict: str, **more: Any) -> Fields:
    told = {"plane": 0, "spine": 5, "src_leaf": 3, "dst_leaf": dst, "verdict": verdict, "by": "flow", "flows": 1}
    return line("PATH", **{**told, "lambda": 1000.0, "count": 1000, "p_value": 0.5, **more})


def link(name: str, verdict: str, **more: Any) -> Fields:
    return line("LINK", link=name, verdict=verdict, flows=2, **more)


def localize(mono_ns: int, links: list[str], pending: int = 0, state: str = "named", **more: Any) -> Fields:
    return line("LOCALIZE", mono_ns, state=state, links=links, candidates=[], pending=pending, **more)


NAMED = link(UP, "failed", since_ns=2_000_000_000, leaves=["p0-leaf4", "p0-leaf6"], packets=2000, paths=2)
RECORDS = [
    detect(1, 4, "failed"),
    localize(1_000_000_000, [DOWN], pending=3),
    detect(2, 6, "failed"),
    NAMED,
    localize(2_000_000_000, [UP], pending=2),
    path(4, "failed"),
    path(6, "failed"),
    link(DOWN, "healthy"),
    detect(3, 4, "healthy"),
    localize(3_000_000_000, [UP]),
]


def concluded(records: list[Fields], wanted: tuple[str, ...] = (UP, DOWN), **more: Any) -> Conclusion:
    return conclusion_of(said_in(records, more.pop("expectation", "uniform")), 500_000_000, wanted, 2, **more)


def test_a_conclusion_is_what_was_said_last() -> None:
    said = concluded(RECORDS)
    (accused,) = said.accused
    assert (accused.link, accused.by, accused.after_s) == (UP, ("p0-leaf4", "p0-leaf6"), 1.5)
    assert (accused.named_ns, accused.packets, accused.paths) == (2_000_000_000, 2000, 2)
    assert (said.state, said.verdicts, said.links, said.links_wanted) == (
        "named", {"failed": 2}, {"failed": 1, "healthy": 1}, 2
    )  # fmt: skip
    later = concluded([*RECORDS, link(DOWN, "undecided", reason="why"), path(6, "healthy", by="links")])
    assert (later.links, later.undecided) == ({"failed": 1, "undecided": 1}, {DOWN: "why"})
    assert (later.verdicts, later.added_up) == ({"failed": 1, "healthy": 1}, 1)


def test_what_paths_have_in_common_is_accused_apart_and_explains_links_that_lose_by_it() -> None:
    told = [
        link(HOST_LINK, "failed", since_ns=2_000_000_000, leaves=["p0-leaf4"], packets=8000, paths=8),
        link(UP, "undecided", alternatives=[HOST_LINK], doubt="lost_alike", reason="alike"),
        link(DOWN, "healthy"),
        localize(2_000_000_000, [], state="none", common=[HOST_LINK]),
    ]
    said = concluded(told, right_causes={HOST_LINK})
    (accused,) = said.common
    assert said.accused == ()
    assert (accused.link, accused.by, accused.after_s, accused.packets) == (HOST_LINK, ("p0-leaf4",), 1.5, 8000)
    assert (said.explained, said.undecided) == (1, {})
    wrong = concluded(told)
    assert (wrong.explained, wrong.undecided) == (0, {UP: "alike"}), "it did not drop"


def test_no_word_from_the_monitor_is_silence() -> None:
    said = concluded([])
    assert (said.state, said.undecided) == ("silent", dict.fromkeys((UP, DOWN), "no verdict on a path over it came"))
    owed = concluded([localize(1, [], pending=3, state="none")])
    assert set(owed.undecided.values()) == {"3 verdicts on paths did not come in time"}


def test_a_link_over_which_nothing_was_sent_owes_nothing() -> None:
    said = concluded([link(UP, "undecided", doubt="nothing_sent", reason="nothing"), link(DOWN, "healthy")])
    assert (said.links, said.links_wanted, said.idle, said.undecided) == ({"healthy": 1}, 1, 1, {})


def test_an_undecided_link_is_told_what_would_help() -> None:
    odds = "a drop of 1% would be missed with probability 0.5"
    weak = link(UP, "undecided", doubt="few_packets", reason=odds, sent=448, lost=0)
    open_ended = link(DOWN, "undecided", doubt="suspect", reason="it or another", alternatives=["p0:leaf1>spine5"])
    deciding = {"path": "p0:leaf1>spine5>leaf7", "src_leaf": 1, "dst_leaf": 7, "rate": 0.01, "packets": 900}
    last = localize(5, [], state="ambiguous", deciding=[deciding])
    assert concluded([weak, open_ended, last], asked=ASKED).undecided == {
        UP: f"448 packets of 2 flows; {odds}; {ASKED}",
        DOWN: "it or another; a flow from leaf1 to leaf7 with 900 packets per path would decide",
    }
    elsewhere = localize(5, [], deciding=[deciding | {"path": "p1:leaf1>spine5>leaf7"}])
    assert concluded([open_ended, elsewhere], (DOWN,)).undecided == {DOWN: "it or another"}


def test_insufficient_paths_are_grouped_by_reason() -> None:
    weak = [path(dst, "insufficient", reason="few") for dst in (4, 6)]
    short = path(7, "insufficient", reason="short")
    assert list(concluded([short, *weak]).insufficient.items()) == [("few", 2), ("short", 1)]


def test_expectations_are_concluded_each_for_itself() -> None:
    declared = [record | {"expectation": "declared"} for record in RECORDS[:5]]
    assert concluded([*RECORDS, *declared]).links == {"failed": 1, "healthy": 1}
    said = concluded([*RECORDS, *declared], expectation="declared")
    assert (said.links, said.expectation) == ({"failed": 1}, "declared")


def test_settled_means_all_judged_and_nothing_owed() -> None:
    assert not collect.is_settled(said_in(RECORDS[:5], "uniform"), 2)
    assert collect.is_settled(said_in(RECORDS, "uniform"), 3)
    assert not collect.is_settled(said_in(RECORDS, "uniform"), 4)
    assert not collect.is_settled(said_in(RECORDS, "declared"), 3)
    assert collect.is_settled(Said("uniform"), 0)


def test_flows_that_leaves_had_no_room_for_are_neither_healthy_nor_failed() -> None:
    refused = {"event": "UNMEASURED", "ts": "", "mono_ns": 5, "node": "p0-leaf3", "epoch": 2, "plane": 0, "src_leaf": 3,
               "dst_leaf": 4, "src_host": 3, "dst_host": 4, "qpn": 9, "reason": "no room"}  # fmt: skip
    said = concluded([refused, refused | {"qpn": 10}, *RECORDS])
    assert said.unmeasured == {"h3>h4 at p0-leaf3: no room": 2}
    assert said.links == {"failed": 1, "healthy": 1}
