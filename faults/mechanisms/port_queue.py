"""Makes faults by a port's root queueing discipline: netem impairs, tbf limits the rate. One object per port
combines them.

netem is one qdisc for all its faults on a port, so it is made from all of them each time. Its counters vanish with it,
so a fault is removed by making it harmless, waiting until the qdisc is empty, and only then removing it.
"""

import time
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from fractions import Fraction

from faults.errors import MechanismError
from faults.kinds import BurstDrop, By, Fault, RandomDrop, RateLimit
from faults.mechanisms.base import Applied, Tally, Target
from faults.mechanisms.netem_config import delay_of, held, netem_of
from testbed.kernel.netlink.rtnl import Rtnl
from testbed.kernel.netns import in_nameless_namespace
from testbed.kernel.ports import shaping
from testbed.kernel.ports.shaping import Netem, Tbf
from testbed.model.node_config import LOOPBACK_IFINDEX, Placed

LARGEST_FRAME_BYTES = 10_000
"""Least burst: a token bucket drops what is longer; our links carry 9014 bytes."""
BURST_SECONDS = Fraction(1, 1000)
"""Burst of a rate limit (our choice): short compared with every timeout of the transport."""
BURST_STEP = Fraction(1, 1000)
"""Resolution of a burst: the kernel keeps its duration in steps of 64 ns, a part of 0.00006 of BURST_SECONDS."""
FAST_BYTES_PER_S = 125 * 10**9
DRAINED_WITHIN_S = 2.0
_POLL_S = 0.002


@dataclass(frozen=True, slots=True)
class Totals:
    """Counters of a port's qdiscs since the first fault, over all that were made and removed."""

    packets: int = 0
    drops: int = 0
    limited_packets: int = 0
    limited_drops: int = 0
    overlimits: int = 0

    def plus(self, other: "Totals", sign: int = 1) -> "Totals":
        """Return the sum, or the difference with sign -1."""
        return Totals(
            self.packets + sign * other.packets,
            self.drops + sign * other.drops,
            self.limited_packets + sign * other.limited_packets,
            self.limited_drops + sign * other.limited_drops,
            self.overlimits + sign * other.overlimits,
        )


class PortQueues:
    """The ports whose root qdisc is ours."""

    def __init__(self) -> None:
        self._ports: dict[tuple[str, int], _PortQueue] = {}

    def of(self, target: Target) -> "_PortQueue":
        """Return the port's entry, made when missing."""
        return self._ports.setdefault((str(target.namespace), target.ifindex), _PortQueue(target))

    def forget(self, target: Target) -> None:
        """Remove the entry: the last fault of a port is gone."""
        self._ports.pop((str(target.namespace), target.ifindex), None)


class QueueMechanism:
    """Makes faults by netem or tbf. Both share `ports`, because they share a port's root."""

    def __init__(self, name: By, ports: PortQueues) -> None:
        self.name = name
        self._ports = ports

    def check(self) -> None:
        """Check for support. Raises MissingFeatureError when the kernel lacks the qdisc."""
        in_nameless_namespace(_try_netem if self.name is By.NETEM else _try_tbf)

    def apply(self, target: Target, fault: Fault, seed: int) -> Applied:
        """Add a fault to the port's qdiscs. Raises MechanismError when its place there is taken, KernelError."""
        queue = self._ports.of(target)
        try:
            return queue.add(fault, seed, self._ports)
        except BaseException:
            if queue.is_empty():
                self._ports.forget(target)
            raise


