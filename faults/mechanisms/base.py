"""Defines the interface between faults and mechanisms: one fault at one port's egress."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from faults.kinds import By, Fault
from testbed.kernel.netns import namespace_path
from testbed.model.addressing import ifindex_of
from testbed.model.fabric import Fabric
from testbed.model.node_config import Neighbour, Placed, Route, node_config
from testbed.model.node_names import DirectedLink, PortId, namespace_name


@dataclass(frozen=True, slots=True)
class Target:
    """The place of a fault: the sending port of a directed link."""

    link: str
    """The link's name for users: `p0:leaf3>spine5`."""
    node: str
    namespace: Path
    interface: str
    ifindex: int
    neighbours: tuple[Neighbour, ...] = ()
    """Addresses of the port, which it loses when it is shut."""
    routes: tuple[Route, ...] = ()
    """Routes and neighbours through the port, which are lost when it is shut."""
    far_namespace: Path | None = None
    """The other end, where the other direction is counted."""
    far_interface: str = ""


@dataclass(frozen=True, slots=True)
class Tally:
    """Packet counters of a fault since it was set."""

    seen: int
    """Packets that it examined."""
    dropped: int
    dropped_writes: int | None
    """Dropped MRC writes; None where the mechanism does not count them."""
    hit: int | None = None
    """Packets that it affected; None where the mechanism does not count them."""
    passed: int | None = None
    """All packets of the port, where that is more than `seen`."""
    dropped_reverse: int | None = None
    """Packets lost in the other direction: at a shut port both are."""
    overlimits: int = 0
    """Number of packets that a rate limit delayed."""


class Applied(Protocol):
    """One fault that is in the kernel."""

    def in_force(self) -> Fault | None:
        """Return the fault as the kernel holds it now; None if it is no longer there."""
        ...

    def is_seeded(self) -> bool:
        """Return whether the seed decides which packets are hit."""
        ...

    def tally(self) -> Tally:
        """Return its counters, read from the kernel."""
        ...

    def placed(self) -> Placed:
        """Return what it has put on its port, or done to it."""
        ...

    def revert(self) -> Tally:
        """Remove it and everything added for it; return the final counters. Raises KernelError."""
        ...


class Mechanism(Protocol):
    """A way to make faults."""

    @property
    def name(self) -> By:
        """Name for users."""
        ...

    def check(self) -> None:
        """Try it where it does no harm. Raises MissingFeatureError when this machine does not support it."""
        ...

    def apply(self, target: Target, fault: Fault, seed: int) -> Applied:
        """Put a fault in place. Raises MechanismError when the port is taken, KernelError, BpfError."""
        ...


class Switched(Applied, Protocol):
    """One of several faults in the kernel that come into force, and go again, in one step."""

    def held(self) -> Fault | None:
        """Return the fault as the kernel holds it, in force or not; None if it is no longer there."""
        ...

    def switch(self, on: bool) -> None:
        """Switch all of them at once, by one write. Raises BpfError."""
        ...

    def is_on(self) -> bool:
        """Return whether they are in force, read from the kernel."""
        ...

    def prepare(self, seed: int) -> None:
        """Set a new seed and reset the counters, while it is not in force."""
        ...


@runtime_checkable
class Arming(Protocol):
    """A mechanism whose faults can wait in the kernel, and come into force on many ports in one step."""

    def arm(self, targets: Sequence[Target], fault: Fault, seeds: Sequence[int]) -> Sequence[Switched]:
        """Put a fault in place on every target, not in force yet. Raises as `apply` does, and nothing is left then."""
        ...


def target_of(lab: str, fabric: Fabric, link: DirectedLink) -> Target:
    """Return the sending port of `link` in a lab."""
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
