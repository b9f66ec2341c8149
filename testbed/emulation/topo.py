"""From a fabric to a Mininet topology, and nothing else: no process, no interface, no address is made here."""

from mininet.topo import Topo

from testbed.model.addressing import host_address, port_of
from testbed.model.fabric import Fabric
from testbed.model.ids import DirectedLink, NodeId, Role, namespace_name


class FabricTopo(Topo):
    """The graph of a fabric: hosts are Mininet's hosts, leaves and spines its switches, ports numbered by ifindex."""

    def build(self, fabric: Fabric, lab: str) -> None:
        """Called by Mininet's constructor with what `FabricTopo` was given."""
        for node in fabric.nodes():
            self._add_node(fabric, lab, node)
        for link in fabric.links():
            self._add_link(fabric, link.directions[0])

    def _add_node(self, fabric: Fabric, lab: str, node: NodeId) -> None:
        namespace = namespace_name(lab, node)
        if node.role is Role.HOST:
            address = str(host_address(node.index)) if fabric.spec.host_stack else None
            self.addHost(str(node), namespace=namespace, ip=address)
        else:
            self.addSwitch(str(node), namespace=namespace)

    def _add_link(self, fabric: Fabric, way: DirectedLink) -> None:
        near, far = (port_of(fabric, end) for end in (way.egress, way.ingress))
        self.addLink(
            str(way.sender),
            str(way.receiver),
            port1=near.ifindex,
            port2=far.ifindex,
            intfName1=near.name,
            intfName2=far.name,
            addr1=near.mac,
            addr2=far.mac,
        )
