"""The sensitivity s of a spray policy from healthy counts, as the paper finds it, with what it rests on.

For policies whose variance is not known by construction, and as the check of those whose is. Pure. SprayCheck S2, S4.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtri

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
