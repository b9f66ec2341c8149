"""From losses on paths, which senders count, to losses of links, which nobody counts. Pure.

A link that drops a share p of its packets takes as much of every path across it, so it cannot drop more than the
path across it that loses least. With one path across a link nothing tells its two links apart: both show its loss.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from testbed.model.ids import DirectedLink, NodeId

WEIGHTY = 0.1
"""A path with less than this share of the packets of the busiest path across the link has no say: a handful of packets
without a loss would hide that of thousands (our choice)."""


@dataclass(frozen=True, slots=True, order=True)
class PathId:
    """A path between two leaves."""

    plane: int
    source: int
    spine: int
    destination: int

    @property
    def links(self) -> tuple[DirectedLink, DirectedLink]:
        """Up, then down."""
        spine = NodeId.spine(self.plane, self.spine)
        up = DirectedLink(self.plane, NodeId.leaf(self.plane, self.source), spine)
        return up, DirectedLink(self.plane, spine, NodeId.leaf(self.plane, self.destination))


@dataclass(frozen=True, slots=True)
class PathCount:
    """Data packets sent over a path, and those of them that the sender took for lost."""

    sent: int = 0
    lost: int = 0

    def __add__(self, other: "PathCount") -> "PathCount":
        """Both together."""
        return PathCount(self.sent + other.sent, self.lost + other.lost)


@dataclass(frozen=True, slots=True)
class LinkLoss:
    """What is known of one direction of a link."""

    sent: int
    loss: float | None
    """None when nothing was sent."""


def link_losses(paths: Mapping[PathId, PathCount]) -> dict[DirectedLink, LinkLoss]:
    """The loss of each link that a path crosses: an estimate from above, see the head of this module."""
    across: dict[DirectedLink, list[PathCount]] = {}
    for path, count in paths.items():
        for link in path.links:
            across.setdefault(link, []).append(count)
    return {link: LinkLoss(sum(each.sent for each in counts), _least(counts)) for link, counts in across.items()}


def _least(counts: list[PathCount]) -> float | None:
    return min(_shares(counts, WEIGHTY * max(each.sent for each in counts)), default=None)


def _shares(counts: list[PathCount], least_sent: float) -> Iterator[float]:
    return (min(1.0, each.lost / each.sent) for each in counts if each.sent and each.sent >= least_sent)
