"""Mininet classes for a fabric's nodes: a named namespace each, made by the constructor, configured by netlink.

A node's shell starts with its first command, inside the node's namespace, with the lab's mark.
"""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from pathlib import Path
from subprocess import Popen
from typing import Any

from mininet.node import Node

from testbed.emulation.outages import KernelOutages, Outages
from testbed.errors import KernelError, NotOfferedError, ReadBackError
from testbed.kernel.netlink import requests
from testbed.kernel.netlink.rtnl import Rtnl
from testbed.kernel.netns import command_inside, create_namespaces, delete_namespaces, namespace_path
from testbed.kernel.node_state import NodeState, configure, differences, read_state, write_sysctls
from testbed.kernel.ports.shutdown import is_shut
from testbed.model.fabric import Fabric
from testbed.model.node_config import Cable, Interface, NodeConfig, node_config
from testbed.model.node_names import NodeId, namespace_name
from testbed.root_environment import marked_environment

DEFAULT_LAB = "lab"


class FabricNode(Node):
    """A node of a fabric in its own namespace, which `ip netns` knows by name.

    `adopted`: another process owns the namespace and its contents; then nothing is made, configured or removed.
    """

    isSetup = True  # noqa: N815 - Mininet's name; it would look for ifconfig, which nothing here uses

    def __init__(
        self,
        name: str,
        node_id: NodeId,
        fabric: Fabric,
        lab: str = DEFAULT_LAB,
        adopted: bool = False,
        outages: Outages | None = None,
        **params: Any,
    ) -> None:
        self.id, self.fabric, self.lab, self.adopted = node_id, fabric, lab, adopted
        self.namespace = namespace_name(lab, node_id)
        self.address: str | None = params.get("ip")
        self.outages = outages or KernelOutages(fabric, lab)
        self._is_configured = adopted
        self._may_start_shell = bool(params.get("privateDirs"))
        self._pid: int | None = None
        self._make()
        try:
            super().__init__(
                name, **{**params, "inNamespace": False}
            )  # otherwise Mininet would make a second namespace
        except BaseException:
            self.remove()
            raise
        self.inNamespace = True
        self._may_start_shell = True

    @cached_property
    def wanted(self) -> NodeConfig:
        """Return the planned kernel state of this node."""
        return node_config(self.fabric, self.id)

    @cached_property
    def interfaces(self) -> dict[str, Interface]:
        """Return the plan's ports by name."""
        return {each.name: each for each in self.wanted.interfaces}

    @property
    def netns_path(self) -> Path:
        """Return the file of the namespace, for setns."""
        return namespace_path(self.namespace)

    def rtnl(self) -> AbstractContextManager[Rtnl]:
        """Open a netlink socket inside the node."""
        return Rtnl.inside(self.name, self.netns_path)

    def plug(self, port: str, far: "FabricNode", far_port: str) -> None:
        """Create the veth pair between two ports of the plan. Raises KernelError."""
        if self.adopted:
            return
        cable = Cable(self.interfaces[port], far.id, far.interfaces[far_port])
        with _opened(far.netns_path) as there, self.rtnl() as rtnl:
            rtnl.apply([requests.create_cable(cable, there)])

    def configure(self) -> None:
        """Set addresses, neighbours, routes and forwarding, once; all links must exist.

        Raises KernelError; ReadBackError on a node of the user's own class, which the network does not read back later.
        """
        if self._is_configured:
            return
        configure(self.wanted, self.netns_path)
        self._is_configured = True
        if not self.is_ours and (lines := self.differences(read_state(self.wanted, self.netns_path))):
            raise ReadBackError(lines)

    @property
    def is_ours(self) -> bool:
        """Report whether its class is one of this module, so that the plan alone decides its state."""
        return type(self).__module__ == __name__

    def differences(self, state: NodeState) -> tuple[str, ...]:
        """Compare the kernel's state with the plan; ports that the user has added are no difference."""
        has_more = set(self.nameToIntf) > set(self.interfaces)
        return differences(self.wanted, state, has_more)

    def port_status(self, port: str) -> str:
        """Return `OK`, `DOWN` when a port is shut, or `MISSING`, read from the kernel."""
        if not self.netns_path.exists() or port not in self.interfaces:
            return "MISSING"
        with self.rtnl() as rtnl:
            try:
                return "DOWN" if is_shut(rtnl, self.interfaces[port].ifindex) else "OK"
            except KernelError:
                return "MISSING"

    def remove(self) -> None:
        """Remove the namespace with its links and routes; repeating it is safe."""
        if not self.adopted:
            delete_namespaces((self.namespace,))

    @property
    def pid(self) -> int | None:
        """Return the process inside the node: the shell, which this starts."""
        self.startShell()
        return self._pid

    @pid.setter
    def pid(self, pid: int | None) -> None:
        self._pid = pid

    def startShell(self, mnopts: str | None = None) -> None:  # noqa: N802 - Mininet's name
        """Start the shell, but not while Mininet constructs the node."""
        if not self._may_start_shell or self.shell is not None:
            return
        self.inNamespace = False  # otherwise Mininet would give it another namespace
        try:
            super().startShell(mnopts)
        finally:
            self.inNamespace = True

    def sendCmd(self, *args: Any, **kwargs: Any) -> None:  # noqa: N802 - Mininet's name
        """Give the shell a command, starting the shell for the first one."""
        self.startShell()
        super().sendCmd(*args, **kwargs)

    def cmd(self, *args: Any, **kwargs: Any) -> str | None:
        """Return the output of a command run by the node's shell; None once the node was terminated."""
        self.startShell()
        output: str | None = super().cmd(*args, **kwargs)
        return output

    def popen(self, *args: Any, **kwargs: Any) -> "Popen[bytes]":
        """Start a process inside the node, without its shell. Arguments as in Mininet's Node.popen."""
        kwargs.setdefault("mncmd", ["mnexec", "-d"])
        process: Popen[bytes] = super().popen(*args, **kwargs)
        return process

    def terminate(self) -> None:
        """End the shell and remove the namespace."""
        try:
            super().terminate()
        finally:
            self._may_start_shell = False
            self.remove()

    def newPort(self) -> int:  # noqa: N802 - Mininet's name
        """Return the lowest free port number that the plan does not use."""
        return next(port for port in range(len(self.ports) + 1) if port not in self.intfs)

    def IP(self, intf: Any = None) -> str | None:  # noqa: N802 - Mininet's name
        """Return the host's own address, the same on every port; None without a host stack and on switches."""
        del intf
        return self.address

    def __repr__(self) -> str:
        """Format class, name and ports; starts no shell."""
        ports = ",".join(f"{port}:{port.IP()}" for port in self.intfList())
        return f"<{type(self).__name__} {self.name}: {ports} pid={self._pid}> "

    def _make(self) -> None:
        """Create the namespace, and silence it before it has any interface."""
        if self.adopted:
            return
        create_namespaces((self.namespace,))
        try:
            write_sysctls(str(self.id), self.netns_path, self.wanted.quiet)
        except BaseException:
            self.remove()
            raise

    def _popen(self, cmd: list[str], **params: Any) -> "Popen[bytes]":
        params["env"] = marked_environment(self.lab, params.get("env") or os.environ)
        return Popen(command_inside(self.namespace, cmd), **params)


