"""Estimates losses of links, which nobody counts, from losses on paths, which senders count. Pure.

A link with loss rate p takes that share of the packets of every path across it, so its loss rate is at most that of
the path with the least loss. With one path across a link, its two links cannot be distinguished: both show its loss.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from testbed.model.node_names import DirectedLink, NodeId

WEIGHTY = 0.1
"""Least share of the packets of the busiest path across the link for a path to count: a few packets without a loss
would hide the losses of thousands (our choice).
"""


@dataclass(frozen=True, slots=True, order=True)
class PathId:
    """A path between two leaves."""

    plane: int
    source: int
    spine: int
    destination: int

    @property
    def links(self) -> tuple[DirectedLink, DirectedLink]:
        """Return the link up, then the link down."""
        spine = NodeId.spine(self.plane, self.spine)
        up = DirectedLink(self.plane, NodeId.leaf(self.plane, self.source), spine)
        return up, DirectedLink(self.plane, spine, NodeId.leaf(self.plane, self.destination))


@dataclass(frozen=True, slots=True)
class PathCount:
    """Data packets sent over a path, and those that the sender counted as lost."""

    sent: int = 0
    lost: int = 0

    def __add__(self, other: "PathCount") -> "PathCount":
        """Return the sum of both."""
        return PathCount(self.sent + other.sent, self.lost + other.lost)


@dataclass(frozen=True, slots=True)
class LinkLoss:
    """Counts and estimated loss of one direction of a link."""

    sent: int
    loss: float | None
    """Estimated loss rate; None when nothing was sent."""


def link_losses(paths: Mapping[PathId, PathCount]) -> dict[DirectedLink, LinkLoss]:
    """Estimate the loss rate of each link that a path crosses: an upper bound, see the head of this module."""
    across: dict[DirectedLink, list[PathCount]] = {}
    for path, count in paths.items():
        for link in path.links:
            across.setdefault(link, []).append(count)
    return {link: LinkLoss(sum(each.sent for each in counts), _least(counts)) for link, counts in across.items()}


def _least(counts: list[PathCount]) -> float | None:
    return min(_shares(counts, WEIGHTY * max(each.sent for each in counts)), default=None)


def _shares(counts: list[PathCount], least_sent: float) -> Iterator[float]:
    return (min(1.0, each.lost / each.sent) for each in counts if each.sent and each.sent >= least_sent)
