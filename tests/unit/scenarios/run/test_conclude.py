"""SprayCheck's records of a run to what it said in the end."""

from typing import Any

import pytest

from agent.spraycheck.doubt import NOTHING_SENT, DoubtKind
from scenarios.run import collect
from scenarios.run.conclude import conclusion_of
from scenarios.run.expect import NOT_ADDED_UP, SHORT_ALIKE

UP, DOWN, HOST_LINK = "p0:leaf3>spine5", "p0:spine5>leaf4", "p0:h3>leaf3"


def detect(qpn: int, dst: int, verdict: str, spine: int = 5) -> dict[str, Any]:
    return {
        "event": "DETECT", "mono_ns": 10, "node": f"p0-leaf{dst}", "epoch": 2, "qpn": qpn, "plane": 0, "spine": spine,
        "src_leaf": 3, "dst_leaf": dst, "verdict": verdict, "N": 1000, "expectation": "uniform", "src_host": 3,
        "lambda": 1000.0,
    }  # fmt: skip


def localize(mono_ns: int, links: list[str], pending: int = 0, state: str = "named") -> dict[str, Any]:
    evidence = [
        {"path": "p0:leaf3>spine5>leaf4", "node": "p0-leaf4", "qpn": 1, "spine": 5, "verdict": "failed"},
        {"path": "p0:leaf3>spine5>leaf6", "node": "p0-leaf6", "qpn": 2, "spine": 5, "verdict": "failed"},
        {"path": "p0:leaf1>spine5>leaf4", "node": "p0-leaf4", "qpn": 3, "spine": 5, "verdict": "healthy"},
    ]
    return {
        "event": "LOCALIZE", "mono_ns": mono_ns, "epoch": 2, "expectation": "uniform", "state": state,
        "links": links, "candidates": [],
        "evidence": evidence if links else [], "pending": pending,
    }  # fmt: skip


RECORDS = [
    detect(1, 4, "failed"),
    localize(1_000_000_000, [DOWN], pending=3),
    detect(2, 6, "failed"),
    localize(2_000_000_000, [UP], pending=2),
    detect(3, 4, "healthy"),
    localize(3_000_000_000, [UP]),
]


def test_conclusion_is_what_was_said_last_since_it_was_said_without_a_break() -> None:
    conclusion = conclusion_of(RECORDS, 500_000_000, 3, "uniform")
    assert conclusion.state == "named"
    assert [(item.link, item.by, item.after_s) for item in conclusion.accused] == [(UP, ("p0-leaf4", "p0-leaf6"), 1.5)]
    assert conclusion.verdicts == {"failed": 2, "healthy": 1}


def test_an_accusation_says_after_how_many_packets_on_which_paths() -> None:
    (accused,) = conclusion_of(RECORDS, 500_000_000, 3, "uniform").accused
    assert (accused.named_ns, accused.packets, accused.paths) == (2_000_000_000, 2000, 2)
    late = [RECORDS[2] | {"mono_ns": 2_500_000_000} if record is RECORDS[2] else record for record in RECORDS]
    (accused,) = conclusion_of(late, 500_000_000, 3, "uniform").accused
    assert (accused.packets, accused.paths) == (1000, 1), "what was judged after the name came counts no more"


def test_what_all_paths_of_a_host_lose_alike_is_accused_apart() -> None:
    lossy = [detect(1, 4, "insufficient", spine) for spine in range(8)]
    told = localize(2_000_000_000, [], state="none") | {"common": ["p0:h3>leaf3"], "common_candidates": []}
    said = conclusion_of([*lossy, told], 500_000_000, 8, "uniform")
    (accused,) = said.common
    assert said.accused == ()
    assert (accused.link, accused.by, accused.after_s, accused.packets) == ("p0:h3>leaf3", ("p0-leaf4",), 1.5, 8000)


def test_no_word_from_the_monitor_is_silence() -> None:
    assert conclusion_of([], None, 16, "uniform").state == "silent"


def test_insufficient_verdicts_are_grouped_by_reason() -> None:
    weak = [
        detect(1, 4, "insufficient")
        | {"lambda": 128.0, "doubt": "few_packets", "reason": f"a drop of 1% would be missed with {odds}"}
        for odds in (0.5, 0.6)
    ]
    short = detect(2, 4, "insufficient") | {"doubt": "short_alike", "reason": "..."}
    told = conclusion_of([short, *weak], None, 3, "uniform", "a drop of 1% needs about 1,799").insufficient
    assert list(told.items()) == [
        ("128 packets a path, a drop of 1% needs about 1,799", 2),
        ("short, and so may be other paths of the flow: lost before they part (a host link?) or on several", 1),
    ]


