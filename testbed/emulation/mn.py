"""For Mininet's own command, which is given this file by `--custom`, and then `--topo spraylab,planes=2,leaves=4`.

The command runs this file and takes over what it is called here: a topology, the network's class, the command line,
and how it cleans up. `lab=NAME` names the lab (default: mn); ordinary programs can use the hosts.
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
"""Whether the topology is ours, so that what is to be cleaned up is."""


class SpraylabTopo(FabricTopo):
    """A fabric whose hosts ordinary programs use, in a lab of a name of its own."""

    def build(self, *counts: Any, lab: str = "mn", host_stack: Any = True, **named: Any) -> None:
        """Called with what stands behind `--topo spraylab`."""
        global _asked
        _asked = True
        super().build(*counts, host_stack=host_stack not in (0, "0", "no", "False", "false", False), **named)
        self.lab = lab


def Mininet(topo: Any, **options: Any) -> Any:  # noqa: N802 - the command calls it
    """The network of a topology: a fabric's own, or Mininet's for any other."""
    if not isinstance(topo, SpraylabTopo):
        return PlainMininet(topo, **options)
    fitting = {name: value for name, value in options.items() if name not in ("controller", "inNamespace")}
    net = FabricNet(topo, topo.lab, build=False, **fitting)
    _built.append(net)
    net.build()
    return net


def findController() -> Any:  # noqa: N802 - the command calls it
    """What the command takes as controller if it is told none: nothing, if the topology is ours; it has no switches."""
    topo = next((word for word in sys.argv if word.removeprefix("--topo=").split(",")[0] == "spraylab"), None)
    return NullController if topo else mininet.node.findController()


def cleanup() -> None:
    """What the command calls after an error: take down our own, and end with an exit code; Mininet's would end
    processes by name."""
    for net in _built:
        net.stop()
    if not _asked:
        clean.cleanup()
    elif sys.exc_info()[1] is not None:
        sys.exit(130 if isinstance(sys.exc_info()[1], KeyboardInterrupt) else 1)


MininetWithControlNet = Mininet
CLI = FabricCLI
topos = {"spraylab": SpraylabTopo}
