"""Every number the testbed allocates: uSIDs, prefixes, MAC and host addresses, interface indexes.

Pure arithmetic on names; docs/address-plan.md describes it. uSIDs: F3216 of RFC 9800, block of RFC 9602; host
addresses: RFC 4193; link-local addresses: RFC 4291, appendix A.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, IPv6Network

from agent.wire import usid
from agent.wire.usid import BLOCK_BITS, USID_BITS, USID_BLOCK, UsidRole
from testbed.model.fabric import Fabric
from testbed.model.ids import NodeId, PortId, Role

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