def test_verdicts_of_small_flows_are_those_of_their_sum() -> None:
    small = [detect(qpn, 4, "insufficient") | {"doubt": "few_packets", "reason": "..."} for qpn in (1, 2, 3)]
    told = {"event": "ADDED_UP", "mono_ns": 11, "node": "p0-leaf4", "epoch": 2, "expectation": "uniform", "spine": 5}
    records = [*small, told | {"qpns": [1, 2], "verdict": "failed"}]
    said = conclusion_of(records, None, 3, "uniform")
    assert (said.verdicts, said.added_up) == ({"failed": 2, "insufficient": 1}, 2)
    assert sum(said.insufficient.values()) == 1
    elsewhere = [*small, told | {"qpns": [1, 2], "verdict": "failed", "spine": 4}]
    assert conclusion_of(elsewhere, None, 3, "uniform").verdicts == {"insufficient": 3}


def declared_flow(qpn: int, dst: int, doubt: str = "few_packets", **more: Any) -> Any:
    """A path that says too little alone, by what was declared."""
    told = {"expectation": "declared", "doubt": doubt, "reason": f"since {doubt}", "lambda": 90.0}
    return detect(qpn, dst, "insufficient") | told | more


def said_why(doubt: str) -> str:
    """How a summary tells the reason of a `declared_flow`."""
    return SHORT_ALIKE if doubt == "short_alike" else f"since {doubt}"


def test_a_common_cause_explains_the_paths_it_lies_on_and_no_others() -> None:
    mine, other = declared_flow(1, 4, "lost_alike", src_host=3), declared_flow(2, 4, "lost_alike", src_host=9)
    told = localize(2_000_000_000, []) | {"expectation": "declared", "evidence": [], "common": [HOST_LINK]}
    records = [mine, other, declared_flow(3, 4, src_host=3), told]
    assert conclusion_of(records, None, 3, "declared", right_causes={HOST_LINK}).explained == 1
    assert conclusion_of(records, None, 3, "declared").explained == 0, "it did not drop"
    assert conclusion_of(records[:3], None, 3, "declared", right_causes={HOST_LINK}).explained == 0, "nobody names it"


def link_sum(link: str, verdict: str) -> dict[str, Any]:
    return {"event": "LINK_SUM", "mono_ns": 11, "epoch": 2, "expectation": "declared", "link": link, "verdict": verdict}


def test_a_path_is_cleared_by_sums_over_both_its_links() -> None:
    small = [declared_flow(1, 4), declared_flow(2, 6)]
    cleared = [link_sum(UP, "healthy"), link_sum(DOWN, "healthy"), link_sum("p0:spine5>leaf6", "insufficient")]
    said = conclusion_of([*small, *cleared], None, 2, "declared")
    assert (said.verdicts, said.added_up) == ({"healthy": 1, "insufficient": 1}, 1)
    assert list(said.insufficient.values()) == [1]
    later = [*small, *cleared, link_sum("p0:spine5>leaf6", "healthy"), link_sum(DOWN, "insufficient")]
    said = conclusion_of(later, None, 2, "declared")
    assert (said.verdicts, said.added_up) == ({"insufficient": 1, "healthy": 1}, 1), "the last word counts"
    assert conclusion_of([*small, cleared[0]], None, 2, "declared").verdicts == {"insufficient": 2}


def test_a_path_that_sums_do_not_clear_is_told_what_its_links_got_together() -> None:
    asked, odds = "a drop of 1% needs about 1,321", "a drop of 1% would be missed with probability 0.18"
    few = {"flows": 14, "sent": 448, "doubt": "few_packets", "reason": odds}
    sums = [link_sum(UP, "insufficient") | few, link_sum(DOWN, "insufficient") | few | {"sent": 450}]
    told = conclusion_of([declared_flow(1, 4), *sums], None, 1, "declared", asked, 1321).insufficient
    assert told == {f"90 packets a path, 448 over a link in sum of 14 flows, {asked}": 1}
    enough = [link_sum(UP, "healthy"), link_sum(DOWN, "insufficient") | few | {"sent": 1330}]
    told = conclusion_of([declared_flow(1, 4), *enough], None, 1, "declared", asked, 1321).insufficient
    assert told == {f"90 packets a path, 1,330 over a link in sum of 14 flows, yet {odds}": 1}
    alone = conclusion_of([declared_flow(1, 4)], None, 1, "declared", asked, 1321).insufficient
    assert alone == {f"90 packets a path, {asked}": 1}


