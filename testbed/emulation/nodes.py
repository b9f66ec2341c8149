"""Mininet's classes for nodes, ports and links that the kernel layer has made: they find things and create none.

A node's shell starts with the first command given to it, inside the node's named namespace.
"""

from subprocess import Popen
from typing import Any

from mininet.link import Intf, Link
from mininet.node import Node

from testbed.kernel.netns import command_inside


class FabricNode(Node):
    """A node that lives in a namespace made elsewhere."""

    isSetup = True  # noqa: N815 - Mininet's name; it would look for ifconfig, which nothing here uses

    def __init__(self, name: str, namespace: str, **params: Any) -> None:
        self.namespace = namespace
        self.address: str | None = params.get("ip")
        self._open_shells = False
        super().__init__(name, **{**params, "inNamespace": False})
        self._open_shells = True

    def startShell(self, mnopts: str | None = None) -> None:  # noqa: N802 - Mininet's name
        """Start the shell, but not yet while Mininet constructs the node."""
        if self._open_shells and self.shell is None:
            super().startShell(mnopts)

    def sendCmd(self, *args: Any, **kwargs: Any) -> None:  # noqa: N802 - Mininet's name
        """Give the shell a command, starting the shell for the first one."""
        self.startShell()
        super().sendCmd(*args, **kwargs)

    def cmd(self, *args: Any, **kwargs: Any) -> str | None:
        """Output of a command run by the node's shell; None once the node was terminated."""
        self.startShell()
        output: str | None = super().cmd(*args, **kwargs)
        return output

    def popen(self, *args: Any, **kwargs: Any) -> "Popen[bytes]":
        """Start a process inside the node, without its shell. Arguments as in Mininet's Node.popen."""
        kwargs.setdefault("mncmd", ["mnexec", "-d"])
        process: Popen[bytes] = super().popen(*args, **kwargs)
        return process

    def terminate(self) -> None:
        """End the shell; the namespace stays."""
        self._open_shells = False
        super().terminate()

    def config(self, **_params: Any) -> dict[str, object]:
        """Nothing: the kernel layer has configured the node."""
        return {}

    def IP(self, intf: Any = None) -> str | None:  # noqa: N802 - Mininet's name
        """The host's own address, the same on every port; None without a host stack and on switches."""
        del intf
        return self.address

    def _popen(self, cmd: list[str], **params: Any) -> "Popen[bytes]":
        return Popen(command_inside(self.namespace, cmd), **params)


class Host(FabricNode):
    """A host, with a port in every plane."""


class Router(FabricNode):
    """A leaf or a spine. Mininet starts and stops it as a switch; there is nothing to start."""

    def start(self, controllers: Any) -> None:
        """Nothing: a router forwards from the moment it is configured."""

    def connected(self) -> bool:
        """True: no controller is waited for."""
        return True


class Port(Intf):
    """One end of a link, already configured. Its address is its node's, which belongs to no single port."""

    def config(self, **_params: Any) -> dict[str, object]:
        """Nothing: the kernel layer has configured the interface."""
        return {}

    def IP(self) -> str | None:  # noqa: N802 - Mininet's name
        """The node's address; see FabricNode.IP."""
        address: str | None = self.node.IP()
        return address

    def updateIP(self) -> str | None:  # noqa: N802 - Mininet's name
        """The node's address; nothing can have changed it."""
        return self.IP()

    def delete(self) -> None:
        """Nothing: interfaces go with their namespaces."""


class Cable(Link):
    """A veth pair that exists."""

    @classmethod
    def makeIntfPair(cls, *_args: Any, **_kwargs: Any) -> None:  # noqa: N802 - Mininet's name
        """Nothing: the kernel layer has made the pair."""

    def delete(self) -> None:
        """Nothing: links go with their namespaces."""
