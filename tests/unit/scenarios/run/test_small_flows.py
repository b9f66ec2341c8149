"""Flows that are too small alone: known before the run whether their sums say enough."""

from typing import Any

from scenarios.file.model import Scenario
from scenarios.file.plan import Plan, plan_of
from scenarios.run.power import warnings_of
from scenarios.run.small_flows import add_up, left_over


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
