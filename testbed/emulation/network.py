"""Life cycle of a lab's network under Mininet: build, start, read back, remove.

Touches only namespaces that carry the lab's name. Leaves nothing behind when a step fails.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from subprocess import Popen
from types import TracebackType
from typing import Any, Self

from mininet.link import Link
from mininet.net import Mininet

from testbed.emulation import traffic
from testbed.emulation.nodes import DEFAULT_LAB, FabricNode
from testbed.emulation.outages import KernelOutages, Outages
from testbed.emulation.topo import FabricTopo, cable_class
from testbed.errors import LabStateError, NotOfferedError, ReadBackError
from testbed.kernel.features import require_fabric_features
from testbed.kernel.netlink.rtnl import Rtnl
from testbed.kernel.netns import namespace_path, namespaces
from testbed.kernel.node_state import pending, read_state
from testbed.model.fabric import Fabric
from testbed.model.node_names import NodeId, namespace_name, namespace_prefix

_READY_WITHIN_S = 5.0
"""Time the kernel may take until all ports can send; it reports that from a work queue, usually within 10 ms."""

_POLL_S = 0.01


class FabricNet(Mininet):
    """A fabric in the kernel: `with FabricNet(FabricTopo(planes=2)) as net:` builds it and always takes it down.

    Without `with`: `start` and `stop`. Options are those of Mininet; its `host`, `switch` and `link` are for nodes and
    links that are added beside the fabric.
    """

    def __init__(
        self,
        topo: FabricTopo,
        lab: str = DEFAULT_LAB,
        *,
        adopted: bool = False,
        outages: Outages | None = None,
        controller: Any = None,
        **options: Any,
    ) -> None:
        if not isinstance(topo, FabricTopo):
            raise TypeError(f"FabricNet builds a FabricTopo, not {topo!r}")
        self.fabric = topo.fabric
        self.lab = lab
        self.timings_s: dict[str, float] = {}
        """Seconds that each step of the last `start` or `stop` took, in order."""
        self._prefix = namespace_prefix(lab)
        self.built = False
        self.terms: list[Popen[bytes]] = []
        self._adopted = adopted
        self._is_over = False
        self._outages = outages or KernelOutages(self.fabric, lab)
        limits, Mininet.inited = Mininet.inited, True  # otherwise it would raise system-wide limits by sysctl, for good
        try:
            super().__init__(topo, controller=controller, **options)
        finally:
            Mininet.inited = limits

    @classmethod
    def of(cls, fabric: Fabric, lab: str = DEFAULT_LAB) -> Self:
        """Create a network of this fabric; it is not built before `start`."""
        return cls(FabricTopo.of(fabric), lab, build=False)

    @classmethod
    def adopt(cls, fabric: Fabric, lab: str, outages: Outages) -> Self:
        """Create Mininet's objects for a lab that is up and owned by another process.

        They make, configure and remove nothing.
        """
        return cls(FabricTopo.of(fabric), lab, adopted=True, outages=outages)

    def __enter__(self) -> Self:
        """Start the network."""
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Stop the network."""
        self.stop()

    def build(self) -> None:
        """Create namespaces and links and configure hosts. If a step fails, everything made is removed.

        Raises MissingFeatureError, LabStateError when namespaces of the lab exist (they are not touched), KernelError.
        """
        self.timings_s = {}
        if not self._adopted:
            self._timed("check", self._check)
        if self._is_over:
            self._forget()
        self._undone(lambda: self._timed("build", super(FabricNet, self).build))

    def start(self) -> None:
        """Build if necessary, configure the routers, read everything back. If a step fails, everything made is removed.

        Raises what `build` does, and ReadBackError.
        """
        if not self.built:
            self.build()
        self._undone(lambda: self._timed("start", super(FabricNet, self).start))
        self._undone(lambda: self._timed("verify", self.verify))

    def stop(self) -> None:
        """End shells and remove the namespaces with their links and routes.

        Safe to call at any time, also repeatedly.
        """
        if not self._is_over:
            self._timed("remove", self._remove)
        self.built, self._is_over = False, True

    def verify(self) -> None:
        """Read everything back and compare. Raises ReadBackError; ports that are not up are given some time.

        Anything beside the plan is a difference too, but not on a node with ports of the user's. Nodes of the user's
        own class were read back when they were configured; that class may change them afterwards.
        """
        deadline = time.monotonic() + _READY_WITHIN_S
        waiting = self._unready(self.fabric_nodes())
        while waiting:
            if time.monotonic() > deadline:
                raise ReadBackError(tuple(line for lines in waiting.values() for line in lines))
            time.sleep(_POLL_S)
            waiting = self._unready(waiting)

    def fabric_nodes(self) -> list[FabricNode]:
        """Return the fabric's nodes, without those added beside it."""
        return [node for node in (*self.hosts, *self.switches) if isinstance(node, FabricNode)]

    def netns_name(self, node: NodeId) -> str:
        """Return the name of a node's namespace, for `ip netns exec`."""
        return namespace_name(self.lab, node)

    def netns_path(self, node: NodeId) -> Path:
        """Return the file of a node's namespace, for setns."""
        return namespace_path(self.netns_name(node))

    def rtnl(self, node: NodeId) -> AbstractContextManager[Rtnl]:
        """Open a netlink socket inside a node."""
        return Rtnl.inside(str(node), self.netns_path(node))

    def addHost(self, name: str, cls: Any = None, **params: Any) -> Any:  # noqa: N802 - Mininet's name
        """Add a host; without `cls` it is one of Mininet's, beside the fabric."""
        return super().addHost(name, cls, **self._placed(params))

    def addSwitch(self, name: str, cls: Any = None, **params: Any) -> Any:  # noqa: N802 - Mininet's name
        """Add a switch; without `cls` it is one of Mininet's, beside the fabric."""
        return super().addSwitch(name, cls, **self._placed(params))

    def addLink(  # noqa: N802 - Mininet's name
        self, node1: Any, node2: Any, port1: int | None = None, port2: int | None = None, cls: Any = None, **params: Any
    ) -> Any:
        """Add a link. At a fabric node, a port beside the plan is called `eth0` and so on."""
        if "link_id" in params:
            return super().addLink(node1, node2, port1, port2, cable_class(cls), **params)
        ends = [self[node] if isinstance(node, str) else node for node in (node1, node2)]
        ports = [port1, port2]
        for at, node in enumerate(ends):
            if isinstance(node, FabricNode):
                ports[at] = node.newPort() if ports[at] is None else ports[at]
                params.setdefault(f"intfName{at + 1}", f"eth{ports[at]}")
        return super().addLink(*ends, *ports, cls, **params)

    def addNAT(self, *_args: Any, **_params: Any) -> None:  # noqa: N802 - Mininet's name
        """Refuse: raises NotOfferedError."""
        raise NotOfferedError(
            "NAT", "the fabric carries IPv6 only", "add a plain host with two links, or use `ip netns exec`"
        )

    def configLinkStatus(self, src: str, dst: str, status: str) -> None:  # noqa: N802 - Mininet's name
        """Cut (`down`) or mend (`up`) the links between two nodes, with the routes through them."""
        cables = [link.id for link in self._between(src, dst) if hasattr(link, "id")]
        for cable in cables:
            (self._outages.cut if status == "down" else self._outages.mend)(cable)
        if not cables:
            super().configLinkStatus(src, dst, status)

    def ping(self, hosts: Sequence[Any] | None = None, timeout: str | None = None) -> float:
        """Return the percentage of pings lost. Raises NotOfferedError without a host stack."""
        traffic.require_addresses(hosts or self.hosts)
        return super().ping(hosts, timeout)

    def pingFull(self, hosts: Sequence[Any] | None = None, timeout: str | None = None) -> list[Any]:  # noqa: N802
        """Return the output of ping, as Mininet does. Raises NotOfferedError without a host stack."""
        traffic.require_addresses(hosts or self.hosts)
        return super().pingFull(hosts, timeout)

    def iperf(
        self,
        hosts: Sequence[Any] | None = None,
        l4Type: str = "TCP",  # noqa: N803 - Mininet's name
        udpBw: str = "10M",  # noqa: N803 - Mininet's name
        fmt: str | None = None,
        seconds: int = 5,
        port: int = 5001,
    ) -> list[str]:
        """Return the speeds that iperf reported at server and client, by Mininet's rules, over IPv6 if possible."""
        client, server = hosts or (self.hosts[0], self.hosts[-1])
        traffic.require_addresses((client, server))
        return traffic.iperf(client, server, traffic.Iperf(l4Type, udpBw, fmt, seconds, port))

    def stopXterms(self) -> None:  # noqa: N802 - Mininet's name
        """End the terminals of this network; Mininet would end every process of some name."""
        for term in self.terms:
            term.kill()
            term.wait()
        self.terms = []

    def _placed(self, params: dict[str, Any]) -> dict[str, Any]:
        """Add the parameters that a fabric's node gets from its network."""
        if "fabric" not in params:
            return params
        return {**params, "lab": self.lab, "adopted": self._adopted, "outages": self._outages}

    def _between(self, src: str, dst: str) -> list[Link]:
        ends = [self.nameToNode.get(name) for name in (src, dst)]
        return [] if None in ends else self.linksBetween(*ends)

    def _check(self) -> None:
        require_fabric_features()
        if found := namespaces(self._prefix):
            advice = "is already up, or was left behind: take it down first"
            raise LabStateError(self.lab, f"{advice} ({len(found)} namespaces, {found[0]} ...)", found)

    def _forget(self) -> None:
        """Forget the nodes of the previous start."""
        for these in (self.hosts, self.switches, self.controllers, self.links):
            these.clear()
        self.nameToNode.clear()
        self._is_over = False

    def _unready(self, nodes: Iterable[FabricNode]) -> dict[FabricNode, tuple[str, ...]]:
        """Return what each node still waits for, without nodes that are ready. Raises ReadBackError on a difference."""
        states = [(node, read_state(node.wanted, node.netns_path)) for node in nodes]
        if lines := tuple(line for node, state in states if node.is_ours for line in node.differences(state)):
            raise ReadBackError(lines)
        return {node: lines for node, state in states if (lines := pending(node.wanted, state))}

    def _undone(self, act: Callable[[], None]) -> None:
        try:
            act()
        except BaseException:
            self.stop()
            raise

    def _remove(self) -> None:
        nodes = self.fabric_nodes()
        try:
            super().stop()
        finally:
            for node in nodes:
                node.remove()

    def _timed(self, name: str, act: Callable[[], object]) -> None:
        before = time.perf_counter()
        try:
            act()
        finally:
            self.timings_s[name] = time.perf_counter() - before
