"""Test by declared counts: packets arrived against packets sent on each path, as the flow's sender declared them.

The null hypothesis is "loses no more than stray packets", not "got its share": a deficit of a few packets is proof, and
nothing is assumed of how the sender sprayed, so EVs may be skipped, retired and replaced. Pure; docs/detector.md.
"""

from dataclasses import dataclass
from functools import cache, lru_cache
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from agent.spraycheck.statistics.binomial import all_at_least, at_least, at_most, quantile
from agent.spraycheck.statistics.loss_groups import DOUBT_ALARM, Counts, Flags, in_lossy_group, level_against
from agent.spraycheck.statistics.uniform import COMMON_LOSS_ALARM, MAX_PACKETS
from agent.spraycheck.statistics.verdicts import (
    LOST_ALIKE,
    NOTHING_SENT,
    STRAY_RATE,
    Doubt,
    DoubtKind,
    PathVerdict,
    Requirements,
    Verdict,
)

ALIKE_ALARM = 0.05
"""Probability that a source whose link does lose packets is left open, since the paths differ by chance. Our choice: it
only withholds an answer, and a second flow of the host gives another chance."""

_SURPLUS = Doubt(
    DoubtKind.SURPLUS, "more packets arrived than were sent: duplicated, or the declaration is not of these packets"
)


@dataclass(frozen=True, slots=True)
class SourceVerdict:
    """Verdict of one flow on what its paths have in common: the host's own link, or all its leaf's uplinks."""

    sent: int
    """Packets sent on the paths not found failed by themselves."""
    lost: int
    verdict: Verdict
    reason: str | None
    """Why `insufficient`."""
    p_value: float
    """Probability that stray losses alone are as many."""
    alike: float
    """Probability that paths which lose alike differ as much as these: likelihood ratio, k - 1 degrees of freedom."""


def judge_declared(sent: Counts, arrived: Counts, required: Requirements) -> tuple[PathVerdict, ...]:
    """Judge all k paths of a flow, each argument `(k,)`.

    `arrived` are first transmissions that reached the destination leaf, also those of which only the header did: a
    trimmed packet met congestion, not a fault. Raises ValueError for counts that cannot be.
    """
    lost = _lost(sent, arrived)
    p_values = stray_p_values(sent, lost, required.stray_rate)
    flags = flagged(sent, lost, required)
    return tuple(
        _judge_path(
            path, (int(sent[path]), int(arrived[path])), float(p_values[path]), bool(flags[path]), sent, required
        )
        for path in range(len(sent))
    )


def judge_source(sent: Counts, arrived: Counts, required: Requirements) -> SourceVerdict:
    """Judge whether the paths of a flow lose packets alike, without those failed by themselves; arguments as above.

    `failed` accuses the host's link to its leaf, or all uplinks of that leaf at once, or all links down to the
    destination: which of them it is, flows to other leaves and other hosts of the leaf show.
    """
    lost = _lost(sent, arrived)
    rest = ~flagged(sent, lost, required) & (sent > 0)
    all_sent, all_lost = int(sent[rest].sum()), int(lost[rest].sum())
    p_value = at_least(all_lost, all_sent, required.stray_rate)
    alike = _alike(sent[rest], lost[rest])
    verdict, reason = _source_verdict(int(rest.sum()), len(sent), all_sent, p_value, alike, required)
    return SourceVerdict(all_sent, all_lost, verdict, reason, p_value, alike)


def judge_host_link(sent: int, entered: int, required: Requirements) -> Verdict:
    """Judge the host's link by the source leaf's own count: `entered` of `sent` packets reached the leaf."""
    lost = sent - entered
    if lost < 0 or sent < 1:
        return Verdict.INSUFFICIENT
    if at_least(lost, sent, required.stray_rate) <= required.test_level:
        return Verdict.FAILED
    weak = at_most(least_loss(sent, 1.0, required) - 1, sent, required.min_rate) > required.miss
    return Verdict.INSUFFICIENT if weak else Verdict.HEALTHY


def stray_p_values(sent: Counts, lost: Counts, stray_rate: float) -> NDArray[np.float64]:
    """Compute P(as many lost or more) on a path that loses stray packets only, exact; any shape."""
    return all_at_least(lost, sent, stray_rate)


