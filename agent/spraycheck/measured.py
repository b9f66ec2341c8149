"""The sensitivity s of a spray policy from healthy counts, as the paper finds it, with what it rests on.

For policies whose variance is not known by construction, and as the check of those whose is. Pure. SprayCheck S2, S4.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtri

from agent.spraycheck.binomial import at_least
from agent.spraycheck.calibration import Calibration, FlowShape

CONFIDENCE = 0.95
"""Of the bound on the false-alarm rate."""


@dataclass(frozen=True, slots=True)
class Healthy:
    """What healthy flows of one shape showed."""

    paths: int
    largest: NDArray[np.float64]
    """Of each flow its largest deficit, in units of sqrt(λ), `(flows,)`."""
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
    """Upper bound of the false-alarm rate a flow that these flows alone allow to claim, at CONFIDENCE."""


def healthy_of(counts: NDArray[np.int64]) -> Healthy:
    """Deficits of healthy flows, `(flows, k)` counts of all paths of flows with equal N."""
    expected = counts.sum(axis=1, keepdims=True) / counts.shape[1]
    deficits = (expected - counts) / np.sqrt(expected)
    return Healthy(counts.shape[1], deficits.max(axis=1), float(np.mean(deficits**2)))


def measured_s(healthy: Healthy, false_alarm: float) -> Measured:
    """s such that a healthy flow has any path flagged with probability at most `false_alarm`.

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


def calibration_by(measured: Measured, shape: FlowShape) -> Calibration:
    """For a policy known by its measured variance only, such as switches that spray by queue length."""
    source = f"measured: {measured.flows} healthy flows, variance {measured.dispersion:.3g} λ"
    return Calibration(measured.s, 0, f"{source}, for {shape.paths} paths")


def roc(
    healthy: Healthy, counts: NDArray[np.int64], rate: float, grid: Sequence[float]
) -> list[tuple[float, float, float]]:
    """For each s of `grid`: s, false alarms a healthy flow, and misses of a path that drops `rate`.

    Misses are those of the same healthy counts, thinned: exact but for which counts were seen, `(flows, k)`.
    """
    expected = counts.sum(axis=1) / counts.shape[1]
    points = []
    for s in grid:
        thresholds = np.ceil(expected - s * np.sqrt(expected)).astype(np.int64)
        missed = [
            at_least(int(threshold), int(count), 1 - rate)
            for threshold, row in zip(thresholds, counts, strict=True)
            for count in row
        ]
        points.append((s, float(np.mean(healthy.largest > s)), float(np.mean(missed))))
    return points