class _PortQueue:
    def __init__(self, target: Target) -> None:
        self.target = target
        self._faults: dict[str, Fault] = {}
        self._seed = 0
        self._past = Totals()
        self._drops: dict[str, int] = {}
        """netem's counters, by the place of their fault."""
        self._settled = 0
        """Those of netem's drops that `_drops` contains."""

    def is_empty(self) -> bool:
        return not self._faults

    def add(self, fault: Fault, seed: int, ports: PortQueues) -> "_QueueFault":
        place = _place_of(fault)
        if place in self._faults:
            raise MechanismError(
                "netem" if place != "rate" else "tbf",
                f"{self.target.link} has {self._faults[place]} there already",
                "clear it first" + (", or choose ebpf" if By.EBPF in fault.says.makers else ""),
            )
        if not self._faults:
            self._seed = seed
        with self._rtnl() as rtnl:
            before = self.settled_totals(rtnl)
            try:
                self._install(rtnl, {**self._faults, place: fault})
            except BaseException:
                self._install(rtnl, self._faults)
                raise
            self._faults[place], self._drops[place] = fault, 0
        return _QueueFault(self, fault, seed, before, ports)

    def take(self, fault: Fault) -> Totals:
        """Remove one fault; return the final totals."""
        place = _place_of(fault)
        with self._rtnl() as rtnl:
            self._install(rtnl, {name: each for name, each in self._faults.items() if name != place})
            last = self.settled_totals(rtnl)
        self._faults.pop(place, None)
        return last

    def found(self) -> tuple[Netem | None, Tbf | None]:
        with self._rtnl() as rtnl:
            netem, tbf = shaping.read_netem(rtnl, self.target.ifindex), shaping.read_tbf(rtnl, self.target.ifindex)
        return netem and netem[0], tbf and tbf[0]

    def others_ns(self, fault: Fault) -> int:
        """Return the part of netem's delay that other faults need."""
        return sum(delay_of(each) for each in self._faults.values() if each is not fault)

    def drops_of(self, fault: Fault) -> int:
        """Return netem's drops for this fault, up to the last totals."""
        return self._drops[_place_of(fault)]

    def settled_totals(self, rtnl: Rtnl) -> Totals:
        """Read counters; netem's new drops belong to its loss; without a loss they are overflows, reported with
        the first fault.
        """
        now = self._past.plus(_live(rtnl, self.target.ifindex))
        if self._faults:
            blamed = "loss" if "loss" in self._faults else next(iter(self._faults))
            self._drops[blamed] += now.drops - self._settled
        self._settled = now.drops
        return now

    def totals(self) -> Totals:
        with self._rtnl() as rtnl:
            return self.settled_totals(rtnl)

    def _rtnl(self) -> AbstractContextManager[Rtnl]:
        return Rtnl.inside(self.target.node, self.target.namespace)

    def _install(self, rtnl: Rtnl, faults: dict[str, Fault]) -> None:
        """Change the qdiscs to what `faults` need; the root changes kind only when it must."""
        ifindex = self.target.ifindex
        netem, tbf = netem_of(faults, self._seed), tbf_of(faults)
        has_netem, has_tbf = shaping.read_netem(rtnl, ifindex), shaping.read_tbf(rtnl, ifindex)
        if has_netem and not netem:
            self._empty_root(rtnl, Netem(), bool(has_tbf))
            has_netem = has_tbf = None
        elif has_tbf and not has_netem and (netem or not tbf):
            self._empty_root(rtnl, None, True)
            has_tbf = None
        elif has_netem and has_tbf and not tbf:
            self._empty(rtnl, None, True)
            before = _live(rtnl, ifindex)
            shaping.remove_tbf(rtnl, ifindex, below_netem=True)
            self._past = self._past.plus(before.plus(_live(rtnl, ifindex), -1))
        if netem:
            shaping.set_netem(rtnl, ifindex, netem)
        if tbf:
            shaping.set_tbf(rtnl, ifindex, tbf, below_netem=bool(netem))

    def _empty_root(self, rtnl: Rtnl, harmless: Netem | None, limited: bool) -> None:
        self._empty(rtnl, harmless, limited)
        self._past = self._past.plus(_live(rtnl, self.target.ifindex))
        if harmless:
            shaping.remove_netem(rtnl, self.target.ifindex)
        else:
            shaping.remove_tbf(rtnl, self.target.ifindex)

    def _empty(self, rtnl: Rtnl, harmless: Netem | None, limited: bool) -> None:
        """Let all waiting packets pass, so that nothing is lost with the qdisc."""
        ifindex = self.target.ifindex
        if limited:
            below = shaping.read_netem(rtnl, ifindex) is not None
            shaping.set_tbf(rtnl, ifindex, Tbf(FAST_BYTES_PER_S, 1 << 20, 1 << 30), below_netem=below)
        longest = shaping.read_netem(rtnl, ifindex)
        if harmless is not None and longest is not None:
            shaping.set_netem(rtnl, ifindex, harmless)
        waits_ns = longest[0].delay_ns + 4 * longest[0].jitter_ns if longest else 0
        deadline = time.monotonic() + DRAINED_WITHIN_S + waits_ns / 1e9
        while _waiting(rtnl, ifindex) and time.monotonic() < deadline:
            time.sleep(_POLL_S)


