"""Planned state of one node as plain records (sysctls, interfaces, neighbours, routes), and differences from it.

Derived from the fabric alone; knows no kernel calls. The kernel layer applies the records and reads them back.
Forwarding: RFC 9800 (End with NEXT-CSID), MRC paper; everything is static, nothing is learned.
"""

from dataclasses import dataclass, field
from ipaddress import IPv6Address, IPv6Network

from agent.wire.usid import BLOCK_BITS, USID_BITS
from testbed.model.addressing import (
    default_path,
    downlink_usid,
    host_address,
    port_of,
    sid_prefix,
    usid_of,
)
from testbed.model.fabric import Fabric
from testbed.model.node_names import NodeId, PortId, Role

LOOPBACK_IFINDEX = 1
"""Interface index of `lo`, which is 1 in every namespace (net/core/dev.c, LOOPBACK_IFINDEX)."""

TABLE_LOCAL = 255
"""RT_TABLE_LOCAL of linux/rtnetlink.h: looked up first, which saves one lookup per hop (measured: make bench)."""


@dataclass(frozen=True, slots=True)
class Sysctl:
    """One file below /proc/sys and its text."""

    path: str
    value: str


@dataclass(frozen=True, slots=True)
class Interface:
    """One end of a veth pair. `peer_ifindex` is the other end's index in its own namespace; `mtu` in bytes."""

    name: str
    ifindex: int
    mac: str
    mtu: int
    peer_ifindex: int


@dataclass(frozen=True, slots=True)
class Cable:
    """A veth pair as its first end sees it; `far` is created in the namespace of `far_node`."""

    near: Interface
    far_node: NodeId
    far: Interface


@dataclass(frozen=True, slots=True)
class Clsact:
    """Attachment point of eBPF programs for both directions of a port, empty until a program is attached.

    Switches have it before their ports are up: adding it to a port that is up takes the port out of service and loses
    packets, but attaching a program during traffic must not. Hosts have none: an empty one costs 0.65 % of what a core
    forwards on spine ports and as much again on host ports (measured, Linux 6.18).
    """

    ifindex: int


@dataclass(frozen=True, slots=True)
class Address:
    """An address of an interface."""

    ifindex: int
    address: IPv6Address
    prefix_bits: int


@dataclass(frozen=True, slots=True, order=True)
class Rule:
    """A routing rule: the table that is looked up, lowest priority first. `action` is FR_ACT of linux/fib_rules.h."""

    priority: int
    table: int
    action: int

    def __str__(self) -> str:
        """Format as `priority 100, table 7`."""
        return f"priority {self.priority}, table {self.table}"


