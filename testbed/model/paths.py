"""All paths between two hosts: the links and uSIDs per plane and spine.

Pure; a pair of hosts below one leaf has one path per plane. Source: MRC paper 2.3, RFC 9800 (NEXT-CSID).
"""

from dataclasses import dataclass
from ipaddress import IPv6Address
from itertools import pairwise

from agent.wire.usid import leaf_local, leaf_to_leaf
from testbed.errors import FabricError
from testbed.model.addressing import carrier
from testbed.model.fabric import Fabric
from testbed.model.ids import DirectedLink, NodeId


@dataclass(frozen=True, slots=True)
class Path:
    """A path from host to host. `spine` is None below one leaf. One uSID is consumed after each link but the last."""

    plane: int
    spine: int | None
    links: tuple[DirectedLink, ...]
    usids: tuple[int, ...]

    @property
    def destination(self) -> IPv6Address:
        """Return the outer destination address as the source host sends it."""
        return carrier(self.usids)

    @property
    def destinations(self) -> tuple[IPv6Address, ...]:
        """Return the outer destination address on each of `links`: one left shift per switch."""
        return tuple(carrier(self.usids[shifts:]) for shifts in range(len(self.links)))

    def __str__(self) -> str:
        """Format as `p0:spine5`, or `p0:local` below one leaf."""
        return f"p{self.plane}:{'local' if self.spine is None else f'spine{self.spine}'}"


def paths_of(fabric: Fabric, source: int, target: int) -> tuple[Path, ...]:
    """Return every path from host `source` to host `target`, plane by plane and spine by spine.

    Raises FabricError for a host that does not exist, or if both are the same host.
    """
    _check_pair(fabric, source, target)
    spines: tuple[int | None, ...] = (None,)
    if fabric.leaf_of(source) != fabric.leaf_of(target):
        spines = tuple(range(fabric.spec.spines))
    return tuple(_path(fabric, source, target, p, s) for p in range(fabric.spec.planes) for s in spines)


def default_path(fabric: Fabric, source: int, target: int) -> Path:
    """Return the path of ordinary programs.

    Plane 0, and for both directions the spine numbered by the sum of leaves.
    """
    _check_pair(fabric, source, target)
    leaves = fabric.leaf_of(source), fabric.leaf_of(target)
    spine = None if leaves[0] == leaves[1] else sum(leaves) % fabric.spec.spines
    return _path(fabric, source, target, 0, spine)


def _check_pair(fabric: Fabric, source: int, target: int) -> None:
    wrong = [
        f"h{h} does not exist, hosts are h0..h{fabric.host_count - 1}"
        for h in (source, target)
        if not 0 <= h < fabric.host_count
    ]
    if not wrong and source == target:
        wrong = [f"h{source} has no path to itself through the fabric"]
    if wrong:
        raise FabricError(tuple(wrong))


def _path(fabric: Fabric, source: int, target: int, plane: int, spine: int | None) -> Path:
    near, far = fabric.leaf_of(source), fabric.leaf_of(target)
    slot = fabric.slot_of(target)
    if spine is None:
        switches, usids = [NodeId.leaf(plane, far)], leaf_local(plane, far, slot)
    else:
        switches = [NodeId.leaf(plane, near), NodeId.spine(plane, spine), NodeId.leaf(plane, far)]
        usids = leaf_to_leaf(plane, near, spine, far, slot)
    nodes = [NodeId.host(source), *switches, NodeId.host(target)]
    links = tuple(DirectedLink(plane, a, b) for a, b in pairwise(nodes))
    return Path(plane, spine, links, usids)
