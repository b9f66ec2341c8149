"""Describes the fabric of a run as a document: nodes with namespaces and addresses, links with both ends. Pure."""

from typing import Any

from agent.wire.ranges import VERSION
from testbed.model.addressing import host_address, ifindex_of, mac_of, usid_of
from testbed.model.fabric import Fabric
from testbed.model.ids import LinkId, NodeId, PortId, Role, namespace_name


def topology_document(fabric: Fabric, lab: str) -> dict[str, Any]:
    """Return the content of `topology.json`."""
    spec = fabric.spec
    return {
        "v": VERSION,
        "lab": lab,
        "planes": spec.planes,
        "leaves": spec.leaves,
        "spines": spec.spines,
        "hosts_per_leaf": spec.hosts_per_leaf,
        "mtu": spec.mtu,
        "host_stack": spec.host_stack,
        "nodes": [_node(fabric, lab, node) for node in fabric.nodes()],
        "links": [_link(fabric, link) for link in fabric.links()],
    }


def _node(fabric: Fabric, lab: str, node: NodeId) -> dict[str, Any]:
    told = {"name": str(node), "role": node.role.name.lower(), "namespace": namespace_name(lab, node)}
    if node.role is Role.HOST:
        place = {"leaf": fabric.leaf_of(node.index), "slot": fabric.slot_of(node.index)}
        return told | {"address": str(host_address(node.index))} | place
    return told | {"plane": node.plane, "usid": f"{usid_of(node):04x}"}


def _link(fabric: Fabric, link: LinkId) -> dict[str, Any]:
    up, _down = link.directions
    return {"name": str(link), "plane": link.plane, "ends": [_end(fabric, up.egress), _end(fabric, up.ingress)]}


def _end(fabric: Fabric, port: PortId) -> dict[str, Any]:
    return {
        "node": str(port.node),
        "interface": port.interface,
        "ifindex": ifindex_of(fabric, port),
        "mac": mac_of(fabric, port),
    }
