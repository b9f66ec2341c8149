"""Definitions for Mininet's own command: `mn --custom` this file, then `--topo spraylab,planes=2,leaves=4`.

The command runs this file and uses its names: a topology, the network's class, the command line, and the cleanup.
`lab=NAME` names the lab (default: mn); ordinary programs can use the hosts.
"""

import sys
from typing import Any

try:
    from testbed.emulation.network import FabricNet
    from testbed.emulation.shell import FabricCLI
    from testbed.emulation.topo import FabricTopo
except ImportError as error:
    sys.exit(f"{error}: use the mn of spraylab's own Python environment, as in `sudo .venv/bin/mn`")

import mininet.node
from mininet import clean
from mininet.net import Mininet as PlainMininet
from mininet.node import NullController

_built: list[FabricNet] = []
_asked = False
"""True if the topology is ours, so that cleanup concerns ours too."""


class SpraylabTopo(FabricTopo):
    """A fabric whose hosts ordinary programs can use, in a lab with its own name."""

    def build(self, *counts: Any, lab: str = "mn", host_stack: Any = True, **named: Any) -> None:
        """Build the graph from the arguments after `--topo spraylab`."""
        global _asked
        _asked = True
        super().build(*counts, host_stack=host_stack not in (0, "0", "no", "False", "false", False), **named)
        self.lab = lab


def Mininet(topo: Any, **options: Any) -> Any:  # noqa: N802 - the command calls it
    """Create the network of a topology: FabricNet for a fabric, or Mininet's for any other."""
    if not isinstance(topo, SpraylabTopo):
        return PlainMininet(topo, **options)
    fitting = {name: value for name, value in options.items() if name not in ("controller", "inNamespace")}
    net = FabricNet(topo, topo.lab, build=False, **fitting)
    _built.append(net)
    net.build()
    return net


def findController() -> Any:  # noqa: N802 - the command calls it
    """Choose the controller if none is named: none if the topology is ours, which has no switches.

    The command calls this.
    """
    topo = next((word for word in sys.argv if word.removeprefix("--topo=").split(",")[0] == "spraylab"), None)
    return NullController if topo else mininet.node.findController()


def cleanup() -> None:
    """Clean up after an error: take down our own network and end with an exit code.

    Mininet's cleanup would end processes by name.
    """
    for net in _built:
        net.stop()
    if not _asked:
        clean.cleanup()
    elif sys.exc_info()[1] is not None:
        sys.exit(130 if isinstance(sys.exc_info()[1], KeyboardInterrupt) else 1)


MininetWithControlNet = Mininet
CLI = FabricCLI
topos = {"spraylab": SpraylabTopo}
