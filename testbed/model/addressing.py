"""Every number the testbed allocates: uSIDs, prefixes, MAC and host addresses, interface indexes, paths.

Pure arithmetic on names; docs/address-plan.md describes it. uSIDs: F3216 of RFC 9800, block of RFC 9602; host
addresses: RFC 4193; link-local addresses: RFC 4291, appendix A. Paths: MRC paper 2.3, RFC 9800 (NEXT-CSID).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, IPv6Network
from itertools import pairwise

from agent.wire import usid
from agent.wire.usid import BLOCK_BITS, USID_BITS, USID_BLOCK, UsidRole, leaf_local, leaf_to_leaf
from testbed.errors import FabricError
from testbed.model.fabric import Fabric
from testbed.model.node_names import DirectedLink, NodeId, PortId, Role

BLOCK = IPv6Network((USID_BLOCK << (128 - BLOCK_BITS), BLOCK_BITS))
"""Locator block of all planes, 5f00:0::/32."""

HOST_BLOCK = IPv6Network("fd5f::/16")
"""Prefix of hosts' inner addresses; our choice from RFC 4193's fd00::/8, with 5f as in the outer block."""

_USID_ROLES = {Role.SPINE: UsidRole.T1, Role.LEAF: UsidRole.T0}

_UPLINK_PORTS = 100
"""Interface index of a leaf's port to spine 0 (eBPF programs on a leaf identify the arrival spine by it) and of a
host's port of plane 0."""

_DOWNLINK_PORTS = 400
"""Interface index of a leaf's port to its downlink 0; greater than 100 + 255."""

_SPINE_PORTS = 700
"""Interface index of a spine's port to leaf 0. The two ends of a link never have the same index: for a veth whose peer
has the same index the kernel may delay the carrier event by a second (net/core/link_watch.c,
linkwatch_urgent_event)."""


@dataclass(frozen=True, slots=True)
class Port:
    """Names and addresses of one port. `mac` is written with colons; `link_local` is its EUI-64 address."""

    id: PortId
    ifindex: int
    mac: str
    link_local: IPv6Address

    @property
    def name(self) -> str:
        """Return the interface name in the kernel."""
        return self.id.interface


def port_of(fabric: Fabric, port: PortId) -> Port:
    """Compute everything allocated to `port`."""
    mac = mac_of(fabric, port)
    return Port(port, ifindex_of(fabric, port), mac, link_local_of(mac))


def ifindex_of(fabric: Fabric, port: PortId) -> int:
    """Return the planned interface index, unique inside the node's namespace."""
    if port.node.role is Role.HOST:
        return _UPLINK_PORTS + port.plane
    if port.node.role is Role.SPINE:
        return _SPINE_PORTS + port.peer.index
    if port.peer.role is Role.SPINE:
        return _UPLINK_PORTS + port.peer.index
    return _DOWNLINK_PORTS + fabric.slot_of(port.peer.index)


def spine_of_ifindex(ifindex: int) -> int | None:
    """Return the spine behind a leaf's port, or None for a downlink. Inverse of `ifindex_of` on leaves."""
    return ifindex - _UPLINK_PORTS if _UPLINK_PORTS <= ifindex < _DOWNLINK_PORTS else None


def mac_of(fabric: Fabric, port: PortId) -> str:
    """Return a port's MAC address `02:RP:hi:lo:rr:ss`.

    Role and plane, index of the owner, role of the peer, peer's index or slot.
    """
    peer = fabric.slot_of(port.peer.index) if port.peer.role is Role.HOST else port.peer.index
    return (mac_start_of(port) + bytes((port.peer.role << 4, peer & 0xFF))).hex(":")


def mac_start_of(port: PortId) -> bytes:
    """Return the first four bytes of a port's MAC: they identify the owner, whatever the port leads to."""
    owner = port.node
    locally_administered = 0x02  # and unicast (IEEE 802)
    return bytes((locally_administered, owner.role << 4 | port.plane, owner.index >> 8, owner.index & 0xFF))


def link_local_of(mac: str) -> IPv6Address:
    """Return the EUI-64 link-local address of a MAC (RFC 4291, appendix A)."""
    octets = bytes.fromhex(mac.replace(":", ""))
    eui64 = bytes((octets[0] ^ 0x02,)) + octets[1:3] + b"\xff\xfe" + octets[3:]
    return IPv6Address(b"\xfe\x80" + bytes(6) + eui64)


def usid_of(node: NodeId) -> int:
    """Return the uSID of a leaf, `2PII`, or a spine, `1PII`.

    Raises ValueError for a host, which has one only per downlink.
    """
    if node.plane is None:
        raise ValueError(f"{node} has no uSID of its own; see downlink_usid")
    return usid.usid_of(_USID_ROLES[node.role], node.plane, node.index)


def downlink_usid(plane: int, slot: int) -> int:
    """Return the uSID `ePII` by which the last leaf forwards to its downlink `slot`."""
    return usid.usid_of(UsidRole.DOWNLINK, plane, slot)


def carrier(usids: Sequence[int]) -> IPv6Address:
    """Return the destination address that holds `usids` after the block."""
    return IPv6Address(usid.pack(usids))


def sid_prefix(one: int) -> IPv6Network:
    """Return the /48 that a node's table matches for one uSID."""
    return IPv6Network((carrier((one,)), BLOCK_BITS + USID_BITS))


def host_address(host: int) -> IPv6Address:
    """Return a host's own address `fd5f::h`, the inner destination in every plane."""
    return HOST_BLOCK.network_address + host


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