def flagged(sent: Counts, lost: Counts, required: Requirements) -> Flags:
    """Find the failed paths by `(..., k)` packets sent and lost, one flow per row.

    A path loses more than stray packets do, and more than losses common to all paths of its flow would make it. Where
    the other paths lost stray packets only, there is no sign of such losses, and 1 % is doubt enough; where they lost
    more, a lossy host link is as good an explanation, and the path must stand out at the level of every test of a run.
    """
    short = stray_p_values(sent, lost, required.stray_rate) <= required.test_level
    if sent.shape[-1] == 1 or not short.any():
        return short
    all_lost = lost.sum(-1, keepdims=True)
    share = sent / np.maximum(sent.sum(-1, keepdims=True), 1)
    others = sent.sum(-1, keepdims=True) - sent
    level = level_against(COMMON_LOSS_ALARM, others, all_lost - lost, required.stray_rate, required.test_level)
    alone = all_at_least(lost, all_lost, share) <= level
    flags: Flags = short & (alone | in_lossy_group(sent, lost, required.stray_rate, required.test_level))
    return flags


def least_loss(sent: int, share: float, required: Requirements) -> int:
    """Find the fewest packets lost, of `sent`, that flag a path with `share` of a flow which lost no others."""
    return max(_beyond_stray(sent, required), _standing_out(share, 0, COMMON_LOSS_ALARM))


@lru_cache(1 << 16)
def declared_miss(sent: int, all_sent: int, required: Requirements) -> float:
    """Compute P(not flagged), exact, for the one path of a flow that drops the required rate of `sent` packets.

    The other paths lose stray packets, and the more they lose the harder it is to stand out.
    """
    stray, others = _beyond_stray(sent, required), all_sent - sent
    usual = quantile(1 - DOUBT_ALARM, others, required.stray_rate) if others else 0
    share, miss = sent / all_sent, 0.0
    for lost in range(usual + 1):
        needed = max(stray, _standing_out(share, lost, COMMON_LOSS_ALARM))
        chance = at_least(lost, others, required.stray_rate) - at_least(lost + 1, others, required.stray_rate)
        miss += chance * at_most(needed - 1, sent, required.min_rate)
    needed = max(stray, _standing_out(share, usual + 1, required.test_level))
    return miss + at_least(usual + 1, others, required.stray_rate) * at_most(needed - 1, sent, required.min_rate)


@cache
def declared_packets_needed(paths: int, required: Requirements) -> int | None:
    """Find the packets per path from which on the required rate is hardly missed; None if no flow may be as long."""
    low = packets_needed(required.min_rate, paths, required.test_level, required.miss, required.stray_rate)
    if low is None or declared_miss(low, low * paths, required) <= required.miss:
        return low
    high = 2 * low
    while declared_miss(high, high * paths, required) > required.miss:
        if high > MAX_PACKETS // paths:
            return None
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        enough = declared_miss(middle, middle * paths, required) <= required.miss
        low, high = (low, middle) if enough else (middle, high)
    return high


@lru_cache(1 << 16)
def _beyond_stray(sent: int, required: Requirements) -> int:
    """Find the fewest lost packets that are no stray losses."""
    unflagged = quantile(1 - required.test_level, sent, required.stray_rate)
    while at_least(unflagged + 1, sent, required.stray_rate) > required.test_level:  # 1 - level has lost digits
        unflagged += 1
    return unflagged + 1


@lru_cache(1 << 16)
def _standing_out(share: float, others: int, level: float) -> int:
    """Find the fewest lost packets with which a path with `share` of its flow stands out; others lost `others`."""
    if share >= 1:
        return 1
    high = 1
    while at_least(high, high + others, share) > level:
        high *= 2
    low = high // 2
    # Bisected, since it takes log(level) / log(share) losses: many for a path that carries nearly all of a flow.
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if at_least(middle, middle + others, share) > level else (low, middle)
    return high


