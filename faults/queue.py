"""Faults by a port's root queueing discipline: netem impairs, tbf slows down. One object a port composes them.

netem is one qdisc for all its faults on a port, so it is made from all of them each time. Its counters vanish with it,
so faults are taken back by making it harmless, waiting until it is empty, and only then removing it.
Source: net/sched/sch_netem.c.
"""

import time
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from fractions import Fraction
from statistics import NormalDist

from faults.errors import MechanismError
from faults.mechanism import Applied, Tally, Target
from faults.model import (
    BurstDrop,
    By,
    Corrupt,
    Delay,
    Distribution,
    Duplicate,
    Fault,
    RandomDrop,
    RateLimit,
    Reorder,
    drop_rate_of,
)
from faults.quantities import CERTAIN, rate_of_threshold, threshold_of
from testbed.kernel import shaping
from testbed.kernel.netns import in_nameless_namespace
from testbed.kernel.rtnl import Rtnl
from testbed.kernel.shaping import GilbertElliott, Netem, Tbf
from testbed.model.node_config import LOOPBACK_IFINDEX

LARGEST_FRAME_BYTES = 10_000
"""A token bucket drops what is longer than its burst; our links carry 9014."""
BURST_SECONDS = Fraction(1, 1000)
"""Of a rate limit (our choice): short beside every timeout of the transport."""
FAST_BYTES_PER_S = 125 * 10**9
DRAINED_WITHIN_S = 2.0
_POLL_S = 0.002
_TABLE_SIZE, _TABLE_SCALE = 4096, 8192  # NETEM_DIST_SCALE of linux/pkt_sched.h
_MOST_16_BITS = 32767


@dataclass(frozen=True, slots=True)
class Totals:
    """Counters of a port's qdiscs since the first fault, over all that were made and removed."""

    packets: int = 0
    drops: int = 0
    limited_packets: int = 0
    limited_drops: int = 0
    overlimits: int = 0

    def plus(self, other: "Totals", sign: int = 1) -> "Totals":
        """Sum, or difference with sign -1."""
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
        """The port's, made when missing."""
        return self._ports.setdefault((str(target.namespace), target.ifindex), _PortQueue(target))

    def forget(self, target: Target) -> None:
        """The last fault of a port is gone."""
        self._ports.pop((str(target.namespace), target.ifindex), None)


class QueueMechanism:
    """netem or tbf. Both share `ports`, since they share a port's root."""

    def __init__(self, name: By, ports: PortQueues) -> None:
        self.name = name
        self._ports = ports

    def check(self) -> None:
        """Raises MissingFeatureError when the kernel lacks the qdisc."""
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

    def is_empty(self) -> bool:
        return not self._faults

    def add(self, fault: Fault, seed: int, ports: PortQueues) -> "_QueueFault":
        place = _place_of(fault)
        if place in self._faults:
            raise MechanismError(
                "netem" if place != "rate" else "tbf",
                f"{self.target.link} has {self._faults[place]} there already",
                "clear it first" + (", or choose ebpf" if By.EBPF in fault.makers else ""),
            )
        if not self._faults:
            self._seed = seed
        with self._rtnl() as rtnl:
            before = self.totals(rtnl)
            try:
                self._install(rtnl, {**self._faults, place: fault})
            except BaseException:
                self._install(rtnl, self._faults)
                raise
            self._faults[place] = fault
        return _QueueFault(self, fault, before, ports)

    def take(self, fault: Fault) -> Totals:
        """Remove one fault; the final totals."""
        with self._rtnl() as rtnl:
            self._faults.pop(_place_of(fault), None)
            self._install(rtnl, self._faults)
            return self.totals(rtnl)

    def found(self) -> tuple[Netem | None, Tbf | None]:
        with self._rtnl() as rtnl:
            netem, tbf = shaping.read_netem(rtnl, self.target.ifindex), shaping.read_tbf(rtnl, self.target.ifindex)
        return netem and netem[0], tbf and tbf[0]

    def overtaking_ns(self) -> int:
        """The part of netem's delay that is there for the sake of reordering."""
        reorder = self._faults.get("reorder")
        return reorder.ahead_ns if isinstance(reorder, Reorder) else 0

    def counts_all_drops(self, fault: Fault) -> bool:
        """netem's drops belong to its loss; without one, they are overflows, told with the first fault."""
        loss = self._faults.get("loss", next(iter(self._faults.values()), fault))
        return loss is fault

    def totals(self, rtnl: Rtnl | None = None) -> Totals:
        if rtnl is None:
            with self._rtnl() as opened:
                return self.totals(opened)
        return self._past.plus(_live(rtnl, self.target.ifindex))

    def _rtnl(self) -> AbstractContextManager[Rtnl]:
        return Rtnl.inside(self.target.node, self.target.namespace)

    def _install(self, rtnl: Rtnl, faults: dict[str, Fault]) -> None:
        """From what is there to what `faults` ask for; the root changes kind only when it must."""
        ifindex = self.target.ifindex
        netem, tbf = netem_of(faults, self._seed), _tbf_of(faults)
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
        """Let everything that waits pass, so that nothing is lost with the qdisc."""
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
    def __init__(self, queue: _PortQueue, fault: Fault, before: Totals, ports: PortQueues) -> None:
        self._queue, self._fault, self._before, self._ports = queue, fault, before, ports
        self._all_drops = queue.counts_all_drops(fault)

    def in_force(self) -> Fault | None:
        netem, tbf = self._queue.found()
        if isinstance(self._fault, RateLimit):
            return None if tbf is None else RateLimit(tbf.bytes_per_s * 8, tbf.queue_bytes)
        return None if netem is None else _held(self._fault, netem, self._queue.overtaking_ns())

    def is_seeded(self) -> bool:
        netem, _ = self._queue.found()
        return netem is not None and netem.seed is not None

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
        drops = since.drops if self._all_drops else 0
        return Tally(since.packets, drops, None, drops if drop_rate_of(self._fault) is not None else None)


