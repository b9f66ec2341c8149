"""The same network by Mininet's plain API and one shell command a step: what the fabric builder is compared with."""

from collections.abc import Iterator
from typing import Any

from mininet.net import Mininet
from mininet.node import Node

from testbed.model.addressing import port_of
from testbed.model.fabric import Fabric
from testbed.model.node_config import LOOPBACK_IFINDEX, EndNextCsid, NodeConfig, Route, node_config
from testbed.model.node_names import NodeId


def build(fabric: Fabric) -> Any:
    """Nodes, links and configuration; the running Mininet. Raises RuntimeError if a command says anything."""
    Mininet.inited = True  # else it would raise system-wide limits by sysctl, for good
    net = Mininet(controller=None, build=False)
    nodes = {node: net.addHost(str(node), cls=Node) for node in fabric.nodes()}
    configs = {node: node_config(fabric, node) for node in fabric.nodes()}
    for node, config in configs.items():
        _command(nodes[node], (f"sysctl -qw {each.path.replace('/', '.')}={each.value}" for each in config.quiet))
    for link in fabric.links():
        way = link.directions[0]
        near, far = port_of(fabric, way.egress), port_of(fabric, way.ingress)
        ends = (nodes[way.sender], nodes[way.receiver])
        net.addLink(*ends, intfName1=near.name, intfName2=far.name, addr1=near.mac, addr2=far.mac)
    for node, config in configs.items():
        _command(nodes[node], _commands_of(fabric, config))
    return net


def _command(node: Any, commands: Iterator[str]) -> None:
    for command in commands:
        if said := node.cmd(command):
            raise RuntimeError(f"{node}: {command}: {said}")


def _commands_of(fabric: Fabric, config: NodeConfig) -> Iterator[str]:
    names = {each.ifindex: each.name for each in config.interfaces} | {LOOPBACK_IFINDEX: "lo"}
    if config.loopback_up:
        yield "ip link set lo up"
    for each in config.interfaces:
        yield f"ip link set {each.name} mtu {each.mtu}"
        yield f"ip link set {each.name} up"
    yield from (f"sysctl -qw {each.path.replace('/', '.')}={each.value}" for each in config.forwarding)
    for each in config.neighbours:
        yield f"ip -6 neigh replace {each.address} lladdr {each.mac} dev {names[each.ifindex]} nud permanent"
    yield from (_route(each, names, config.node) for each in config.routes)


def _route(route: Route, names: dict[int, str], node: NodeId) -> str:
    words = [f"ip -6 route add {route.prefix}"]
    if isinstance(route.action, EndNextCsid):
        words = [f"ip -6 route add local {route.prefix}" if route.ifindex == LOOPBACK_IFINDEX else words[0]]
        words += [f"encap seg6local action End flavors next-csid lblen {route.action.block_bits}"]
        words += [f"nflen {route.action.usid_bits}"]
    if route.gateway is not None:
        words += [f"via {route.gateway}"]
    return " ".join([*words, f"dev {names[route.ifindex]} table {route.table}"])
