"""Fabric links and paths as the monitor sees them: numbers of plane, leaf and spine, rendered in the lab's names.

A path from leaf to leaf has exactly two fabric links (SprayCheck L1); links to hosts are none of SprayCheck's business.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class FabricLink:
    """One direction of a leaf-spine link: up from the leaf, or down to it."""

    plane: int
    leaf: int
    spine: int
    up: bool

    def __str__(self) -> str:
        """`p0:leaf3>spine5` or `p0:spine5>leaf3`."""
        ends = (f"leaf{self.leaf}", f"spine{self.spine}")
        return f"p{self.plane}:{'>'.join(ends if self.up else reversed(ends))}"


@dataclass(frozen=True, slots=True, order=True)
class FabricPath:
    """Source leaf, spine, destination leaf in one plane."""

    plane: int
    src_leaf: int
    spine: int
    dst_leaf: int

    @property
    def links(self) -> tuple[FabricLink, FabricLink]:
        """The way up, then the way down."""
        return (
            FabricLink(self.plane, self.src_leaf, self.spine, up=True),
            FabricLink(self.plane, self.dst_leaf, self.spine, up=False),
        )

    def __str__(self) -> str:
        """`p0:leaf3>spine5>leaf4`."""
        return f"p{self.plane}:leaf{self.src_leaf}>spine{self.spine}>leaf{self.dst_leaf}"


def leaf_name(plane: int, leaf: int) -> str:
    """`p0-leaf3`."""
    return f"p{plane}-leaf{leaf}"
