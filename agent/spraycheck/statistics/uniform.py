"""Test by equal shares: SprayCheck's one-sided test of counts per arrival spine, with its power.

Pure: no clock, no map, no file. A count below the threshold is `failed`, unless the whole flow is short alike. A path
is `healthy` only where a drop of the required rate would hardly be missed. SprayCheck S1 to S5; docs/detector.md.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from math import ceil, floor, sqrt

import numpy as np
from numpy.typing import NDArray

from agent.spraycheck.statistics.binomial import at_least, at_most, quantile
from agent.spraycheck.statistics.calibration import Calibration, FlowShape, calibrate
from agent.spraycheck.statistics.loss_groups import in_lossy_group
from agent.spraycheck.statistics.verdicts import (
    SHORT_ALIKE,
    Doubt,
    DoubtKind,
    PathVerdict,
    Requirements,
    Verdict,
)
from agent.wire.constants import PSN_SPACE, SprayPolicyCode

MAX_PACKETS = PSN_SPACE
"""Most packets of a flow over all planes: a leaf knows them by the first and last PSN, so no PSN may come twice."""


COMMON_LOSS_ALARM = 0.01
"""Probability that a path of a flow that loses packets on its host's link is flagged all the same. Our choice: a
smaller number would cost flows of a fabric with few spines, of which two must be wrong alike before a link is named."""


@dataclass(frozen=True, slots=True)
class FlowTest:
    """Test of one flow, fixed before anything is counted (S4)."""

    shape: FlowShape
    calibration: Calibration
    threshold: float
    """t = λ - s·sqrt(λ); a count below it is flagged."""
    snr: float
    """p·sqrt(λ) at the required rate (S5)."""
    miss: float
    """Probability, at most, that the one path which drops the required rate is not found failed."""
    weakness: Doubt | None
    """Reason why an unflagged count says nothing, or None if it means healthy."""
    required: Requirements
    """Rates and error probabilities that it is made for."""


@lru_cache(1 << 14)
def plan_test(shape: FlowShape, required: Requirements) -> FlowTest:
    """Plan the test for a flow of this shape. Raises ValueError for one without packets or paths, or with too many."""
    if shape.packets < 1 or shape.paths < 1:
        raise ValueError(f"nothing to test: {shape.packets} packets over {shape.paths} paths")
    if shape.packets > MAX_PACKETS * shape.flows:
        raise ValueError(f"{shape.packets} packets are more than a flow can number, {MAX_PACKETS}")
    calibration = calibrate(shape, required.false_alarm)
    expected = shape.expected
    threshold = expected - calibration.s * sqrt(expected)
    miss = miss_probability(shape, threshold, calibration, required.min_rate)
    weakness = _weakness(expected - threshold, calibration, miss, required)
    return FlowTest(shape, calibration, threshold, required.min_rate * sqrt(expected), miss, weakness, required)


@cache
def uniform_packets_needed(policy: SprayPolicyCode, paths: int, copies: int, required: Requirements) -> int | None:
    """Find the packets per path from which on the required rate is hardly missed; None if no flow may be as long."""

    def is_enough(packets: int) -> bool:
        return plan_test(FlowShape(policy, packets * paths, paths, copies), required).weakness is None

    low, high, most = 1, 1, MAX_PACKETS // paths
    while not is_enough(high):
        if high == most:
            return None
        low, high = high, min(2 * high, most)
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return _from_where_on(is_enough, high, min(high + 2 * _tooth(policy, high, paths, copies, required), most))


def _tooth(policy: SprayPolicyCode, packets: int, paths: int, copies: int, required: Requirements) -> int:
    """Return the packets after which the margin s√λ has grown by one packet: there a test misses more than before."""
    s = plan_test(FlowShape(policy, packets * paths, paths, copies), required).calibration.s
    return ceil(2 * sqrt(packets) / s)


def _from_where_on(is_enough: Callable[[int], bool], first: int, last: int) -> int:
    """Find the number from which on all up to `last` are enough; `first` is, and some behind it may not be."""
    return max((packets for packets in range(first, last) if not is_enough(packets)), default=first - 1) + 1


def miss_probability(shape: FlowShape, threshold: float, calibration: Calibration, rate: float) -> float:
    """Compute P(not failed), at most, for the one path of a flow that drops each packet with probability `rate`."""
    if shape.policy is SprayPolicyCode.RANDOM:
        return _random_miss(shape, threshold, rate)
    return _rotation_miss(shape, threshold, floor(shape.expected + calibration.end_effect_pkts), rate)


def _rotation_miss(shape: FlowShape, threshold: float, most_sent: int, rate: float) -> float:
    """Compute P(not failed), exact, for a path that was given as many packets as it can be."""
    lost = max(most_sent - ceil(threshold) + 1, 0)
    while lost <= most_sent and not _more_than_its_share(shape.expected - (most_sent - lost), lost, shape.paths):
        lost += 1
    return at_most(lost - 1, most_sent, rate)


def _random_miss(shape: FlowShape, threshold: float, rate: float) -> float:
    """Add P(the count is not short), exact, and P(it does not stand out from the rest), at the mean of what arrives."""
    not_short = at_least(ceil(threshold), shape.packets, (1 - rate) / shape.paths)
    if shape.paths == 1:
        return not_short
    arrived = round(shape.packets * (1 - rate / shape.paths))
    usual = quantile(COMMON_LOSS_ALARM, arrived, 1 / shape.paths)
    return min(1.0, not_short + at_least(usual, arrived, (1 - rate) / (shape.paths - rate)))


def judge(test: FlowTest, counts: NDArray[np.int64]) -> tuple[PathVerdict, ...]:
    """Judge the counts of all k paths, `(k,)`.

    If the counts prove that the flow was not shared as expected, every path is `insufficient`.
    """
    surplus, total, in_group = _surplus(test, counts), int(counts.sum()), _in_lossy_group(test, counts)
    return tuple(
        _judge_path(test, path, int(count), total, bool(in_group[path]), surplus) for path, count in enumerate(counts)
    )


def _judge_path(
    test: FlowTest, path: int, count: int, total: int, in_group: bool, surplus: Doubt | None
) -> PathVerdict:
    deficit = test.shape.expected - count
    short = count < test.threshold and deficit > test.calibration.end_effect_pkts
    p_value = healthy_p_value(test, count)
    if surplus is None and short and (in_group or _stands_out(test, count, total)):
        return PathVerdict(path, count, Verdict.FAILED, None, p_value, test.snr)
    doubt = surplus or (SHORT_ALIKE if short else test.weakness)
    verdict = Verdict.INSUFFICIENT if doubt else Verdict.HEALTHY
    return PathVerdict(path, count, verdict, doubt, p_value, test.snr)


def certain_losses(test: FlowTest, count: int) -> tuple[int, int]:
    """Return packets put on a path and, at least, lost of them, to its favour; (0, 0) where chance decides how many."""
    if test.shape.policy is SprayPolicyCode.RANDOM:
        return 0, 0
    sent = floor(test.shape.expected)
    return sent, max(sent - test.calibration.end_effect_pkts - count, 0)


def healthy_p_value(test: FlowTest, count: int) -> float:
    """Compute P(count or less) on a healthy path: by spraying (random), or by stray losses at worst ends (rotation)."""
    if test.shape.policy is SprayPolicyCode.RANDOM:
        return at_most(count, test.shape.packets, 1 / test.shape.paths)
    ends = test.calibration.end_effect_pkts
    return at_least(
        ceil(test.shape.expected - ends) - count, floor(test.shape.expected + ends), test.required.stray_rate
    )


def _in_lossy_group(test: FlowTest, counts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Find the paths of a group that lost more than the rest, `(k,)`; none under random spraying."""
    deficits = np.ceil(test.shape.expected - counts).astype(np.int64)
    if test.shape.policy is SprayPolicyCode.RANDOM or test.shape.paths == 1:
        return np.zeros(len(counts), np.bool_)
    lost = np.where(deficits > test.calibration.end_effect_pkts, deficits, 0)
    sent = np.maximum(counts + lost, lost)
    return in_lossy_group(sent, lost, test.required.stray_rate, test.required.test_level)