USUAL_RULES = frozenset({Rule(0, TABLE_LOCAL, 1), Rule(32766, 254, 1)})
"""Rules that the kernel makes in every namespace (net/ipv6/fib6_rules.c) and a plan keeps: local, then main."""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A permanent neighbour entry."""

    ifindex: int
    address: IPv6Address
    mac: str


@dataclass(frozen=True, slots=True)
class EndNextCsid:
    """seg6local End with the NEXT-CSID flavor: shift the uSIDs left by one, look the new address up."""

    block_bits: int = BLOCK_BITS
    usid_bits: int = USID_BITS


@dataclass(frozen=True, slots=True)
class EndDt6:
    """seg6local End.DT6: remove the outer header, look the inner address up in `table`."""

    table: int


@dataclass(frozen=True, slots=True)
class EncapRed:
    """seg6 encap.red: add an outer header, with a routing header only if there is more than one segment."""

    segments: tuple[IPv6Address, ...]


@dataclass(frozen=True, slots=True)
class UnknownAction:
    """An action on a route that no plan contains, as read back from the kernel."""

    text: str


@dataclass(frozen=True, slots=True)
class Route:
    """A static route. If its `ifindex` is that of `lo` it has type local, so that no failing link removes it."""

    prefix: IPv6Network
    ifindex: int
    gateway: IPv6Address | None = None
    action: EndNextCsid | EndDt6 | EncapRed | UnknownAction | None = None
    table: int = TABLE_LOCAL


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """The planned state of a node. `quiet` is set before its links exist, `forwarding` afterwards."""

    node: NodeId
    quiet: tuple[Sysctl, ...]
    forwarding: tuple[Sysctl, ...]
    interfaces: tuple[Interface, ...]
    clsacts: tuple[Clsact, ...]
    loopback_up: bool
    addresses: tuple[Address, ...]
    neighbours: tuple[Neighbour, ...]
    routes: tuple[Route, ...]

    def neighbours_at(self, ifindex: int) -> tuple[Neighbour, ...]:
        """Return the neighbours of a port, which it loses when it is shut."""
        return tuple(each for each in self.neighbours if each.ifindex == ifindex)

    def routes_through(self, ifindex: int) -> tuple[Route, ...]:
        """Return the routes through a port, which are lost when it is shut."""
        return tuple(each for each in self.routes if each.ifindex == ifindex)


_NO_IPV6 = (Sysctl("net/ipv6/conf/default/disable_ipv6", "1"),)

_QUIET = tuple(
    Sysctl(f"net/ipv6/conf/default/{name}", value)
    for name, value in (
        ("addr_gen_mode", "1"),  # no link-local address: nothing to announce or to defend
        ("accept_dad", "0"),
        ("dad_transmits", "0"),
        ("accept_ra", "0"),
        ("accept_redirects", "0"),
        ("router_solicitations", "0"),
    )
)

_SEG6 = tuple(Sysctl(f"net/ipv6/conf/{scope}/seg6_enabled", "1") for scope in ("all", "default"))

_FORWARDING = (Sysctl("net/ipv6/conf/all/forwarding", "1"),)


def node_config(fabric: Fabric, node: NodeId) -> NodeConfig:
    """Derive the planned state of `node`."""
    uses_ipv6 = node.role is not Role.HOST or fabric.spec.host_stack
    interfaces = tuple(_interface(fabric, port) for port in fabric.ports_of(node))
    return NodeConfig(
        node=node,
        quiet=_QUIET + _SEG6 if uses_ipv6 else _NO_IPV6,
        forwarding=() if node.role is Role.HOST else _FORWARDING,
        interfaces=interfaces,
        clsacts=() if node.role is Role.HOST else tuple(Clsact(interface.ifindex) for interface in interfaces),
        loopback_up=uses_ipv6,
        addresses=_addresses(fabric, node),
        neighbours=_neighbours(fabric, node) if uses_ipv6 else (),
        routes=_routes(fabric, node),
    )


def cables_of(fabric: Fabric, leaf: NodeId) -> tuple[Cable, ...]:
    """Return the veth pairs of a leaf.

    Every link of a fabric ends at exactly one leaf, so all leaves' cables are all links.
    """
    return tuple(
        Cable(_interface(fabric, port), port.peer, _interface(fabric, _opposite(port)))
        for port in fabric.ports_of(leaf)
    )


def _opposite(port: PortId) -> PortId:
    return PortId(port.peer, port.node, port.plane)


def _interface(fabric: Fabric, port: PortId) -> Interface:
    near, far = port_of(fabric, port), port_of(fabric, _opposite(port))
    return Interface(near.name, near.ifindex, near.mac, fabric.spec.mtu, far.ifindex)


def _addresses(fabric: Fabric, node: NodeId) -> tuple[Address, ...]:
    if node.role is Role.HOST and fabric.spec.host_stack:
        return (Address(LOOPBACK_IFINDEX, host_address(node.index), 128),)
    return ()


def _neighbours(fabric: Fabric, node: NodeId) -> tuple[Neighbour, ...]:
    ports = [(port_of(fabric, port), port_of(fabric, _opposite(port))) for port in fabric.ports_of(node)]
    return tuple(Neighbour(near.ifindex, far.link_local, far.mac) for near, far in ports)


def _routes(fabric: Fabric, node: NodeId) -> tuple[Route, ...]:
    if node.role is not Role.HOST:
        return _switch_routes(fabric, node)
    return _host_routes(fabric, node) if fabric.spec.host_stack else ()


def _switch_routes(fabric: Fabric, node: NodeId) -> tuple[Route, ...]:
    own = Route(sid_prefix(usid_of(node)), LOOPBACK_IFINDEX, action=EndNextCsid())
    return (own, *(_next_hop(fabric, port) for port in fabric.ports_of(node)))


def _next_hop(fabric: Fabric, port: PortId) -> Route:
    """Return the route to the uSID behind a port: the neighbour's own, or the downlink's when a host is behind it."""
    peer = port.peer
    usid = downlink_usid(port.plane, fabric.slot_of(peer.index)) if peer.role is Role.HOST else usid_of(peer)
    gateway = port_of(fabric, _opposite(port)).link_local
    return Route(sid_prefix(usid), port_of(fabric, port).ifindex, gateway)


def _host_routes(fabric: Fabric, node: NodeId) -> tuple[Route, ...]:
    """Return routes for ordinary programs.

    From the downlink uSIDs, to the host's leaves, a default path to each host.
    """
    ports = fabric.ports_of(node)
    first = port_of(fabric, ports[0])
    slot = fabric.slot_of(node.index)
    decap = (
        Route(sid_prefix(downlink_usid(port.plane, slot)), LOOPBACK_IFINDEX, action=EndDt6(TABLE_LOCAL))
        for port in ports
    )
    others = (other for other in range(fabric.host_count) if other != node.index)
    encap = (
        Route(
            IPv6Network(host_address(other)),
            first.ifindex,
            action=EncapRed((default_path(fabric, node.index, other).destination,)),
        )
        for other in others
    )
    return (*decap, *(_next_hop(fabric, port) for port in ports), *encap)


@dataclass(frozen=True, slots=True)
class Placed:
    """Changes that the lab itself made to one port since it was built."""

    shut: bool = False
    """A fault holds the port shut; routes through it and its neighbours are absent meanwhile."""
    root: str = ""
    """Kind of its root qdisc."""
    programs: frozenset[int] = frozenset()
    """Ids of eBPF programs in either direction."""

    def plus(self, other: "Placed") -> "Placed":
        """Combine both; netem is the root if there is netem and another qdisc."""
        roots = {self.root, other.root} - {""}
        root = "netem" if "netem" in roots else max(roots, default="")
        return Placed(self.shut or other.shut, root, self.programs | other.programs)


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference between a lab and its plan that the lab itself did not make."""

    node: str
    """Name of the node, as `p0-spine1`."""
    port: str
    """Name of the port, as `leaf0`; empty for what belongs to the whole node."""
    what: str
    """Kind of the difference: `mtu`, `state`, `address`, `queue`, `program`, `route`, `neighbour`, `setting`, `port`,
    `rule`, `node` or `fault`."""
    planned: str
    found: str
    words: str
    """Description for people: `has MTU 1500, planned 9000`."""
    links: tuple[str, ...] = field(default=())
    """Directions that may lose packets because of it."""

    def __str__(self) -> str:
        """Format as `p0-spine1 port leaf0 has MTU 1500, planned 9000`."""
        return f"{self.node}{f' port {self.port}' if self.port else ''} {self.words}"
