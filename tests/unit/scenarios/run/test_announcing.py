"""Which queue pairs of collectives are announced: those that are enough alone, or for certain with others."""

import json
import random
from typing import Any

import numpy as np
import pytest

from agent.spraycheck.aggregate import LeafPair, PairTotals
from agent.spraycheck.calibration import FlowShape
from agent.spraycheck.detector import Asked
from agent.wire.constants import SprayPolicyCode
from scenarios.file.model import Scenario
from scenarios.file.plan import Plan, plan_of
from scenarios.run import announcing
from scenarios.run.announcing import announced_ends, announced_sendings, crossing_sendings, least_packets
from scenarios.run.power import warnings_of

KIB = 1024
POLICIES = {"rotation": SprayPolicyCode.ROTATION, "random": SprayPolicyCode.RANDOM}


def plan(qps: int, kib: int, *others: dict[str, Any], planes: int = 1, spray: str = "rotation", **parts: Any) -> Plan:
    """An all-to-all of four hosts below four leaves; each queue pair sends `kib` / 4 / `qps` KiB ten times."""
    values = {
        "version": 1, "name": "x", "topology": {"planes": planes, "leaves": 4, "spines": 4},
        "transport": {"pmtu": 256, "spray": spray}, "detector": {"min_rate": "20%"},
        "workloads": [{"type": "all-to-all", "bytes": kib * KIB, "iterations": 9, "qps": qps}, *others],
    }  # fmt: skip
    return plan_of(Scenario.model_validate_json(json.dumps(values | parts)))


def test_small_queue_pairs_are_announced_where_they_are_enough_together() -> None:
    many = plan(8, 416)
    assert least_packets(many) == 4 * 400 > max(sent.packets for sent in crossing_sendings(many))
    assert len(announced_sendings(many)) == len(announced_ends(many)) == 12 * 8
    assert not any("collectives" in told for told in warnings_of(many))
    few = plan(1, 52)
    assert announced_sendings(few) == []
    assert any(told.startswith("12 of 12 queue pairs of collectives are not") for told in warnings_of(few))


def test_only_as_many_as_fill_sums_are_announced() -> None:
    whole, odd = plan(6, 312), plan(7, 364)
    assert len(announced_sendings(whole)) == 12 * 6
    assert 0 < len(announced_sendings(odd)) < 12 * 7


@pytest.mark.parametrize("spray", ["rotation", "random"])
@pytest.mark.parametrize("planes", [1, 2])
@pytest.mark.parametrize("qps", [5, 9, 16])
def test_in_whatever_order_they_end_no_flow_is_left_over(qps: int, planes: int, spray: str) -> None:
    """The monitor's own sums, of parts of a plane that differ as much as a schedule makes them."""
    made, rng = plan(qps, 80 * qps * planes, planes=planes, spray=spray), random.Random(qps)
    told = [each for each in announced_sendings(made) if (each.source, each.destination) == (0, 1)]
    assert told
    deviation = told[0].packets ** 0.5 / 2 if spray == "random" else 2
    for _ in range(20):
        totals, members = PairTotals[int](Asked(0.2)), 0
        for sent in rng.sample(told, len(told)):
            packets = sent.packets // planes + (round(deviation * rng.gauss()) if planes > 1 else 0)
            counts = np.full(4, packets // 4)
            total = totals.add(LeafPair(0, 0, 1), FlowShape(POLICIES[spray], packets, 4), counts, 1)
            members += len(total.members) if total else 0
        assert members == len(told)


def test_writes_between_the_same_leaves_keep_their_sums_to_themselves() -> None:
    small = {"type": "write", "pairs": [[0, 1]], "packets": 600}
    assert {(0, 1)} == set(announced_ends(plan(8, 416))) - set(announced_ends(plan(8, 416, small)))
    large = {"type": "write", "pairs": [[0, 1]], "packets": 6000}
    assert announced_ends(plan(8, 416)) == announced_ends(plan(8, 416, large))


def test_a_leaf_is_not_filled_with_small_flows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcing, "MOST_SMALL_FLOWS", 3 * 8 - 1)
    assert announced_sendings(plan(8, 416)) == []


@pytest.mark.parametrize("detector", [{"expectation": "declared"}, {"select": "one"}])
def test_only_what_is_added_up_is_announced(detector: dict[str, Any]) -> None:
    assert announced_sendings(plan(8, 208, detector={"min_rate": "5%", **detector})) == []