class _QueueFault:
    def __init__(self, queue: _PortQueue, fault: Fault, seed: int, before: Totals, ports: PortQueues) -> None:
        self._queue, self._fault, self._seed, self._before, self._ports = queue, fault, seed, before, ports

    def in_force(self) -> Fault | None:
        netem, tbf = self._queue.found()
        if isinstance(self._fault, RateLimit):
            return None if tbf is None else limit_in(tbf)
        return None if netem is None else held(self._fault, netem, self._queue.others_ns(self._fault))

    def is_seeded(self) -> bool:
        """Return netem's one seed, that of its first fault."""
        netem, _ = self._queue.found()
        return netem is not None and netem.seed == self._seed

    def placed(self) -> Placed:
        return Placed(root="tbf" if isinstance(self._fault, RateLimit) else "netem")

    def tally(self) -> Tally:
        return self._tally(self._queue.totals())

    def revert(self) -> Tally:
        last = self._tally(self._queue.take(self._fault))
        if self._queue.is_empty():
            self._ports.forget(self._queue.target)
        return last

    def _tally(self, now: Totals) -> Tally:
        since = now.plus(self._before, -1)
        if isinstance(self._fault, RateLimit):
            return Tally(since.limited_packets, since.limited_drops, None, None, overlimits=since.overlimits)
        drops = self._queue.drops_of(self._fault)
        return Tally(since.packets, drops, None, drops if self._fault.drop_rate is not None else None)


def _place_of(fault: Fault) -> str:
    """The place of a fault in a port's qdiscs; random and burst loss exclude each other."""
    return "loss" if isinstance(fault, RandomDrop | BurstDrop) else fault.word


def tbf_of(faults: dict[str, Fault]) -> Tbf | None:
    """Return the token bucket of a port's rate limit, None without one."""
    limit = faults.get("rate")
    if not isinstance(limit, RateLimit):
        return None
    rate = limit.bits_per_s // 8
    return Tbf(rate, _burst_bytes(rate), limit.queue_bytes)


def limit_in(tbf: Tbf) -> RateLimit | None:
    """Return the limit of a token bucket; None if its burst is not ours."""
    wanted = _burst_bytes(tbf.bytes_per_s)
    if abs(tbf.burst_bytes - wanted) > wanted * BURST_STEP:
        return None
    return RateLimit(tbf.bytes_per_s * 8, tbf.queue_bytes)


def _burst_bytes(bytes_per_s: int) -> int:
    return max(LARGEST_FRAME_BYTES, int(bytes_per_s * BURST_SECONDS))


def _live(rtnl: Rtnl, ifindex: int) -> Totals:
    netem, tbf = shaping.read_netem(rtnl, ifindex), shaping.read_tbf(rtnl, ifindex)
    limited = tbf[1] if tbf else None
    totals = Totals(
        limited_packets=limited.packets + limited.drops + limited.backlog_pkts if limited else 0,
        limited_drops=limited.drops if limited else 0,
        overlimits=limited.overlimits if limited else 0,
    )
    if netem is None:
        return totals
    stats = netem[1]
    own_drops = stats.drops - totals.limited_drops  # netem counts what its child drops as well
    return replace(totals, packets=stats.packets + stats.drops + stats.backlog_pkts, drops=own_drops)


def _waiting(rtnl: Rtnl, ifindex: int) -> bool:
    netem, tbf = shaping.read_netem(rtnl, ifindex), shaping.read_tbf(rtnl, ifindex)
    return any(found is not None and found[1].backlog_pkts for found in (netem, tbf))


def _try_netem() -> None:
    with Rtnl.here("probe") as rtnl:
        shaping.set_netem(rtnl, LOOPBACK_IFINDEX, Netem())


def _try_tbf() -> None:
    with Rtnl.here("probe") as rtnl:
        shaping.set_tbf(rtnl, LOOPBACK_IFINDEX, Tbf(1_250_000, LARGEST_FRAME_BYTES, 1 << 20))
