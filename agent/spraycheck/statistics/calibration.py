"""Calibration of the test by equal shares: how far a healthy count may fall below N/k, by policy or as measured. Pure.

The sensitivity s of each spray policy has its reason; s from healthy counts, as the paper finds it, serves policies
whose variance is not known by construction and checks the others. Knows no drop rate. SprayCheck S2 and S4;
docs/detector.md explains it.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtri

from agent.spraycheck.statistics.binomial import quantile
from agent.wire.constants import SprayPolicyCode

ROTATION_S = 0.1
"""Our choice, by calibration. Above the end effect from 400 packets per path on (1 copy), so that a healthy count
cannot be flagged; allows a stray loss of s/sqrt(λ), 0.1 % at 10 000 packets; finds a 1 % drop from 1 800 packets on."""

ROTATION_ENDS = 2
"""Incomplete passes of a measured run of packets: it begins and ends inside a pass over the EVs; all others use each EV
once."""


@dataclass(frozen=True, slots=True)
class FlowShape:
    """Shape of a flow, known before any count: N first transmissions over k paths of one plane."""

    policy: SprayPolicyCode
    packets: int
    paths: int
    copies: int = 1
    """EVs that share one path."""
    flows: int = 1
    """Number of flows added up; each begins and ends inside a pass of its own."""
    vacant: int = 0
    """Number of further paths that are out of use; the others take over their packets in rotation (L4)."""

    @property
    def expected(self) -> float:
        """λ = N/k, packets per path (S1)."""
        return self.packets / self.paths


@dataclass(frozen=True, slots=True)
class Calibration:
    """Sensitivity of one flow's test."""

    s: float
    end_effect_pkts: int
    """Most packets by which a healthy path may differ from λ with certainty; 0 where only chance limits it."""
    source: str
    """Reason of this value, for the record."""


@lru_cache(1 << 14)
def calibrate(shape: FlowShape, false_alarm: float) -> Calibration:
    """Compute s so that a healthy flow has a path flagged with probability at most `false_alarm`, over all its k paths.

    Raises ValueError for a policy without a calibration.
    """
    if shape.policy is SprayPolicyCode.ROTATION:
        return _rotation(shape)
    if shape.policy is SprayPolicyCode.RANDOM:
        return _random(shape, false_alarm)
    raise ValueError(f"no calibration for {shape.policy!r}")


def _rotation(shape: FlowShape) -> Calibration:
    ends = ROTATION_ENDS * shape.copies * shape.flows
    if shape.vacant:  # what the turns of the others may differ by, shared out, and the ends of sharing it out
        ends += shape.flows * (-(-ROTATION_ENDS * shape.copies * shape.vacant // shape.paths) + shape.copies)
    if shape.flows > 1:  # the ends of many small flows add up; what is added up has to be judged nevertheless
        s = max(ROTATION_S, ends * (1 + 1e-9) / sqrt(shape.expected))
        return Calibration(s, ends, f"rotation: a healthy count of {shape.flows} flows is within {ends} packets of λ")
    return Calibration(ROTATION_S, ends, f"rotation: s = {ROTATION_S}, a healthy count is within {ends} packets of λ")


def _random(shape: FlowShape, false_alarm: float) -> Calibration:
    """Bonferroni: each of the k dependent tests gets false_alarm/k, of the exact binomial tail.

    The threshold lies half a packet below the smallest count that is not flagged, so that no rounding decides.
    """
    smallest_unflagged = quantile(false_alarm / shape.paths, shape.packets, 1 / shape.paths)
    s = (shape.expected - smallest_unflagged + 0.5) / sqrt(shape.expected)
    return Calibration(s, 0, f"random: binomial(N, 1/k) tail of {false_alarm:g}/{shape.paths} a path")


CONFIDENCE = 0.95
"""Confidence of the bound on the false-alarm rate."""


@dataclass(frozen=True, slots=True)
class Healthy:
    """Deficits of healthy flows of one shape."""

    paths: int
    largest: NDArray[np.float64]
    """Largest deficit of each flow, in units of sqrt(λ), `(flows,)`."""
    dispersion: float
    """Variance of a path's count in units of λ: 1 - 1/k under uniform random spraying, next to 0 under rotation."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A calibration with its evidence."""

    s: float
    flows: int
    dispersion: float
    largest: float
    """Largest deficit that any healthy path had; s is above it."""
    false_alarm_bound: float
    """Upper bound of the false-alarm rate per flow that these flows alone allow to claim, at CONFIDENCE."""


def measured_s(healthy: Healthy, false_alarm: float) -> Measured:
    """Compute s so that a healthy flow has any path flagged with probability at most `false_alarm`.

    A normal tail with the measured variance, shared among the k paths (Bonferroni), reaches rates that no number of
    runs could show; and no healthy path that was seen may be flagged, whatever the tail says. Raises ValueError
    without flows.
    """
    flows = len(healthy.largest)
    if flows == 0:
        raise ValueError("no healthy flow to calibrate by")
    tail = sqrt(healthy.dispersion) * float(-ndtri(false_alarm / healthy.paths))
    largest = float(healthy.largest.max())
    bound = 1 - float(betaincinv(flows, 1, 1 - CONFIDENCE))
    return Measured(max(tail, largest * (1 + 1e-9), 0.0), flows, healthy.dispersion, largest, bound)
