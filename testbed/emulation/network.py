"""The life of a lab's network as a flat list of stages: namespaces, links, configuration, read back; then its removal.

Touches only namespaces that carry the lab's name. Leaves nothing when a stage fails.
"""

import os
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from mininet.net import Mininet

from testbed.emulation.nodes import Cable, Host, Port, Router
from testbed.emulation.topo import FabricTopo
from testbed.errors import LabStateError, ReadBackError
from testbed.kernel import requests
from testbed.kernel.features import require_fabric_features
from testbed.kernel.netns import create_namespaces, delete_namespaces, namespace_path, namespaces
from testbed.kernel.node_state import configure, differences, pending, read_state
from testbed.kernel.rtnl import Rtnl
from testbed.kernel.sysctl import write_sysctls
from testbed.model.fabric import Fabric
from testbed.model.ids import NodeId, namespace_name, namespace_prefix
from testbed.model.node_config import NodeConfig, cables_of, node_config

_READY_WITHIN_S = 5.0
"""How long the kernel may take until all ports can send; it reports that from a work queue, usually within 10 ms."""

_POLL_S = 0.01


class EmulatedFabric:
    """A fabric in the kernel. `with EmulatedFabric(fabric, "lab") as net:` builds it and always takes it down."""

    def __init__(self, fabric: Fabric, lab: str = "lab") -> None:
        self.fabric = fabric
        self.lab = lab
        self.timings_s: dict[str, float] = {}
        """Seconds that each stage of the last `start` or `stop` took, in order."""
        self._made: tuple[str, ...] = ()
        self._prefix = namespace_prefix(lab)

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Stop."""
        self.stop()

    def start(self) -> None:
        """Build, configure and verify. A failing stage removes what was made.

        Raises MissingFeatureError, LabStateError when namespaces of the lab exist (they are not touched), KernelError,
        ReadBackError.
        """
        self.timings_s = {}
        self._timed("check", self._check)
        try:
            for name, stage in self._stages():
                self._timed(name, stage)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End shells and remove the namespaces, and with them links and routes. Safe to call at any time, twice too."""
        self._timed("remove", self._remove)

    def verify(self) -> None:
        """Read everything back and compare. Raises ReadBackError; ports that are not up are given some time."""
        deadline = time.monotonic() + _READY_WITHIN_S
        waiting = self._unready(self._configs)
        while waiting:
            if time.monotonic() > deadline:
                raise ReadBackError(tuple(line for lines in waiting.values() for line in lines))
            time.sleep(_POLL_S)
            waiting = self._unready(waiting)

    def netns_name(self, node: NodeId) -> str:
        """Name of a node's namespace, for `ip netns exec`."""
        return namespace_name(self.lab, node)

    def netns_path(self, node: NodeId) -> Path:
        """File of a node's namespace, for setns."""
        return namespace_path(self.netns_name(node))

    def rtnl(self, node: NodeId) -> AbstractContextManager[Rtnl]:
        """A netlink socket inside a node."""
        return Rtnl.inside(str(node), self.netns_path(node))

    @cached_property
    def mininet(self) -> Any:
        """Mininet's object for this network, for its CLI and scripts written to its API. It owns no kernel state."""
        return _mininet(self.fabric, self.lab)

    @cached_property
    def _configs(self) -> tuple[NodeConfig, ...]:
        return tuple(node_config(self.fabric, node) for node in self.fabric.nodes())

    def _stages(self) -> tuple[tuple[str, Callable[[], None]], ...]:
        return (
            ("namespaces", self._create_namespaces),
            ("quiet", self._write_quiet_sysctls),
            ("links", self._create_links),
            ("configure", self._configure),
            ("verify", self.verify),
        )

    def _check(self) -> None:
        require_fabric_features()
        if found := namespaces(self._prefix):
            advice = "is already up, or was left behind: take it down first"
            raise LabStateError(self.lab, f"{advice} ({len(found)} namespaces, {found[0]} ...)", found)

    def _create_namespaces(self) -> None:
        names = tuple(self.netns_name(node) for node in self.fabric.nodes())
        create_namespaces(names)
        self._made = names

    def _write_quiet_sysctls(self) -> None:
        for config in self._configs:
            write_sysctls(str(config.node), self.netns_path(config.node), config.quiet)

    def _create_links(self) -> None:
        for leaf in self.fabric.leaves():
            self._create_links_of(leaf)

    def _create_links_of(self, leaf: NodeId) -> None:
        with ExitStack() as stack:
            rtnl = stack.enter_context(self.rtnl(leaf))
            wanted = []
            for cable in cables_of(self.fabric, leaf):
                far = os.open(self.netns_path(cable.far_node), os.O_RDONLY | os.O_CLOEXEC)
                stack.callback(os.close, far)
                wanted.append(requests.create_cable(cable, far))
            rtnl.apply(wanted)

    def _configure(self) -> None:
        for config in self._configs:
            configure(config, self.netns_path(config.node))

    def _unready(self, configs: Iterable[NodeConfig]) -> dict[NodeConfig, tuple[str, ...]]:
        """What each node still waits for, without those that wait for nothing. Raises ReadBackError on a difference."""
        states = [(config, read_state(config, self.netns_path(config.node))) for config in configs]
        if lines := tuple(line for config, state in states for line in differences(config, state)):
            raise ReadBackError(lines)
        return {config: lines for config, state in states if (lines := pending(config, state))}

    def _remove(self) -> None:
        try:
            if mininet := self.__dict__.pop("mininet", None):  # only when it was ever asked for
                mininet.stop()
        finally:
            made, self._made = self._made, ()
            delete_namespaces(made)

    def _timed(self, name: str, stage: Callable[[], None]) -> None:
        before = time.perf_counter()
        try:
            stage()
        finally:
            self.timings_s[name] = time.perf_counter() - before


def remove_leftovers(lab: str) -> tuple[str, ...]:
    """Remove every namespace of a lab, whoever made it, and return their names. No other lab's are touched."""
    return delete_namespaces(namespaces(namespace_prefix(lab)))


def _mininet(fabric: Fabric, lab: str) -> Any:
    Mininet.inited = True  # else it would raise system-wide limits by sysctl, for good
    topo = FabricTopo(fabric, lab)
    return Mininet(topo, switch=Router, host=Host, link=Cable, intf=Port, controller=None)