def _stands_out(test: FlowTest, count: int, total: int) -> bool:
    """Report whether a short path is shorter than losses common to all paths would make it.

    Losses on the host's own link fall on every path alike: given how much arrived in all, a path's part of it (random)
    or of what is missing (rotation) is Binomial(·, 1/k). Where other paths certainly lost packets, too (rotation), such
    losses are as good an explanation, and the path must stand out at the level of every test of a run.
    """
    shape = test.shape
    if shape.paths == 1:
        return True
    if shape.policy is SprayPolicyCode.RANDOM:
        return at_most(count, total, 1 / shape.paths) <= COMMON_LOSS_ALARM
    deficit, lost = shape.expected - count, shape.packets - total
    others_lost = lost > deficit + test.calibration.end_effect_pkts
    return _more_than_its_share(
        deficit, lost, shape.paths, test.required.test_level if others_lost else COMMON_LOSS_ALARM
    )


def _more_than_its_share(deficit: float, lost: int, paths: int, level: float = COMMON_LOSS_ALARM) -> bool:
    return paths == 1 or at_least(floor(deficit), lost, 1 / paths) <= level


def _surplus(test: FlowTest, counts: NDArray[np.int64]) -> Doubt | None:
    """Return why N/k cannot have been the expectation: more arrived than was announced, or than an equal share."""
    total, most = int(counts.sum()), int(counts.max())
    if total > test.shape.packets:
        return Doubt(DoubtKind.SURPLUS, f"{total:,} packets counted, {test.shape.packets:,} announced")
    share = test.shape.expected + test.calibration.end_effect_pkts
    if test.calibration.end_effect_pkts and most > share:
        text = f"a path carried {most:,} packets, more than its share of {share:,.10g}: the flow was not shared equally"
        return Doubt(DoubtKind.SURPLUS, text)
    return None


def _weakness(margin: float, calibration: Calibration, miss: float, required: Requirements) -> Doubt | None:
    if margin < calibration.end_effect_pkts:
        text = f"margin of {margin:,.1f} packets is within the end effect of {calibration.end_effect_pkts}"
        return Doubt(DoubtKind.FEW_PACKETS, text)
    if miss > required.miss:
        text = (
            f"a drop of {100 * required.min_rate:.4g}% would be missed with probability {miss:.2g},"
            f" above {required.miss:g}"
        )
        return Doubt(DoubtKind.FEW_PACKETS, text)
    return None
