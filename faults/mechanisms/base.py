"""The seam between what is to go wrong and how the kernel is made to do it: one fault on one port's way out."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from faults.kinds import By, Fault
from testbed.kernel.comparison import Placed
from testbed.kernel.netns import namespace_path
from testbed.model.addressing import ifindex_of
from testbed.model.fabric import Fabric
from testbed.model.ids import DirectedLink, PortId, namespace_name
from testbed.model.node_config import Neighbour, Route, node_config


@dataclass(frozen=True, slots=True)
class Target:
    """Where a fault is put: the sending port of a directed link."""

    link: str
    """As the user knows it: `p0:leaf3>spine5`."""
    node: str
    namespace: Path
    interface: str
    ifindex: int
    neighbours: tuple[Neighbour, ...] = ()
    """What the port has, and loses when it is shut."""
    routes: tuple[Route, ...] = ()
    """What leads through the port, and is lost when it is shut."""
    far_namespace: Path | None = None
    """Of the other end, where the other direction is counted."""
    far_interface: str = ""


@dataclass(frozen=True, slots=True)
class Tally:
    """Packets that met a fault since it was set."""

    seen: int
    """Those that it looks at."""
    dropped: int
    dropped_writes: int | None
    """MRC writes among the dropped; None where the mechanism cannot tell."""
    hit: int | None = None
    """Packets that it did something to; None where the mechanism cannot tell."""
    passed: int | None = None
    """All packets of the port, where that is more than `seen`."""
    dropped_reverse: int | None = None
    """Lost in the other direction: at a shut port both are."""
    overlimits: int = 0
    """How often a packet had to wait for a rate limit."""


class Applied(Protocol):
    """One fault that is in the kernel."""

    def in_force(self) -> Fault | None:
        """The fault as the kernel holds it now, read from it; None if it is no longer there."""
        ...

    def is_seeded(self) -> bool:
        """Whether the seed fixes which packets are hit."""
        ...

    def tally(self) -> Tally:
        """What it did so far, read from the kernel."""
        ...

    def placed(self) -> Placed:
        """What it has put on its port, or done to it."""
        ...

    def revert(self) -> Tally:
        """Remove it and whatever was added for it; the final counters. Raises KernelError."""
        ...


class Mechanism(Protocol):
    """A way to make faults."""

    @property
    def name(self) -> By:
        """As users choose it."""
        ...

    def check(self) -> None:
        """Try it where it harms nobody. Raises MissingFeatureError when this machine cannot."""
        ...

    def apply(self, target: Target, fault: Fault, seed: int) -> Applied:
        """Put a fault in place. Raises MechanismError when the port is taken, KernelError, BpfError."""
        ...


class Switched(Applied, Protocol):
    """One of several faults that are in the kernel and come into force, and go again, in one step."""

    def held(self) -> Fault | None:
        """The fault as the kernel holds it, in force or not; None if it is no longer there."""
        ...

    def switch(self, on: bool) -> None:
        """All of them at once, by one write. Raises BpfError."""
        ...

    def is_on(self) -> bool:
        """Whether they are in force, read from the kernel."""
        ...

    def prepare(self, seed: int) -> None:
        """While it is not in force: hit other packets from now on, and count from zero."""
        ...


@runtime_checkable
class Arming(Protocol):
    """A mechanism whose faults can wait in the kernel, and come into force on many ports in one step."""

    def arm(self, targets: Sequence[Target], fault: Fault, seeds: Sequence[int]) -> Sequence[Switched]:
        """Put a fault in place on every target, not in force yet. Raises as `apply` does, and nothing is left then."""
        ...


def target_of(lab: str, fabric: Fabric, link: DirectedLink) -> Target:
    """The sending port of `link` in a lab."""
    port, far = link.egress, link.ingress
    ifindex, config = ifindex_of(fabric, port), node_config(fabric, port.node)
    return Target(
        link=str(link),
        node=str(port.node),
        namespace=_namespace(lab, port),
        interface=port.interface,
        ifindex=ifindex,
        neighbours=config.neighbours_at(ifindex),
        routes=config.routes_through(ifindex),
        far_namespace=_namespace(lab, far),
        far_interface=far.interface,
    )


def _namespace(lab: str, port: PortId) -> Path:
    return namespace_path(namespace_name(lab, port.node))
