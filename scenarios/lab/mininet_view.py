"""Provides Mininet's view of a lab that is up: its objects and its CLI, whose `link` and `switch` request faults.

So truth.jsonl records them, `fault show` shows them, and clearing them restores the routes.
"""

from scenarios.errors import ScenariosError
from scenarios.lab.client import Owner
from scenarios.lab.lab_dir import LabDir
from scenarios.lab.protocol import FaultClear, Faults, FaultSet
from testbed.emulation.network import FabricNet
from testbed.emulation.outages import Outage
from testbed.emulation.shell import FabricCLI
from testbed.model.fabric import Fabric
from testbed.model.node_names import NodeId


class OwnerOutages:
    """Outages made by the lab's fault injector: a link or port is `down`, a switch has a `crash`."""

    def __init__(self, labdir: LabDir) -> None:
        self._labdir = labdir

    def cut(self, target: Outage) -> None:
        """Set the fault. Raises the owner's error."""
        with Owner(self._labdir) as owner:
            owner.ask(FaultSet(str(target), {_word(target): True}), Faults)

    def mend(self, target: Outage) -> None:
        """Clear it, whoever has set it. Raises the owner's error."""
        with Owner(self._labdir) as owner:
            owner.ask(FaultClear(str(target), _word(target)), Faults)


class LabCLI(FabricCLI):
    """Run Mininet's CLI on a lab that is up."""

    expected = (*FabricCLI.expected, ScenariosError)


def mininet_of(labdir: LabDir, fabric: Fabric) -> FabricNet:
    """Return Mininet's network object for a lab that is up; its `stop` ends only shells."""
    return FabricNet.adopt(fabric, labdir.lab, OwnerOutages(labdir))


def _word(target: Outage) -> str:
    return "crash" if isinstance(target, NodeId) else "down"
