"""Flows that are too small alone: known before the run whether their sums say enough."""

from typing import Any

from scenarios.file.model import Scenario
from scenarios.file.plan import Plan, plan_of
from scenarios.run.power import warnings_of
from scenarios.run.small_flows import add_up, left_over, sums_of


def plan(flows: int, packets: int, **parts: Any) -> Plan:
    """So many flows of `packets` packets a path, all from h0 to h1, on one plane with 8 spines."""
    pairs = tuple((0, 1) for _ in range(flows))
    values = {
        "version": 1, "name": "x", "topology": {"planes": 1, "leaves": 2, "spines": 8},
        "workloads": ({"type": "write", "pairs": pairs, "packets": 8 * packets},),
    }  # fmt: skip
    return plan_of(Scenario.model_validate(values | parts))


def test_a_large_flow_needs_no_other_and_a_small_one_does() -> None:
    assert add_up(plan(1, 2000))
    assert not add_up(plan(1, 1200))
    assert add_up(plan(2, 1200))


def test_what_is_left_over_is_not_judged() -> None:
    assert add_up(plan(4, 1200)), "two sums of two"
    assert not add_up(plan(3, 1200))


def test_the_warning_goes_where_sums_are_enough() -> None:
    assert any("verdicts will be `insufficient`" in told for told in warnings_of(plan(1, 1200)))
    assert not any("verdicts will be" in told for told in warnings_of(plan(2, 1200)))


def test_by_declaration_all_flows_over_a_link_count() -> None:
    """A drop of 0.5 % takes 2 251 packets a path of 8."""
    declared: Any = {"detector": {"expectation": "declared", "min_rate": "0.5%"}}
    assert any("verdicts will be" in told for told in warnings_of(plan(2, 1100, **declared)))
    assert not any("verdicts will be" in told for told in warnings_of(plan(2, 1200, **declared)))
    fabric = {"planes": 1, "leaves": 4, "spines": 8}
    for pairs, enough in ((((0, 1), (2, 1), (2, 3), (0, 3)), True), (((0, 1), (2, 1), (2, 3)), False)):
        workloads = ({"type": "write", "pairs": pairs, "packets": 8 * 1200},)
        assert add_up(plan(0, 0, **declared, topology=fabric, workloads=workloads)) is enough, "each leaf's links"
    one: Any = {"detector": declared["detector"] | {"select": "one"}}
    assert not add_up(plan(2, 1200, **one)), "which flows are measured is not known"


def test_pairs_with_writes_left_over_are_told() -> None:
    assert left_over(plan(4, 1200)) == frozenset()
    assert left_over(plan(3, 1200)) == {(0, 1)}
    assert left_over(plan(1, 2000)) == frozenset()


MANY: Any = {
    "topology": {"planes": 2, "leaves": 8, "spines": 8}, "detector": {"expectation": "declared"},
}  # fmt: skip


def many(packets: int, **parts: Any) -> list[str]:
    """Warnings of the length of 112 flows: each link gets 14 of them."""
    work = {"type": "write", "strides": tuple(range(1, 8)), "qps": 2, "packets": packets}
    told = warnings_of(plan(0, 0, **MANY, workloads=(work,), **parts))
    return [text for text in told if "needs" in text]


def test_by_declaration_the_advice_is_that_of_the_sum_and_holds_from_there() -> None:
    (told,) = many(512)
    assert told.startswith("448 packets over a link in sum, of 14 flows, but a drop of 1%")
    assert "needs 1,321" in told
    assert "send 1,520 packets a flow" in told
    assert many(1519)
    assert many(1520) == []


def test_paths_over_a_link_that_drops_do_not_clear_the_others_they_cross() -> None:
    faults = ({"link": "p0:leaf3>spine5", "drop": "1%"},)
    (told,) = many(1520, faults=faults)
    assert "of 12 flows" in told, "links down from spine 5 are judged without the two flows from leaf 3"
    assert "send 1,776 packets a flow" in told
    assert many(1776, faults=faults) == []


def test_a_smaller_drop_is_held_against_what_its_link_gets_in_sum() -> None:
    faults = ({"link": "p0:leaf3>spine5", "drop": "0.5%"},)
    (told,) = many(1776, faults=faults)
    assert told.startswith("1,554 packets over the link in sum, but the fault's drop of 0.5% needs ")
    assert many(8192, faults=faults) == []


def test_flows_that_are_large_enough_alone_need_no_link_to_clear_them() -> None:
    lone = ({"type": "write", "pairs": ((0, 1),), "packets": 8 * 3000},)
    few = {"planes": 1, "leaves": 2, "spines": 8}
    assert add_up(plan(0, 0, topology=few, detector=MANY["detector"], workloads=lone))


def lengths(flows: int, packets: int, **parts: Any) -> list[str]:
    return [text for text in warnings_of(plan(flows, packets, **parts)) if "needs" in text]


def test_flows_left_over_from_sums_are_told_as_what_they_are() -> None:
    (told,) = lengths(3, 1200)
    assert told.startswith(
        "small flows are added up, and what is left from leaf 0 to leaf 1 (1 flow) has 1,200 packets a path"
    )
    assert "its verdicts will be `insufficient` and the run fails; send 14,392 packets a flow" in told
    (told,) = lengths(2, 300)
    assert "(2 flows) has 600 packets a path, but" in told
    (told,) = lengths(1, 300)
    assert told.startswith("300 packets a path, but")


def test_a_faults_drop_is_held_against_the_smallest_sum() -> None:
    link = "p0:leaf0>spine5"
    assert lengths(2, 1200, faults=({"link": link, "drop": "2%"},)) == []
    (told,) = lengths(2, 1200, faults=({"link": link, "drop": "0.5%"},))
    assert told.startswith("2,400 packets a path with small flows added up, but the fault's drop of 0.5% needs ")
    assert sums_of(plan(5, 1200)).judged == (2400, 2400)
