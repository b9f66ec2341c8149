"""Makes faults by shutting a port: down, flap, reboot and crash. It restores what the kernel removes with it.

Several faults may shut one port; it opens with the last of them.
"""

from dataclasses import dataclass
from pathlib import Path

from faults.kinds import By, Fault
from faults.mechanisms.base import Applied, Tally, Target
from testbed.kernel.netlink.rtnl import Rtnl
from testbed.kernel.ports import shutdown
from testbed.model.node_config import Placed


class LinkMechanism:
    """Makes faults by shutting ports; needs nothing that the fabric does not need."""

    name = By.LINK

    def __init__(self) -> None:
        self._shut: dict[tuple[Path, int], int] = {}
        """Faults that hold a port shut."""

    def check(self) -> None:
        """Do nothing: every kernel supports it."""

    def apply(self, target: Target, fault: Fault, seed: int) -> Applied:
        """Shut the port, unless another fault has. Raises KernelError."""
        del seed  # nothing here is left to chance
        key, before = (target.namespace, target.ifindex), _counts(target)
        if not self._shut.get(key):
            with Rtnl.inside(target.node, target.namespace) as rtnl:
                shutdown.shut(rtnl, target.ifindex, target.interface)
        counts_routes = not any(count for (space, _), count in self._shut.items() if space == target.namespace)
        self._shut[key] = self._shut.get(key, 0) + 1
        return _ShutPort(self, target, fault, before, counts_routes)

    def release(self, target: Target) -> None:
        """Remove one fault from the port; the last one opens it. Raises KernelError, ReadBackError."""
        key = target.namespace, target.ifindex
        if self._shut.get(key, 0) <= 1:
            with Rtnl.inside(target.node, target.namespace) as rtnl:
                shutdown.reopen(rtnl, target.ifindex, target.interface, target.neighbours, target.routes)
            self._shut.pop(key, None)
        else:
            self._shut[key] -= 1


@dataclass(frozen=True, slots=True)
class _Counts:
    refused: int
    no_route: int
    refused_there: int


class _ShutPort:
    def __init__(
        self, mechanism: LinkMechanism, target: Target, fault: Fault, before: _Counts, counts_routes: bool
    ) -> None:
        self._mechanism, self._target, self._fault = mechanism, target, fault
        self._before, self._counts_routes = before, counts_routes
        self._reverted = False

    def in_force(self) -> Fault | None:
        with Rtnl.inside(self._target.node, self._target.namespace) as rtnl:
            return self._fault if shutdown.is_shut(rtnl, self._target.ifindex) else None

    def is_seeded(self) -> bool:
        return True

    def placed(self) -> Placed:
        return Placed(shut=not self._reverted)

    def tally(self) -> Tally:
        """Return packets that the switch could not send for lack of a route; they are counted for the whole
        switch, and reported with the first port that was shut there.
        """
        now, before = _counts(self._target), self._before
        lost = now.refused - before.refused + (now.no_route - before.no_route if self._counts_routes else 0)
        return Tally(lost, lost, None, lost, None, now.refused_there - before.refused_there)

    def revert(self) -> Tally:
        if not self._reverted:
            self._mechanism.release(self._target)
            self._reverted = True
        return self.tally()


def _counts(target: Target) -> _Counts:
    there = target.far_namespace
    return _Counts(
        shutdown.dropped_on_send(target.namespace, target.interface),
        shutdown.without_route(target.namespace),
        shutdown.dropped_on_send(there, target.far_interface) if there else 0,
    )
