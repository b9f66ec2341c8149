"""Which flow would settle what the evidence leaves open: a leaf pair that one explanation breaks and another does not.

Pure. SprayCheck L2: what shadows one another is found as soon as a flow touches only one of them.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import permutations

from agent.spraycheck.paths import FabricLink, FabricPath


@dataclass(frozen=True, slots=True)
class DecidingFlow:
    """A flow to send, and what its path over one spine must be able to tell."""

    path: FabricPath
    """Its path that matters; the flow takes all."""
    rate: float | None
    """Drop rate to be told from none: the smallest that an explanation gives a link of the path, if counts gave one."""
    packets: int | None = None
    """Packets on each of its paths that tell that rate; None if unknown or more than a flow can have."""


def deciding_flow(
    explanations: Mapping[frozenset[FabricLink], float],
    rates: Mapping[FabricLink, float],
    leaves: Collection[int],
    cleared: Collection[FabricLink],
) -> DecidingFlow | None:
    """The leaf pair that halves what is possible best: `explanations` with their probabilities, all of one spine.

    Of equally good ones that whose other link is known to be healthy, then the lowest numbers. None if no pair of
    `leaves` would tell any two explanations apart.
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
