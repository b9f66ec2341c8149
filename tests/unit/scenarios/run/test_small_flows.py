"""Flows that are too small alone: known before the run whether their sums say enough."""

from typing import Any

from scenarios.file.model import Scenario
from scenarios.file.plan import Plan, plan_of
from scenarios.run.power import warnings_of
from scenarios.run.small_flows import add_up


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
    declared = {"detector": {"expectation": "declared", "min_rate": "0.5%"}}
    assert any("verdicts will be" in told for told in warnings_of(plan(2, 1200, **declared))), "others are added up"
