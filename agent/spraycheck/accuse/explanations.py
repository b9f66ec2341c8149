"""Explanations of findings: the smallest sets of causes, their likelihood, and the flow that decides between them.

Each finding has a few suspects; an explanation holds one suspect of each finding at least. Pure.

Likelihood: a packet of a path is lost with the stray rate plus the rates of those of the explanation's links that the
path crosses. Counts are Poisson, which approximates binomial counts at rates of some per cent.

A deciding flow crosses a link of one explanation and none of another. SprayCheck L2: failures that hide one another are
found as soon as a flow touches only one of them.
"""

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from agent.spraycheck.paths import FabricLink, FabricPath

MOST_CAUSES = 12
"""Largest explanation that is searched for. Our choice: 2^12 steps where findings have two suspects."""

T = TypeVar("T", bound=Hashable)


def smallest_explanations(findings: Collection[tuple[T, ...]]) -> set[frozenset[T]] | None:
    """Find every smallest set with a suspect of each finding, or None if it would have more than MOST_CAUSES.

    Findings with two suspects each: a set of n is found among 2^n choices; n grows until one fits.
    """
    for size in range(1, MOST_CAUSES + 1):
        if found := set(_covers(findings, frozenset(), size)):
            return found
    return None


def larger_explanations(found: set[frozenset[T]], findings: Collection[tuple[T, ...]]) -> set[frozenset[T]]:
    """Find the explanations with one cause more than those in `found`, all of one size."""
    size = len(next(iter(found))) + 1
    suspects = frozenset(each for finding in findings for each in finding)
    grown = {smaller | {extra} for smaller in found for extra in suspects - smaller}
    return grown | {each for each in _covers(findings, frozenset(), size) if len(each) == size}


def independent_parts(findings: Collection[tuple[T, ...]]) -> list[list[tuple[T, ...]]]:
    """Group findings that are connected by common suspects; the groups are independent."""
    groups: list[tuple[set[T], list[tuple[T, ...]]]] = []
    for finding in findings:
        separate = [group for group in groups if group[0].isdisjoint(finding)]
        touching = [group for group in groups if not group[0].isdisjoint(finding)]
        suspects = set(finding).union(*(group[0] for group in touching))
        groups = [*separate, (suspects, [finding, *(other for group in touching for other in group[1])])]
    return [members for _, members in groups]


def _covers(findings: Collection[tuple[T, ...]], chosen: frozenset[T], room: int) -> Iterator[frozenset[T]]:
    unexplained = next((each for each in findings if not chosen.intersection(each)), None)
    if unexplained is None:
        yield chosen
    elif room:
        for suspect in unexplained:
            yield from _covers(findings, chosen | {suspect}, room - 1)


FIT_ALARM = 1e-4
"""Probability that the right explanation is doubted because counts deviate by chance. Our choice: doubt only widens a
list."""

LINK_PRIOR = 0.01
"""Prior odds of two failed links against one, for explanations of different size. Our choice: a second link
must make the counts a hundred times as likely."""

_STEPS = 200
"""Most steps of the fit; two links on one path need some dozens to separate."""

_SETTLED = 1e-9
"""Change of a rate that ends the fit."""


@dataclass(frozen=True, slots=True)
class Observation:
    """Packets sent and lost on one path, where the number sent is known."""

    path: FabricPath
    sent: int
    lost: int


@dataclass(frozen=True, slots=True)
class Fit:
    """One explanation with its most likely loss rates."""

    links: tuple[FabricLink, ...]
    rates: tuple[float, ...]
    log_likelihood: float
    """Log-likelihood without a constant of the observations."""
    p_value: float
    """Probability that counts of this explanation deviate as much: likelihood ratio, chi-square."""

    @property
    def fits(self) -> bool:
        """Report whether the counts leave it possible."""
        return self.p_value > FIT_ALARM


def fit(links: Collection[FabricLink], observations: Sequence[Observation], stray_rate: float) -> Fit:
    """Fit the most likely loss rates of `links` by expectation maximisation, and test the fit."""
    ordered = tuple(sorted(links))
    sent = np.array([each.sent for each in observations], np.float64)
    lost = np.array([each.lost for each in observations], np.float64)
    crosses = np.array([[link in each.path.links for link in ordered] for each in observations], np.float64)
    crosses = crosses.reshape(len(sent), len(ordered))
    rates = _fitted_rates(sent, lost, crosses, stray_rate)
    mean = sent * (stray_rate + crosses @ rates)
    log_likelihood = float(np.sum(_log_poisson(lost, mean)))
    best = float(np.sum(_log_poisson(lost, np.maximum(lost, sent * stray_rate))))
    free = len(sent) - len(ordered)
    p_value = float(chdtrc(free, max(0.0, 2 * (best - log_likelihood)))) if free > 0 else 1.0
    return Fit(ordered, tuple(rates.tolist()), log_likelihood, p_value)


def shares(fits: Sequence[Fit]) -> NDArray[np.float64]:
    """Compute the probability of each explanation, (n,), if one is right and links fail independently and rarely."""
    weights = np.array([each.log_likelihood + len(each.links) * np.log(LINK_PRIOR) for each in fits])
    likely = np.exp(weights - weights.max())
    normed: NDArray[np.float64] = likely / likely.sum()
    return normed


def _fitted_rates(
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


@dataclass(frozen=True, slots=True)
class DecidingFlow:
    """A flow to send, and the drop rate that its path over one spine must show."""

    path: FabricPath
    """The path that decides; the flow takes all paths."""
    rate: float | None
    """Drop rate that the flow must show: the smallest that an explanation gives a link of the path, from counts."""
    packets: int | None = None
    """Packets on each of its paths that show that rate; None if unknown or more than a flow can have."""


def deciding_flow(
    explanations: Mapping[frozenset[FabricLink], float],
    rates: Mapping[FabricLink, float],
    leaves: Collection[int],
    cleared: Collection[FabricLink],
) -> DecidingFlow | None:
    """Find the leaf pair that halves the `explanations`, by their probabilities, best; all are of one spine.

    Of equally good pairs the one whose other link is known to be healthy, then the lowest numbers. None if no pair of
    `leaves` would separate any two explanations.
    """
    some = next(iter(next(iter(explanations))))
    paths = [FabricPath(some.plane, source, some.spine, target) for source, target in permutations(sorted(leaves), 2)]
    best, best_rank = None, (0.0, 0)
    for path in paths:
        crossed = frozenset(path.links)
        broken = sum(share for links, share in explanations.items() if not links.isdisjoint(crossed))
        rank = min(broken, 1 - broken), sum(link in cleared for link in crossed)
        if rank[0] > 1e-9 and (round(rank[0], 9), rank[1]) > best_rank:
            best, best_rank = path, (round(rank[0], 9), rank[1])
    if best is None:
        return None
    shown = [rates[link] for link in best.links if rates.get(link)]
    return DecidingFlow(best, min(shown, default=None))