def netem_of(faults: dict[str, Fault], seed: int) -> Netem | None:
    """The one netem that makes all of a port's faults, None without any of netem's."""
    netem = Netem(seed=seed)
    for fault in faults.values():
        match fault:
            case RandomDrop(rate):
                netem = replace(netem, loss_u32=chance_of(rate))
            case BurstDrop(p, r, bad, good):
                netem = replace(netem, burst=_burst_of(p, r, bad, good))
            case Corrupt(rate):
                netem = replace(netem, corrupt_u32=chance_of(rate))
            case Duplicate(rate):
                netem = replace(netem, duplicate_u32=chance_of(rate))
            case Reorder(rate, ahead_ns):
                netem = replace(netem, reorder_u32=chance_of(rate), delay_ns=netem.delay_ns + ahead_ns)
            case Delay(delay_ns, jitter_ns, distribution):
                table = table_of(distribution) if jitter_ns else ()
                netem = replace(netem, delay_ns=netem.delay_ns + delay_ns, jitter_ns=jitter_ns, table=table)
    return None if netem == Netem() else netem


def chance_of(rate: Fraction) -> int:
    """netem's number for a rate: it is hit by a random number at most as large, and never when it is 0."""
    return max(threshold_of(rate) - 1, 1) if rate else 0


def rate_of_chance(chance: int) -> Fraction:
    """The rate that a number gives."""
    return rate_of_threshold(chance + 1) if chance else Fraction(0)


def table_of(distribution: Distribution) -> tuple[int, ...]:
    """Quantiles of a distribution with mean 0 and deviation 1, in 1/8192; uniform is within +-1."""
    quantile = _QUANTILES[distribution]
    values = (quantile((at + 0.5) / _TABLE_SIZE) for at in range(_TABLE_SIZE))
    return tuple(max(-_MOST_16_BITS, min(_MOST_16_BITS, round(value * _TABLE_SCALE))) for value in values)


def _uniform(share: float) -> float:
    return 2 * share - 1


def _pareto(share: float) -> float:
    """Of shape 3: mean 3/2, deviation sqrt(3)/2."""
    return float(((1 - share) ** (-1 / 3) - 1.5) / (3**0.5 / 2))


def _paretonormal(share: float) -> float:
    """A quarter of the normal and three of the pareto, as tc makes it; over the deviation of that sum."""
    return (_normal(share) + 3 * _pareto(share)) / (4 * _PARETONORMAL_DEVIATION)


_normal = NormalDist().inv_cdf
_PARETONORMAL_DEVIATION = 0.938
"""sqrt(1/16 + 9/16 + 2 * 3/16 * 0.678), where 0.678 is the mean product of the two quantiles, integrated."""
_QUANTILES = {
    Distribution.UNIFORM: _uniform,
    Distribution.NORMAL: _normal,
    Distribution.PARETO: _pareto,
    Distribution.PARETONORMAL: _paretonormal,
}


def _place_of(fault: Fault) -> str:
    """What of a port's qdiscs a fault takes for itself: random and burst loss exclude each other."""
    return "loss" if isinstance(fault, RandomDrop | BurstDrop) else fault.word


def _burst_of(p: Fraction, r: Fraction, bad: Fraction, good: Fraction) -> GilbertElliott:
    """A state is left, or a packet lost in the good one, by a smaller number; lost in the bad one by a larger."""
    below = [min(threshold_of(rate), CERTAIN - 1) for rate in (p, r, good)]
    return GilbertElliott(below[0], below[1], max(CERTAIN - threshold_of(bad) - 1, 0), below[2])


def _held(fault: Fault, netem: Netem, overtaking_ns: int) -> Fault | None:
    """The fault of this kind that a netem makes; None when it makes none."""
    match fault:
        case RandomDrop():
            return RandomDrop(rate_of_chance(netem.loss_u32)) if netem.loss_u32 else None
        case BurstDrop():
            return None if netem.burst is None else _burst_in(netem.burst)
        case Corrupt():
            return Corrupt(rate_of_chance(netem.corrupt_u32)) if netem.corrupt_u32 else None
        case Duplicate():
            return Duplicate(rate_of_chance(netem.duplicate_u32)) if netem.duplicate_u32 else None
        case Reorder():
            return Reorder(rate_of_chance(netem.reorder_u32), fault.ahead_ns) if netem.reorder_u32 else None
        case Delay():
            return Delay(netem.delay_ns - overtaking_ns, netem.jitter_ns, fault.distribution)
        case _:
            return None


def _burst_in(burst: GilbertElliott) -> BurstDrop:
    p, r, good = (rate_of_threshold(value) for value in (burst.p_u32, burst.r_u32, burst.k1_u32))
    return BurstDrop(p, r, 1 - rate_of_threshold(burst.h_u32 + 1), good)


def _tbf_of(faults: dict[str, Fault]) -> Tbf | None:
    limit = faults.get("rate")
    if not isinstance(limit, RateLimit):
        return None
    rate = limit.bits_per_s // 8
    return Tbf(rate, max(LARGEST_FRAME_BYTES, int(rate * BURST_SECONDS)), limit.queue_bytes)


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
