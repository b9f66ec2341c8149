"""Groups of paths that lose more than the rest of their flow: several failed paths hide one another's share.

Pure statistics of losses; knows no verdict.
"""

from math import log

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from agent.spraycheck.statistics.binomial import all_at_least

GROUP_ALARM = 1e-3
"""Probability that losses common to all paths of a flow make a group of them look failed, while the rest lost stray
packets only. Our choice: two failed paths of eight still show with five packets lost on each."""

DOUBT_ALARM = 0.01
"""Probability that stray losses of a flow's other paths make them look as if they failed, too. Our choice: a path must
then stand out more clearly, no more."""

Counts = NDArray[np.int64]
Flags = NDArray[np.bool_]


def level_against(mild: float, sent: Counts, lost: Counts, stray_rate: float, strict: float) -> NDArray[np.float64]:
    """Return the level for a difference to other paths, which lost `lost` of `sent`: `mild` if that is stray."""
    return np.where(all_at_least(lost, sent, stray_rate) > DOUBT_ALARM, mild, strict)


def in_lossy_group(sent: Counts, lost: Counts, stray_rate: float, strict: float) -> Flags:
    """Find the paths of groups that lose more than the rest of their flow.

    Once a group is found, the rest is looked at as a flow of its own: a path that loses much hides one that loses
    little. What is common to all paths of a flow is common to those of the rest, too, so each look has the stated
    level, and a second one is taken only after a first group.
    """
    flags = np.zeros(np.broadcast_shapes(sent.shape, lost.shape), np.bool_)
    while (found := _worst_group(np.where(flags, 0, sent), np.where(flags, 0, lost), stray_rate, strict)).any():
        flags |= found
    return flags


def _worst_group(sent: Counts, lost: Counts, stray_rate: float, strict: float) -> Flags:
    """Find the group that loses most, if it loses more than the rest; a path on which nothing was sent is in none.

    The group is the best split by loss rate. A tail bound (Chernoff) times the number of groups of that size and of
    sizes keeps the chance that losses common to all paths split anyhow below the level: GROUP_ALARM per flow if the
    rest lost stray packets only, else that of every test.
    """
    paths = sent.shape[-1]
    order = np.argsort(-lost / np.maximum(sent, 1), axis=-1, kind="stable")
    lost_by, sent_by = (np.take_along_axis(each, order, -1).cumsum(-1) for each in (lost, sent))
    all_lost, all_sent = lost_by[..., -1:], sent_by[..., -1:]
    sizes = np.arange(1, paths)
    groups = gammaln(paths + 1) - gammaln(sizes + 1) - gammaln(paths - sizes + 1)
    chances = groups - _divergence(lost_by[..., :-1], all_lost, sent_by[..., :-1] / np.maximum(all_sent, 1))
    best = chances.argmin(-1)[..., None]
    rest_lost = all_lost - np.take_along_axis(lost_by, best, -1)
    rest_sent = all_sent - np.take_along_axis(sent_by, best, -1)
    level = level_against(GROUP_ALARM, rest_sent, rest_lost, stray_rate, strict)
    splits = np.take_along_axis(chances, best, -1) + log(paths - 1) <= np.log(level)
    above_rest = all_at_least(lost, lost + rest_lost, sent / np.maximum(sent + rest_sent, 1)) <= level
    inside = np.argsort(order, axis=-1, kind="stable") <= best
    found: Flags = splits & inside & above_rest & (lost > 0)
    return found


def _divergence(part: Counts, whole: Counts, share: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute -log of the Chernoff bound of P(X >= part), X ~ Binomial(whole, share); 0 up to the mean."""
    taken = part / np.maximum(whole, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        above = np.where(part > 0, taken * np.log(taken / share), 0.0)
        below = np.where(part < whole, (1 - taken) * np.log((1 - taken) / (1 - share)), 0.0)
    return np.where((taken > share) & (share > 0), whole * (above + below), 0.0)
