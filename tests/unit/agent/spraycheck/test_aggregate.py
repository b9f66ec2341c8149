"""Small flows of one pair of leaves, added up until they say something."""

import numpy as np
import pytest

from agent.spraycheck.aggregate import LeafPair, PairTotals
from agent.spraycheck.calibration import ROTATION_ENDS, FlowShape
from agent.spraycheck.detector import Asked, Verdict, plan_test, uniform_packets_needed
from agent.wire.constants import SprayPolicyCode

ROTATION, RANDOM = SprayPolicyCode.ROTATION, SprayPolicyCode.RANDOM
PAIR = LeafPair(0, 3, 4)
ASKED = Asked(0.01)


def test_flows_too_small_alone_are_judged_together():
    totals = PairTotals(ASKED)
    shape = FlowShape(ROTATION, 8 * 600, 8)
    counts = np.array([600] * 7 + [594])
    found = [totals.add(PAIR, shape, counts) for _ in range(20)]
    judged = [each for each in found if each is not None]
    assert found[:3] == [None] * 3
    assert len(judged) == 1
    assert [each.verdict for each in judged[0].verdicts] == [Verdict.HEALTHY] * 7 + [Verdict.FAILED]
    assert judged[0].test.shape.expected >= uniform_packets_needed(ROTATION, 8, 1, ASKED)


def test_every_flow_brings_its_own_ends():
    shape = FlowShape(ROTATION, 8 * 10_000, 8, flows=10)
    assert plan_test(shape, ASKED).calibration.end_effect_pkts == 10 * ROTATION_ENDS


def test_pairs_planes_and_policies_are_kept_apart_and_a_judged_sum_begins_anew():
    totals = PairTotals(ASKED, p_min=1000)
    shape = FlowShape(ROTATION, 8 * 500, 8)
    counts = np.full(8, 500)
    others = (LeafPair(1, 3, 4), LeafPair(0, 4, 3), LeafPair(0, 3, 5))
    assert all(totals.add(pair, shape, counts) is None for pair in (PAIR, *others))
    assert totals.add(PAIR, FlowShape(RANDOM, 8 * 500, 8), counts) is None
    assert totals.packets_of(PAIR) == 8 * 1000
    total = totals.add(PAIR, shape, counts)
    assert total is not None
    assert total.test.shape.packets == 8 * 1000
    assert totals.packets_of(PAIR) == 8 * 500
    assert totals.packets_of(others[0]) == 8 * 500


def test_a_sum_may_be_longer_than_a_flow_may():
    totals = PairTotals(ASKED, p_min=2_000_000)
    shape = FlowShape(ROTATION, 1 << 23, 8)
    assert totals.add(PAIR, shape, np.full(8, 1 << 20)) is None
    assert totals.add(PAIR, shape, np.full(8, 1 << 20)) is not None
    with pytest.raises(ValueError, match="half of the PSN space"):
        totals.add(PAIR, FlowShape(ROTATION, (1 << 23) + 8, 8), np.full(8, 1 << 20))


def test_sums_of_random_flows_keep_the_false_alarms_of_one():
    rng = np.random.default_rng(1)
    asked = Asked(0.01, false_alarm=0.05)
    totals, alarms = PairTotals(asked, p_min=4000), 0
    for _ in range(1500):
        for _ in range(4):
            total = totals.add(PAIR, FlowShape(RANDOM, 8000, 8), rng.multinomial(8000, np.full(8, 1 / 8)))
        assert total is not None
        alarms += any(each.verdict is Verdict.FAILED for each in total.verdicts)
    assert alarms <= 108  # P(more of 1500 at 5 %) is 1e-4
