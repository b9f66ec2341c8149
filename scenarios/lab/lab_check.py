"""Compares a whole lab with its plan: every node as read from the kernel. Changes nothing."""

from collections.abc import Callable, Iterable, Mapping
from itertools import chain

from testbed.kernel.comparison import Difference, Placed, compare, gone
from testbed.kernel.netlink.rtnl import Rtnl
from testbed.kernel.netns import inside, namespace_path
from testbed.kernel.node_state import read_state
from testbed.kernel.ports.found import found_ports
from testbed.model.fabric import Fabric
from testbed.model.ids import NodeId, namespace_name
from testbed.model.node_config import node_config

PutOn = Mapping[tuple[str, int], Placed]
"""Programs by node and interface index."""


def differences_of(fabric: Fabric, lab: str, put: Callable[[], Iterable[PutOn]]) -> tuple[Difference, ...]:
    """List differences at any node; before each node, `put` returns what the lab itself has placed on ports by then.

    Raises KernelError.
    """
    return tuple(each for node in fabric.nodes() for each in _of_node(fabric, lab, node, put()))


def _of_node(fabric: Fabric, lab: str, node: NodeId, put: Iterable[PutOn]) -> tuple[Difference, ...]:
    config, path = node_config(fabric, node), namespace_path(namespace_name(lab, node))
    if not path.exists():
        return (gone(fabric, node),)
    with inside(path), Rtnl.here(str(node)) as rtnl:
        ports = found_ports(rtnl, [each.ifindex for each in config.interfaces])
    placed: dict[int, Placed] = {}
    for (name, index), each in chain.from_iterable(some.items() for some in put):
        if name == str(node):
            placed[index] = placed.get(index, Placed()).plus(each)
    return compare(fabric, config, read_state(config, path), ports, placed)