def test_a_path_over_a_link_that_sums_fail_is_failed_once_the_link_is_named() -> None:
    told = [declared_flow(1, 4), link_sum(UP, "failed"), link_sum(DOWN, "healthy")]
    assert conclusion_of(told, None, 1, "declared").verdicts == {"insufficient": 1}
    named = localize(2_000_000_000, [UP]) | {"expectation": "declared", "evidence": []}
    assert conclusion_of([*told, named], None, 1, "declared").verdicts == {"failed": 1}
    alike = declared_flow(1, 4, "lost_alike"), *told[1:]
    assert conclusion_of([*alike, named], None, 1, "declared").verdicts == {"failed": 1}, "what it lost is explained"
    other = localize(2_000_000_000, ["p0:leaf1>spine5"]) | {"expectation": "declared", "evidence": []}
    assert conclusion_of([*told, other], None, 1, "declared").verdicts == {"insufficient": 1}


@pytest.mark.parametrize("doubt", sorted({*DoubtKind} - {DoubtKind.FEW_PACKETS}))
def test_sums_over_links_settle_only_what_lacks_packets(doubt: str) -> None:
    told = [declared_flow(1, 4, doubt), link_sum(UP, "healthy"), link_sum(DOWN, "healthy")]
    said = conclusion_of(told, None, 1, "declared")
    assert (said.verdicts, said.added_up, said.insufficient) == ({"insufficient": 1}, 0, {said_why(doubt): 1})


def test_a_small_flow_that_lacks_a_path_is_told_to_be_added_to_none() -> None:
    weak = {"doubt": "few_packets", "reason": "a drop of 1% would be missed with probability 0.5", "lambda": 90.0}
    idle = {"doubt": "nothing_sent", "reason": NOTHING_SENT.text}
    lacking = [detect(1, 4, "insufficient", 0) | idle, detect(1, 4, "insufficient", 1) | weak]
    whole = [detect(2, 4, "insufficient", spine) | weak for spine in (0, 1)]
    told = conclusion_of([*lacking, *whole], None, 4, "uniform").insufficient
    assert (told[NOT_ADDED_UP], told[NOTHING_SENT.text], told[weak["reason"]]) == (1, 1, 2)
    told = conclusion_of([*lacking, *whole], None, 4, "uniform", left_over={(3, 4)}).insufficient
    assert told == {NOTHING_SENT.text: 1, weak["reason"]: 3}, "what would be in no sum anyway lacks nothing by it"
    declared = [record | {"expectation": "declared"} for record in lacking]
    told = conclusion_of(declared, None, 2, "declared").insufficient
    assert told == {NOTHING_SENT.text: 1, weak["reason"]: 1}


def test_a_path_with_packets_enough_is_told_its_own_reason() -> None:
    odds = "a drop of 1% would be missed with probability 0.0013"
    records = [
        detect(qpn, 4, "insufficient") | {"lambda": has, "doubt": "few_packets", "reason": odds}
        for qpn, has in ((1, 15116.0), (2, 90.0))
    ]
    asked = "a drop of 1% needs about 2,745"
    told = conclusion_of(records, None, 2, "uniform", asked, 2745).insufficient
    assert list(told) == [f"15,116 packets a path, yet {odds}", f"90 packets a path, {asked}"]


def test_expectations_are_concluded_each_for_itself() -> None:
    declared = [record | {"expectation": "declared"} for record in RECORDS[:4]]
    mixed = [*RECORDS, *declared]
    assert conclusion_of(mixed, 0, 3, "uniform").verdicts == {"failed": 2, "healthy": 1}
    said = conclusion_of(mixed, 0, 3, "declared")
    assert (said.verdicts, said.expectation) == ({"failed": 2}, "declared")
    assert collect.is_settled(mixed, 3, "uniform")
    assert not collect.is_settled(mixed, 3, "declared")


def test_flows_that_leaves_had_no_room_for_are_neither_healthy_nor_failed() -> None:
    refused = {"event": "UNMEASURED", "mono_ns": 5, "node": "p0-leaf3", "epoch": 2, "plane": 0, "src_leaf": 3,
               "dst_leaf": 4, "src_host": 3, "dst_host": 4, "qpn": 9, "reason": "no room"}  # fmt: skip
    records = [refused, refused | {"qpn": 10}, *RECORDS]
    conclusion = conclusion_of(records, None, 5, "uniform")
    assert conclusion.unmeasured == {"h3>h4 at p0-leaf3: no room": 2}
    assert (conclusion.verdicts, collect.unmeasured_count(records)) == ({"failed": 2, "healthy": 1}, 2)
