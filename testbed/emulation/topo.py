"""Mininet topology of a fabric: a graph only; no process, interface or address is made here."""

from dataclasses import asdict
from typing import Any, Self

from mininet.topo import Topo

from testbed.emulation.links import Cable
from testbed.emulation.nodes import Host, Router
from testbed.model.addressing import host_address, port_of
from testbed.model.fabric import Fabric, FabricSpec
from testbed.model.ids import LinkId, NodeId, Role


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