def packets_needed(
    rate: float, paths: int, alpha: float, beta: float, stray_rate: float = STRAY_RATE, most: int = MAX_PACKETS
) -> int | None:
    """Find the fewest packets per path, of `paths`, that separate `rate` from stray losses; None above `most`.

    At most `alpha` of healthy paths are flagged and at most `beta` of failed ones missed. Exact: the test flags from
    the smallest loss that alpha allows on, is uniformly most powerful (Neyman-Pearson), and so no test does with fewer,
    but for what standing out from the other paths costs. `0 < stray_rate < rate <= 1`.
    """
    fewest = _standing_out(1 / paths, 0, COMMON_LOSS_ALARM)
    # One step per loss that might be the threshold; about 10 of them.
    for loss in range(fewest, most + 1):
        packets = _packets_for(loss, rate, beta, most)
        if packets is None:
            return None
        if at_least(loss, packets, stray_rate) <= alpha:
            return packets
    return None


def _packets_for(loss: int, rate: float, beta: float, most: int) -> int | None:
    """Find the fewest packets of which less than `loss` are lost with probability at most `beta`."""
    low, high = loss - 1, most
    if at_most(loss - 1, high, rate) > beta:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if at_most(loss - 1, middle, rate) <= beta else (middle, high)
    return high


def _judge_path(
    path: int, counted: tuple[int, int], p_value: float, failed: bool, all_sent: Counts, required: Requirements
) -> PathVerdict:
    sent, came = counted
    snr = (required.min_rate - required.stray_rate) * sqrt(
        sent / max(required.min_rate * (1 - required.min_rate), 1e-12)
    )
    if failed:
        return PathVerdict(path, came, Verdict.FAILED, None, p_value, snr)
    doubt = _doubt(sent, came, p_value, int(all_sent.sum()), required)
    return PathVerdict(path, came, Verdict.INSUFFICIENT if doubt else Verdict.HEALTHY, doubt, p_value, snr)


def _doubt(sent: int, came: int, p_value: float, all_sent: int, required: Requirements) -> Doubt | None:
    """Return the reason why an unflagged path is not healthy; None if it is."""
    if came > sent:
        return _SURPLUS
    if sent == 0:
        return NOTHING_SENT
    if p_value <= required.test_level:
        return LOST_ALIKE
    miss = declared_miss(sent, all_sent, required)
    if miss > required.miss:
        text = (
            f"a drop of {100 * required.min_rate:.4g}% of {sent:,} packets would be missed with probability {miss:.2g}"
        )
        return Doubt(DoubtKind.FEW_PACKETS, text)
    return None


def _source_verdict(
    rest: int, paths: int, sent: int, p_value: float, alike: float, required: Requirements
) -> tuple[Verdict, str | None]:
    if rest < 2:
        return Verdict.INSUFFICIENT, "fewer than two paths to compare"
    if 2 * rest < paths:
        return Verdict.INSUFFICIENT, "most paths failed by themselves: they may have one cause"
    if p_value > required.test_level:
        miss = at_most(least_loss(sent, 1.0, required) - 1, sent, required.min_rate)
        weak = None
        if miss > required.miss:
            weak = f"a drop of {100 * required.min_rate:.4g}% would be missed with probability {miss:.2g}"
        return Verdict.INSUFFICIENT if weak else Verdict.HEALTHY, weak
    if alike < ALIKE_ALARM:
        return Verdict.INSUFFICIENT, "packets were lost on some paths more than on others, but on none clearly"
    return Verdict.FAILED, None


def _alike(sent: Counts, lost: Counts) -> float:
    all_sent, all_lost = int(sent.sum()), int(lost.sum())
    if len(sent) < 2 or all_lost == 0:
        return 1.0
    expected = sent * (all_lost / all_sent)
    ratio = 2 * float(np.sum(np.where(lost > 0, lost * np.log(np.maximum(lost, 1) / expected), 0.0)))
    return float(chdtrc(len(sent) - 1, ratio))


def _lost(sent: Counts, arrived: Counts) -> Counts:
    """Count the packets that did not arrive, `(k,)`. Raises ValueError."""
    if sent.ndim != 1 or sent.shape != arrived.shape or not len(sent):
        raise ValueError(f"{sent.shape} paths were sent on and {arrived.shape} counted: one number per path is needed")
    if min(sent.min(), arrived.min()) < 0:
        raise ValueError("a negative number of packets")
    lost: Counts = np.maximum(sent - arrived, 0)
    return lost
