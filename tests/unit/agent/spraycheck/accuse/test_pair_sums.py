"""Small flows of one pair of leaves, added up until they say something."""

import numpy as np
import pytest
from scipy.stats import binom

from agent.spraycheck.accuse.pair_sums import LeafPair, PairTotals
from agent.spraycheck.statistics.calibration import ROTATION_ENDS, FlowShape
from agent.spraycheck.statistics.uniform import Asked, Verdict, plan_test, uniform_packets_needed
from agent.wire.constants import SprayPolicyCode

ROTATION, RANDOM = SprayPolicyCode.ROTATION, SprayPolicyCode.RANDOM
PAIR = LeafPair(0, 3, 4)
ASKED = Asked(0.01)


def test_flows_too_small_alone_are_judged_together():
    totals = PairTotals[int](ASKED)
    shape = FlowShape(ROTATION, 8 * 600, 8)
    counts = np.array([600] * 7 + [594])
    found = [totals.add(PAIR, shape, counts, turn) for turn in range(20)]
    judged = [each for each in found if each is not None]
    assert found[:3] == [None] * 3
    assert len(judged) == 1
    assert [each.verdict for each in judged[0].verdicts] == [Verdict.HEALTHY] * 7 + [Verdict.FAILED]
    assert judged[0].members == tuple(range(judged[0].test.shape.flows))
    assert judged[0].test.shape.expected >= uniform_packets_needed(ROTATION, 8, 1, ASKED)


def test_every_flow_brings_its_own_ends():
    shape = FlowShape(ROTATION, 8 * 10_000, 8, flows=10)
    assert plan_test(shape, ASKED).calibration.end_effect_pkts == 10 * ROTATION_ENDS


def test_pairs_planes_and_policies_are_kept_apart_and_a_judged_sum_begins_anew():
    totals = PairTotals[str](ASKED)
    shape, counts = FlowShape(ROTATION, 8 * 1700, 8), np.full(8, 1700)
    assert plan_test(shape, ASKED).weakness is not None
    others = (LeafPair(1, 3, 4), LeafPair(0, 4, 3), LeafPair(0, 3, 5))
    assert all(totals.add(pair, shape, counts, "first") is None for pair in (PAIR, *others))
    assert totals.add(PAIR, FlowShape(RANDOM, 8 * 1700, 8), counts, "random") is None
    total = totals.add(PAIR, shape, counts, "second")
    assert total is not None
    assert (total.test.shape.packets, total.members) == (2 * 8 * 1700, ("first", "second"))
    assert totals.add(PAIR, shape, counts, "third") is None
    assert totals.add(others[0], shape, counts, "fourth") is not None


def test_a_flow_may_not_be_longer_than_its_psns():
    with pytest.raises(ValueError, match="more than a flow can number"):
        PairTotals[int](ASKED).add(PAIR, FlowShape(ROTATION, (1 << 24) + 8, 8), np.full(8, 1 << 21), 0)


def test_sums_of_random_flows_keep_the_false_alarms_of_one():
    """1,500 sums, each tested once at 5 %; 10 % is what takes some 4,000 packets a path."""
    rng = np.random.default_rng(1)
    asked = Asked(0.1, false_alarm=0.05)
    totals, alarms, sums = PairTotals[None](asked), 0, 0
    while sums < 1500:
        total = totals.add(PAIR, FlowShape(RANDOM, 8000, 8), rng.multinomial(8000, np.full(8, 1 / 8)), None)
        if total is not None:
            sums += 1
            alarms += any(each.verdict is Verdict.FAILED for each in total.verdicts)
    assert alarms <= binom.ppf(1 - 1e-4, 1500, 0.05)


@pytest.mark.parametrize("policy", [ROTATION, RANDOM])
def test_sums_miss_no_more_than_allowed(policy):
    """A path that drops the asked rate is found by the first sum, over 1,000 seeds; nothing healthy is accused."""
    rng = np.random.default_rng(2)
    asked, missed, wrong, runs = Asked(0.1, miss=0.01), 0, 0, 1000
    packets = 4000 if policy is RANDOM else 500
    for _ in range(runs):
        totals = PairTotals[None](asked)
        while True:
            if policy is RANDOM:
                sent = rng.multinomial(packets, np.full(8, 1 / 8))
            else:
                ends = rng.permutation([1, -1, 1, -1, 0, 0, 0, 0])
                sent = packets // 8 + ends
            arrived = np.concatenate((rng.binomial(sent[:1], 0.9), sent[1:]))
            total = totals.add(PAIR, FlowShape(policy, int(sent.sum()), 8), arrived, None)
            if total is not None:
                break
        verdicts = [each.verdict for each in total.verdicts]
        missed += verdicts[0] is not Verdict.FAILED
        wrong += Verdict.FAILED in verdicts[1:]
    assert missed <= binom.ppf(1 - 1e-4, runs, asked.miss)
    assert wrong <= binom.ppf(1 - 1e-4, runs, asked.false_alarm)
