"""Identifies a lab and its size: the head of all that its owner reports, by file or over its socket."""

import msgspec

from scenarios.lab.processes import ProcessId
from testbed.model.fabric import Fabric, FabricSpec


class LabShape(msgspec.Struct, frozen=True):
    """The properties that do not change while a lab is up."""

    lab: str
    owner: ProcessId
    started: str
    planes: int
    leaves: int
    spines: int
    hosts_per_leaf: int
    host_stack: bool
    mtu: int
    workers: int
    scapy_hosts: tuple[int, ...]
    """Hosts that move packets by Scapy."""

    def fabric(self) -> Fabric:
        """Return the fabric that is up."""
        spec = FabricSpec(
            self.planes, self.leaves, self.spines, self.hosts_per_leaf, mtu=self.mtu, host_stack=self.host_stack
        )
        return Fabric.of(spec)
