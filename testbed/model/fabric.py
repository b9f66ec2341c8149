"""The fabric from its counts: planes, leaves, spines, hosts and links, as pure data.

Knows no addresses and no kernel. A plane is a full leaf/spine mesh of its own; a host has one port per plane.
"""

from dataclasses import dataclass, fields

from agent.wire.usid import MAX_INDEX, MAX_PLANES
from testbed.errors import FabricError
from testbed.model.node_names import DirectedLink, LinkId, NodeId, PortId, Role

OUTER_HEADER_BYTES = 40
"""Size of the IPv6 header around every packet (RFC 8200, section 3); no routing header is used."""

MIN_MTU = 1280 + OUTER_HEADER_BYTES
"""Least MTU: IPv6's least MTU (RFC 8200, section 5) inside the outer header."""

MAX_MTU = 65535
"""Greatest MTU of a veth (ETH_MAX_MTU in linux/if_ether.h)."""


@dataclass(frozen=True, slots=True)
class FabricSpec:
    """Size of the fabric. It may hold any values; `Fabric.of` refuses those that cannot be built."""

    planes: int = 2
    """Independent leaf/spine planes, 1 to 16."""

    leaves: int = 8
    """Leaves (T0) in each plane, 1 to 256."""

    spines: int = 8
    """Spines (T1) in each plane, 1 to 256."""

    hosts_per_leaf: int = 1
    """Hosts below each leaf, 1 to 256."""

    mtu: int = 9000
    """Bytes of an outer IPv6 packet that a link carries."""

    host_stack: bool = False
    """Ordinary programs on hosts can use the fabric; costs about a third of the packet rate."""

    def problems(self) -> tuple[str, ...]:
        """List every reason why this fabric cannot be built; empty when it can."""
        limits = (
            ("planes", self.planes, MAX_PLANES, "a uSID has 4 bits for the plane"),
            ("leaves", self.leaves, MAX_INDEX, "a uSID has 8 bits for the leaf"),
            ("spines", self.spines, MAX_INDEX, "a uSID has 8 bits for the spine"),
            ("hosts_per_leaf", self.hosts_per_leaf, MAX_INDEX, "a uSID has 8 bits for the downlink"),
        )
        if strange := [
            f"{field.name}: {value!r} is not a whole number"
            for field in fields(self)
            if not isinstance(value := getattr(self, field.name), int)
        ]:
            return tuple(strange)
        found = [
            f"{name}: {value} is not in 1..{most} ({why})"
            for name, value, most, why in limits
            if not 1 <= value <= most
        ]
        if not MIN_MTU <= self.mtu <= MAX_MTU:
            why = f"1280 for IPv6 and {OUTER_HEADER_BYTES} for the outer header; a veth carries at most {MAX_MTU}"
            found.append(f"mtu: {self.mtu} is not in {MIN_MTU}..{MAX_MTU} ({why})")
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Fabric:
    """A fabric that can be built. Create it with `Fabric.of`."""

    spec: FabricSpec

    @classmethod
    def of(cls, spec: FabricSpec) -> "Fabric":
        """Create the fabric of these counts. Raises FabricError with all problems at once."""
        if problems := spec.problems():
            raise FabricError(problems)
        return cls(spec)

    @property
    def host_count(self) -> int:
        """Count the hosts over all leaves."""
        return self.spec.leaves * self.spec.hosts_per_leaf

    def hosts(self) -> tuple[NodeId, ...]:
        """Return all hosts, in order."""
        return tuple(NodeId.host(h) for h in range(self.host_count))

    def leaves(self) -> tuple[NodeId, ...]:
        """Return all leaves, plane by plane."""
        return tuple(NodeId.leaf(p, i) for p in range(self.spec.planes) for i in range(self.spec.leaves))

    def spines(self) -> tuple[NodeId, ...]:
        """Return all spines, plane by plane."""
        return tuple(NodeId.spine(p, i) for p in range(self.spec.planes) for i in range(self.spec.spines))

    def nodes(self) -> tuple[NodeId, ...]:
        """Return hosts, then leaves, then spines."""
        return self.hosts() + self.leaves() + self.spines()

    def leaf_of(self, host: int) -> int:
        """Return the index of a host's leaf, the same in every plane."""
        return host // self.spec.hosts_per_leaf

    def slot_of(self, host: int) -> int:
        """Return which of its leaf's downlinks leads to a host, from 0."""
        return host % self.spec.hosts_per_leaf

    def host_at(self, leaf: int, slot: int) -> int:
        """Return the host on a leaf's downlink; inverse of `leaf_of` and `slot_of`."""
        return leaf * self.spec.hosts_per_leaf + slot

    @property
    def link_count(self) -> int:
        """Count the links without listing them; a large fabric has a million, which take seconds to list."""
        spec = self.spec
        return spec.planes * spec.leaves * (spec.hosts_per_leaf + spec.spines)

    def links(self) -> tuple[LinkId, ...]:
        """Return all links, plane by plane and leaf by leaf: downlinks to hosts, then uplinks to spines."""
        spec = self.spec
        spines = [[NodeId.spine(plane, i) for i in range(spec.spines)] for plane in range(spec.planes)]
        hosts = self.hosts()
        return tuple(
            LinkId(plane, *ends)
            for plane in range(spec.planes)
            for index in range(spec.leaves)
            for leaf in (NodeId.leaf(plane, index),)
            for ends in (
                *((host, leaf) for host in hosts[self.host_at(index, 0) : self.host_at(index + 1, 0)]),
                *((leaf, spine) for spine in spines[plane]),
            )
        )

    def links_of(self, node: NodeId) -> tuple[LinkId, ...]:
        """Return the links that end at a node, in the order of its ports."""
        return tuple(_link_of(port) for port in self.ports_of(node))

    def ports_of(self, node: NodeId) -> tuple[PortId, ...]:
        """Return a node's ports: by plane on a host, by leaf on a spine, hosts then spines on a leaf."""
        spec = self.spec
        if node.role is Role.HOST:
            leaf = self.leaf_of(node.index)
            return tuple(PortId(node, NodeId.leaf(p, leaf), p) for p in range(spec.planes))
        plane = node.plane or 0
        if node.role is Role.SPINE:
            return tuple(PortId(node, NodeId.leaf(plane, i), plane) for i in range(spec.leaves))
        down = (NodeId.host(self.host_at(node.index, slot)) for slot in range(spec.hosts_per_leaf))
        up = (NodeId.spine(plane, i) for i in range(spec.spines))
        return tuple(PortId(node, peer, plane) for peer in (*down, *up))


def _link_of(port: PortId) -> LinkId:
    return DirectedLink(port.plane, port.node, port.peer).link
