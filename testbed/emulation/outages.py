"""Links cut and switches stopped by hand, as by Mininet's `link A B down` and `switch X stop`, and restored.

A port that is shut loses its neighbours and the routes through it; restoring puts them back and reads them back.
"""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Protocol

from testbed.kernel.netlink.rtnl import Rtnl
from testbed.kernel.netns import namespace_path
from testbed.kernel.ports import shutdown
from testbed.model.addressing import ifindex_of
from testbed.model.fabric import Fabric
from testbed.model.node_config import node_config
from testbed.model.node_names import DirectedLink, LinkId, NodeId, PortId, namespace_name

Outage = LinkId | DirectedLink | NodeId
"""What is shut: both ports of a link, the sending port of a direction, or all ports of a node."""


class Outages(Protocol):
    """Interface to cut and restore; in a lab that is up, its fault injector does this."""

    def cut(self, target: Outage) -> None:
        """Shut the ports; no effect if that was done already."""
        ...

    def mend(self, target: Outage) -> None:
        """Open the ports that no other outage holds shut; no effect if there is no such outage."""
        ...


class KernelOutages:
    """Outages made directly in the kernel, for a network that this process has built."""

    def __init__(self, fabric: Fabric, lab: str) -> None:
        self._fabric, self._lab = fabric, lab
        self._cut: dict[Outage, frozenset[PortId]] = {}

    def cut(self, target: Outage) -> None:
        """Shut the ports. Raises KernelError."""
        if target not in self._cut:
            ports = frozenset(self._ports(target))
            for port in sorted(ports - self._shut()):
                with self._rtnl(port) as rtnl:
                    shutdown.shut(rtnl, ifindex_of(self._fabric, port), port.interface)
            self._cut[target] = ports

    def mend(self, target: Outage) -> None:
        """Open the ports with everything that was lost. Raises KernelError, ReadBackError."""
        for port in sorted(self._cut.pop(target, frozenset()) - self._shut()):
            ifindex, wanted = ifindex_of(self._fabric, port), node_config(self._fabric, port.node)
            with self._rtnl(port) as rtnl:
                shutdown.reopen(
                    rtnl, ifindex, port.interface, wanted.neighbours_at(ifindex), wanted.routes_through(ifindex)
                )

    def _shut(self) -> frozenset[PortId]:
        return frozenset().union(*self._cut.values())

    def _ports(self, target: Outage) -> Iterable[PortId]:
        if isinstance(target, NodeId):
            return self._fabric.ports_of(target)
        return (way.egress for way in (target.directions if isinstance(target, LinkId) else (target,)))

    def _rtnl(self, port: PortId) -> AbstractContextManager[Rtnl]:
        return Rtnl.inside(str(port.node), namespace_path(namespace_name(self._lab, port.node)))
