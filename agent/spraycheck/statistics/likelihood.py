"""How likely each explanation makes the losses that were counted, and at which loss rates of its links. Pure.

Model: a packet of a path is lost with the stray rate plus the rates of those of the explanation's links that the path
crosses; counts are Poisson, which for rates of some per cent is what binomial counts are.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from agent.spraycheck.paths import FabricLink, FabricPath

FIT_ALARM = 1e-4
"""How often the right explanation is doubted because counts deviate by chance. Our choice: doubt only widens a list."""

LINK_PRIOR = 0.01
"""How much rarer two failed links are than one, in weighing explanations of different size. Our choice: a second link
must make the counts a hundred times as likely."""

_STEPS = 200
"""Of the fit, at most; two links on one path need some dozens to part."""

_SETTLED = 1e-9
"""Change of a rate that ends the fit."""


@dataclass(frozen=True, slots=True)
class Observation:
    """Packets of one path whose number sent is known."""

    path: FabricPath
    sent: int
    lost: int


@dataclass(frozen=True, slots=True)
class Fit:
    """One explanation at its most likely rates."""

    links: tuple[FabricLink, ...]
    rates: tuple[float, ...]
    log_likelihood: float
    """But for a constant of the observations."""
    p_value: float
    """Probability that counts of this explanation deviate as much: likelihood ratio, chi-square."""

    @property
    def fits(self) -> bool:
        """Whether the counts leave it possible."""
        return self.p_value > FIT_ALARM


def fit(links: Collection[FabricLink], observations: Sequence[Observation], stray_rate: float) -> Fit:
    """The most likely loss rates of `links`, by expectation maximisation, and what is to be thought of them."""
    ordered = tuple(sorted(links))
    sent = np.array([each.sent for each in observations], np.float64)
    lost = np.array([each.lost for each in observations], np.float64)
    crosses = np.array([[link in each.path.links for link in ordered] for each in observations], np.float64)
    crosses = crosses.reshape(len(sent), len(ordered))
    rates = _rates(sent, lost, crosses, stray_rate)
    mean = sent * (stray_rate + crosses @ rates)
    log_likelihood = float(np.sum(_log_poisson(lost, mean)))
    best = float(np.sum(_log_poisson(lost, np.maximum(lost, sent * stray_rate))))
    free = len(sent) - len(ordered)
    p_value = float(chdtrc(free, max(0.0, 2 * (best - log_likelihood)))) if free > 0 else 1.0
    return Fit(ordered, tuple(rates.tolist()), log_likelihood, p_value)


def shares(fits: Sequence[Fit]) -> NDArray[np.float64]:
    """The probability of each explanation, if one of them is right and links fail independently and rarely, `(n,)`."""
    weights = np.array([each.log_likelihood + len(each.links) * np.log(LINK_PRIOR) for each in fits])
    likely = np.exp(weights - weights.max())
    normed: NDArray[np.float64] = likely / likely.sum()
    return normed


def _rates(
    sent: NDArray[np.float64], lost: NDArray[np.float64], crosses: NDArray[np.float64], stray_rate: float
) -> NDArray[np.float64]:
    carried = np.maximum(sent @ crosses, 1.0)
    rates = np.full(crosses.shape[1], max(lost.sum() / max(sent.sum(), 1.0), stray_rate))
    for _ in range(_STEPS):
        before = rates
        rates = rates * ((lost / (stray_rate + crosses @ rates)) @ crosses) / carried
        if np.abs(rates - before).max(initial=0.0) < _SETTLED:
            break
    capped: NDArray[np.float64] = np.minimum(rates, 1.0)
    return capped


def _log_poisson(lost: NDArray[np.float64], mean: NDArray[np.float64]) -> NDArray[np.float64]:
    values: NDArray[np.float64] = lost * np.log(np.maximum(mean, 1e-300)) - mean
    return values
