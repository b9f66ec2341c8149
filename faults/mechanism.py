"""The seam between what is to go wrong and how the kernel is made to do it: one fault on one port's way out."""

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Protocol

from faults.model import RandomDrop
from testbed.kernel.netns import namespace_path
from testbed.model.addressing import ifindex_of
from testbed.model.fabric import Fabric
from testbed.model.ids import DirectedLink, namespace_name


@dataclass(frozen=True, slots=True)
class Target:
    """Where a fault is put: the sending port of a directed link."""

    link: str
    """As the user knows it: `p0:leaf3>spine5`."""
    node: str
    namespace: Path
    interface: str
    ifindex: int


@dataclass(frozen=True, slots=True)
class Tally:
    """Packets that met a fault since it was set."""

    seen: int
    dropped: int
    dropped_writes: int | None
    """MRC writes among the dropped; None where the mechanism cannot tell."""


class Applied(Protocol):
    """One fault that is in the kernel."""

    def in_force(self) -> Fraction | None:
        """The drop rate the kernel applies now, read from it; None if the fault is no longer there."""
        ...

    def tally(self) -> Tally:
        """What it did so far, read from the kernel."""
        ...

    def revert(self) -> Tally:
        """Remove it and whatever was added for it; the final counters. Raises KernelError."""
        ...


class Mechanism(Protocol):
    """A way to make faults."""

    @property
    def name(self) -> str:
        """As users choose it: `netem`, `ebpf`."""
        ...

    def apply(self, target: Target, fault: RandomDrop) -> Applied:
        """Put a fault in place. Raises MissingFeatureError when this machine cannot, KernelError, BpfError."""
        ...


def target_of(lab: str, fabric: Fabric, link: DirectedLink) -> Target:
    """The sending port of `link` in a lab."""
    port = link.egress
    return Target(
        link=str(link),
        node=str(port.node),
        namespace=namespace_path(namespace_name(lab, port.node)),
        interface=port.interface,
        ifindex=ifindex_of(fabric, port),
    )
