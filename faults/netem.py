"""Random loss by the kernel's own network emulator. Source: net/sched/sch_netem.c.

netem drops a packet when a 32-bit random number is at most `loss`, and never when `loss` is 0.
"""

from fractions import Fraction

from faults.mechanism import Applied, Tally, Target
from faults.model import RandomDrop
from faults.quantities import rate_of_threshold
from testbed.kernel.rtnl import Rtnl
from testbed.kernel.shaping import Netem, read_netem, remove_netem, set_netem


class NetemMechanism:
    """Needs CONFIG_NET_SCH_NETEM (module sch_netem)."""

    name = "netem"

    def apply(self, target: Target, fault: RandomDrop) -> Applied:
        """Make netem the port's root qdisc. Raises MissingFeatureError, KernelError."""
        with Rtnl.inside(target.node, target.namespace) as rtnl:
            set_netem(rtnl, target.ifindex, Netem(loss_u32=loss_of(fault)))
        return _NetemLoss(target)


class _NetemLoss:
    def __init__(self, target: Target) -> None:
        self._target = target

    def in_force(self) -> Fraction | None:
        with Rtnl.inside(self._target.node, self._target.namespace) as rtnl:
            found = read_netem(rtnl, self._target.ifindex)
        return rate_of_loss(found[0].loss_u32) if found else None

    def tally(self) -> Tally:
        with Rtnl.inside(self._target.node, self._target.namespace) as rtnl:
            return _tally(rtnl, self._target.ifindex)

    def revert(self) -> Tally:
        """The loss ends before the counters are read, so that none is missed: they vanish with the qdisc."""
        target = self._target
        with Rtnl.inside(target.node, target.namespace) as rtnl:
            if read_netem(rtnl, target.ifindex) is not None:
                set_netem(rtnl, target.ifindex, Netem())
            last = _tally(rtnl, target.ifindex)
            remove_netem(rtnl, target.ifindex)
        return last


def _tally(rtnl: Rtnl, ifindex: int) -> Tally:
    found = read_netem(rtnl, ifindex)
    if found is None:
        return Tally(0, 0, None)
    stats = found[1]
    return Tally(stats.packets + stats.drops + stats.backlog_pkts, stats.drops, None)


def loss_of(fault: RandomDrop) -> int:
    """netem's `loss` for a fault; at least 1, the smallest that is not "never"."""
    return max(fault.threshold - 1, 1)


def rate_of_loss(loss: int) -> Fraction:
    """The drop rate that a `loss` gives."""
    return rate_of_threshold(loss + 1) if loss else Fraction(0)
