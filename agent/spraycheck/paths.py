"""Leaves, pairs of leaves, links and paths as the monitor sees them: numbers, rendered in the lab's names.

A path from leaf to leaf has exactly two fabric links (SprayCheck L1); links to hosts are not SprayCheck's concern.
"""

from dataclasses import dataclass

LeafId = tuple[int, int]
"""Plane and number of a leaf."""


@dataclass(frozen=True, slots=True, order=True)
class FabricLink:
    """One direction of a leaf-spine link: up from the leaf, or down to it."""

    plane: int
    leaf: int
    spine: int
    up: bool

    def __str__(self) -> str:
        """Format as `p0:leaf3>spine5` or `p0:spine5>leaf3`."""
        ends = (f"leaf{self.leaf}", f"spine{self.spine}")
        return f"p{self.plane}:{'>'.join(ends if self.up else reversed(ends))}"


@dataclass(frozen=True, slots=True, order=True)
class LeafPair:
    """Source and destination leaf of flows in one plane."""

    plane: int
    src_leaf: int
    dst_leaf: int

    def path(self, spine: int) -> "FabricPath":
        """Return the path over one spine."""
        return FabricPath(self.plane, self.src_leaf, spine, self.dst_leaf)


@dataclass(frozen=True, slots=True, order=True)
class FabricPath:
    """Path over one spine of a plane, from a source leaf to a destination leaf."""

    plane: int
    src_leaf: int
    spine: int
    dst_leaf: int

    @property
    def leaf_pair(self) -> LeafPair:
        """The pair of leaves that it connects."""
        return LeafPair(self.plane, self.src_leaf, self.dst_leaf)

    @property
    def links(self) -> tuple[FabricLink, FabricLink]:
        """The link up to the spine, then the link down."""
        return (
            FabricLink(self.plane, self.src_leaf, self.spine, up=True),
            FabricLink(self.plane, self.dst_leaf, self.spine, up=False),
        )

    def __str__(self) -> str:
        """Format as `p0:leaf3>spine5>leaf4`."""
        return f"p{self.plane}:leaf{self.src_leaf}>spine{self.spine}>leaf{self.dst_leaf}"


def leaf_name(plane: int, leaf: int) -> str:
    """Format as `p0-leaf3`."""
    return f"p{plane}-leaf{leaf}"