class Host(FabricNode):
    """A host, with a port in every plane."""

    def config(self, **_params: Any) -> dict[str, object]:
        """Configure the host. Mininet calls this once all links exist; a subclass calls it first in its own."""
        self.configure()
        return {}


class Router(FabricNode):
    """A leaf or a spine: a Linux router with static SRv6 routes. Mininet starts and stops it as a switch."""

    def config(self, **_params: Any) -> dict[str, object]:
        """Do nothing: `start` configures it."""
        return {}

    def start(self, controllers: Any) -> None:
        """Configure it, or open again what `stop` has shut; there is no controller. A subclass calls this first."""
        del controllers
        if self._is_configured:
            self.outages.mend(self.id)
        self.configure()

    def stop(self, deleteIntfs: bool = True) -> None:  # noqa: N803 - Mininet's name
        """Crash the router: shut all its ports until `start`. The `stop` of the whole network does not use this."""
        del deleteIntfs  # the namespace removes them, in `terminate`
        if self._is_configured:
            self.outages.cut(self.id)

    @classmethod
    def batchShutdown(cls, switches: tuple["Router", ...]) -> tuple["Router", ...]:  # noqa: N802 - Mininet's name
        """Stop all at once: nothing is to be done before their namespaces are removed."""
        return switches

    def connected(self) -> bool:
        """Return True: there is no controller to wait for."""
        return True

    def dpctl(self, *_args: Any) -> str:
        """Refuse: raises NotOfferedError, as there are no flow tables."""
        raise NotOfferedError(
            "dpctl", "leaves and spines are Linux routers, without OpenFlow", f"`{self} ip -6 route show table local`"
        )


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)
