"""Mininet topology of a fabric: a graph, and the class of its links, veth pairs with the plan's names and indexes.

The graph makes no process, interface or address.
"""

from dataclasses import asdict
from typing import Any, Self

from mininet.link import Intf, Link
from mininet.topo import Topo

from testbed.emulation.nodes import Host, Router
from testbed.model.addressing import host_address, port_of
from testbed.model.fabric import Fabric, FabricSpec
from testbed.model.node_names import LinkId, NodeId, Role


class Port(Intf):
    """One end of a link. Its address is its node's; no port has an address of its own."""

    def config(self, **_params: Any) -> dict[str, object]:
        """Do nothing: the node brings its ports up, with their routes."""
        return {}

    def IP(self) -> str | None:  # noqa: N802 - Mininet's name
        """Return the node's address; see FabricNode.IP."""
        address: str | None = self.node.IP()
        return address

    def updateIP(self) -> str | None:  # noqa: N802 - Mininet's name
        """Return the node's address; it cannot have changed."""
        return self.IP()

    def isUp(self, setUp: bool = False) -> bool:  # noqa: N802 - Mininet's name
        """Report whether the port is not shut, read from the kernel."""
        del setUp  # its node does that
        return self.status() == "OK"

    def ifconfig(self, *words: str) -> str | None:
        """Return the output of ifconfig; `up` and `down` alone open and shut the port with neighbours and routes."""
        if words not in (("up",), ("down",)):
            output: str | None = super().ifconfig(*words)
            return output
        way = next(way for way in self.link.id.directions if way.sender == self.node.id)
        (self.node.outages.mend if words == ("up",) else self.node.outages.cut)(way)
        return ""

    def status(self) -> str:
        """Return `OK`, `DOWN` when it is shut, or `MISSING`, read from the kernel."""
        state: str = self.node.port_status(self.name)
        return state


class Cable(Link):
    """A link of the fabric: a veth pair between two of its nodes."""

    def __init__(self, node1: Any, node2: Any, link_id: LinkId, **params: Any) -> None:
        self.id = link_id
        super().__init__(node1, node2, **{**params, "intf": Port})

    @classmethod
    def makeIntfPair(  # noqa: N802 - Mininet's name
        cls,
        intfname1: str,
        intfname2: str,
        addr1: str | None = None,
        addr2: str | None = None,
        node1: Any = None,
        node2: Any = None,
        deleteIntfs: bool = True,  # noqa: N803 - Mininet's name
    ) -> None:
        """Create the pair with both ends and everything that the plan holds for them. Raises KernelError."""
        del addr1, addr2, deleteIntfs  # the plan of both nodes has the addresses, and a new namespace nothing to delete
        node1.plug(intfname1, node2, intfname2)

    def stop(self) -> None:
        """Do nothing: links are removed with their namespaces."""

    def __str__(self) -> str:
        """Format with its plane: `p0:leaf0-spine1`."""
        return str(self.id)


def cable_class(wanted: type[Link]) -> type[Link]:
    """Make `wanted` a link of the fabric: it applies its own settings to ports, as TCLink, on the plan's veth pair."""
    if issubclass(wanted, Cable):
        return wanted
    return type(wanted.__name__, (Cable, wanted), {})


class FabricTopo(Topo):
    """The graph of a fabric: `FabricTopo(planes=2, leaves=4, spines=4)`; arguments are those of `FabricSpec`.

    Hosts are Mininet's hosts, leaves and spines its switches, ports are numbered by ifindex. The graph names its
    classes; replace one by `topo.nodeInfo("p0-leaf0")["cls"] = MyLeaf`, a subclass of `Router`.
    """

    fabric: Fabric

    def build(self, *counts: Any, **named: Any) -> None:
        """Build the graph; Mininet's constructor calls this with the arguments of `FabricTopo`. Raises FabricError."""
        self.fabric = Fabric.of(FabricSpec(*counts, **named))
        for node in self.fabric.nodes():
            self._add_node(node)
        for link in self.fabric.links():
            self._add_link(link)

    @classmethod
    def of(cls, fabric: Fabric) -> Self:
        """Create the graph of an existing fabric."""
        return cls(**asdict(fabric.spec))

    def _add_node(self, node: NodeId) -> None:
        if node.role is Role.HOST:
            address = str(host_address(node.index)) if self.fabric.spec.host_stack else None
            self.addHost(str(node), cls=Host, node_id=node, fabric=self.fabric, ip=address)
        else:
            self.addSwitch(str(node), cls=Router, node_id=node, fabric=self.fabric)

    def _add_link(self, link: LinkId) -> None:
        way = link.directions[0]
        near, far = (port_of(self.fabric, end) for end in (way.egress, way.ingress))
        self.addLink(
            str(way.sender),
            str(way.receiver),
            cls=Cable,
            link_id=link,
            port1=near.ifindex,
            port2=far.ifindex,
            intfName1=near.name,
            intfName2=far.name,
            addr1=near.mac,
            addr2=far.mac,
        )
