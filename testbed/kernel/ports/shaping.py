"""netem and tbf as a port's root: typed parameters in, the kernel's parameters read back, counters.

Knows interface indexes, not links or faults. Both together: netem is the root and tbf its child, so that packets are
impaired first and slowed down after. Sources: tc-netem(8), tc-tbf(8), net/sched/sch_netem.c, net/sched/sch_tbf.c.
"""

import errno
import struct
from dataclasses import dataclass, field
from typing import Any

from testbed.errors import KernelError
from testbed.kernel.netlink import traffic_control as tc
from testbed.kernel.netlink.rtnl import NLM_F_CREATE, NLM_F_REPLACE, Message, Request, Rtnl
from testbed.kernel.ports.qdisc import explained, qdiscs, remove

NETEM_LIMIT_PKTS = 100_000
"""Limit of netem's queue, which must never drop by itself: the default of 1000 loses packets at high rate or long
delay."""

_NETEM_HANDLE = 0x00010000
_NETEM_CHILD = 0x00010001
_NETEM_LOSS_GE = 2
_GE = struct.Struct("=HH4I")  # an attribute of its own: length, type, then struct tc_netem_gemodel
_PAIR = struct.Struct("=2I")  # struct tc_netem_reorder, struct tc_netem_corrupt: probability, correlation
_TBF = struct.Struct("=BBHhHI BBHhHI III")  # struct tc_tbf_qopt: two struct tc_ratespec, limit, buffer, mtu
_TBF_LIMIT = 12
_LINKLAYER_ETHERNET = 1
_MOST_32_BITS = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class GilbertElliott:
    """Thresholds of netem's `gemodel`, 32 bits each: to bad, to good, kept in bad (loss above), lost in good."""

    p_u32: int
    r_u32: int
    h_u32: int
    k1_u32: int


@dataclass(frozen=True, slots=True)
class Netem:
    """Parameters of netem. A random 32-bit number of at most `..._u32` triggers an effect; 0 means never."""

    loss_u32: int = 0
    delay_ns: int = 0
    jitter_ns: int = 0
    limit_pkts: int = NETEM_LIMIT_PKTS
    burst: GilbertElliott | None = None
    corrupt_u32: int = 0
    duplicate_u32: int = 0
    reorder_u32: int = 0
    """Chance of packets that skip the delay."""
    table: tuple[int, ...] = field(default=(), compare=False)
    """Distribution of the jitter: quantiles in 1/8192 of it. The kernel does not report it."""
    seed: int | None = field(default=None, compare=False)
    """Seed of the random numbers; read back as None if the kernel (before 6.7) has none."""


@dataclass(frozen=True, slots=True)
class Tbf:
    """Token bucket: frames leave at `bytes_per_s`, `burst_bytes` at once; `queue_bytes` may wait."""

    bytes_per_s: int
    burst_bytes: int
    queue_bytes: int


@dataclass(frozen=True, slots=True)
class QdiscStats:
    """Counters of a qdisc since it was created. For netem `drops` counts losses and queue overflows together."""

    bytes: int
    packets: int
    drops: int
    backlog_pkts: int
    overlimits: int = 0


def set_netem(rtnl: Rtnl, ifindex: int, netem: Netem) -> Netem:
    """Create or change the port's netem; return the parameters in force. Raises KernelError, MissingFeatureError."""
    message = tc.tc_message(
        ifindex,
        parent=tc.TC_H_ROOT,
        handle=_NETEM_HANDLE,
        attrs=[("TCA_KIND", "netem"), ("TCA_OPTIONS", _netem_options(netem))],
    )
    _set(rtnl, f"set netem on port {ifindex}", message, "netem", "CONFIG_NET_SCH_NETEM (module sch_netem)")
    found = read_netem(rtnl, ifindex)
    if found is None:
        raise KernelError(rtnl.node, f"read back netem on port {ifindex}", errno.ENOENT)
    return found[0]


def read_netem(rtnl: Rtnl, ifindex: int) -> tuple[Netem, QdiscStats] | None:
    """Return the port's netem in force and its counters, or None without one."""
    for answer in qdiscs(rtnl, ifindex):
        if answer.get_attr("TCA_KIND") == "netem" and answer["parent"] == tc.TC_H_ROOT:
            return _netem(answer), _stats(answer)
    return None


def remove_netem(rtnl: Rtnl, ifindex: int) -> None:
    """Remove the port's netem; packets that it holds back are lost."""
    message = tc.tc_message(ifindex, parent=tc.TC_H_ROOT, attrs=[("TCA_KIND", "netem")])
    remove(rtnl, Request(f"remove netem from port {ifindex}", message, tc.RTM_DELQDISC))


def set_tbf(rtnl: Rtnl, ifindex: int, tbf: Tbf, below_netem: bool = False) -> Tbf:
    """Create or change the port's token bucket; return the parameters in force.

    Raises KernelError, MissingFeatureError.
    """
    message = tc.tc_message(
        ifindex,
        parent=_NETEM_CHILD if below_netem else tc.TC_H_ROOT,
        attrs=[("TCA_KIND", "tbf"), ("TCA_OPTIONS", _tbf_options(tbf))],
    )
    _set(rtnl, f"set tbf on port {ifindex}", message, "tbf", "CONFIG_NET_SCH_TBF (module sch_tbf)")
    found = read_tbf(rtnl, ifindex)
    if found is None:
        raise KernelError(rtnl.node, f"read back tbf on port {ifindex}", errno.ENOENT)
    return found[0]


def read_tbf(rtnl: Rtnl, ifindex: int) -> tuple[Tbf, QdiscStats] | None:
    """Return the port's token bucket in force and its counters, or None without one."""
    for answer in qdiscs(rtnl, ifindex):
        if answer.get_attr("TCA_KIND") == "tbf":
            return _tbf(answer), _stats(answer)
    return None


def remove_tbf(rtnl: Rtnl, ifindex: int, below_netem: bool = False) -> None:
    """Remove the port's token bucket; packets that wait in it are lost."""
    parent = _NETEM_CHILD if below_netem else tc.TC_H_ROOT
    message = tc.tc_message(ifindex, parent=parent, attrs=[("TCA_KIND", "tbf")])
    remove(rtnl, Request(f"remove tbf from port {ifindex}", message, tc.RTM_DELQDISC))


def _set(rtnl: Rtnl, text: str, message: Message, feature: str, option: str) -> None:
    try:
        rtnl.apply([Request(text, message, tc.RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE)])
    except KernelError as error:
        raise explained(error, feature, option) from error


def _netem_options(netem: Netem) -> dict[str, Any]:
    """Encode all options: the kernel keeps the old value of one that is left out."""
    attributes: list[tuple[str, object]] = [
        ("TCA_NETEM_LATENCY64", netem.delay_ns),
        ("TCA_NETEM_JITTER64", netem.jitter_ns),
        ("TCA_NETEM_REORDER", _PAIR.pack(netem.reorder_u32, 0)),
        ("TCA_NETEM_CORRUPT", _PAIR.pack(netem.corrupt_u32, 0)),
    ]
    if netem.burst is not None:
        burst = netem.burst
        packed = _GE.pack(_GE.size, _NETEM_LOSS_GE, burst.p_u32, burst.r_u32, burst.h_u32, burst.k1_u32)
        attributes.append(("TCA_NETEM_LOSS", packed))
    if netem.table:
        attributes.append(("TCA_NETEM_DELAY_DIST", struct.pack(f"={len(netem.table)}h", *netem.table)))
    if netem.seed is not None:
        attributes.append(("TCA_NETEM_PRNG_SEED", netem.seed))
    return {
        "limit": netem.limit_pkts,
        "loss": netem.loss_u32,
        "duplicate": netem.duplicate_u32,
        "gap": 1 if netem.reorder_u32 else 0,  # without a gap the kernel delays every packet
        "attrs": attributes,
    }


def _netem(answer: Message) -> Netem:
    options = answer.get_attr("TCA_OPTIONS")
    delay, jitter = (options.get_attr(f"TCA_NETEM_{name}64") or 0 for name in ("LATENCY", "JITTER"))
    reorder, corrupt = (_first(options.get_attr(f"TCA_NETEM_{name}")) for name in ("REORDER", "CORRUPT"))
    return Netem(
        loss_u32=options["loss"],
        delay_ns=delay,
        jitter_ns=jitter,
        limit_pkts=options["limit"],
        burst=_burst(options.get_attr("TCA_NETEM_LOSS")),
        corrupt_u32=corrupt,
        duplicate_u32=options["duplicate"],
        reorder_u32=reorder if options["gap"] else 0,
        seed=options.get_attr("TCA_NETEM_PRNG_SEED"),
    )


def _first(packed: bytes | None) -> int:
    return int(_PAIR.unpack_from(packed)[0]) if packed else 0


def _burst(packed: bytes | None) -> GilbertElliott | None:
    if not packed or len(packed) < _GE.size:
        return None
    _, kind, *values = _GE.unpack_from(packed)
    return GilbertElliott(*values) if kind & 0x3FFF == _NETEM_LOSS_GE else None


def _tbf_options(tbf: Tbf) -> dict[str, Any]:
    rate = 0, _LINKLAYER_ETHERNET, 0, 0, 0, min(tbf.bytes_per_s, _MOST_32_BITS)
    parameters = _TBF.pack(*rate, *[0] * 6, tbf.queue_bytes, 0, 0)
    attributes = [
        ("TCA_TBF_PARMS", parameters),
        ("TCA_TBF_BURST", tbf.burst_bytes),
        ("TCA_TBF_RATE64", tbf.bytes_per_s),
    ]
    return {"attrs": attributes}


def _tbf(answer: Message) -> Tbf:
    options = answer.get_attr("TCA_OPTIONS")
    values = _TBF.unpack_from(options.get_attr("TCA_TBF_PARMS"))
    bytes_per_s = options.get_attr("TCA_TBF_RATE64") or values[5]
    buffer_ticks = values[_TBF_LIMIT + 1]
    return Tbf(bytes_per_s, round(buffer_ticks * _NS_PER_TICK * bytes_per_s / 10**9), values[_TBF_LIMIT])


_NS_PER_TICK = 64
"""PSCHED_SHIFT 6 (include/net/pkt_sched.h): the kernel reports the burst as the time it takes, in units of 64 ns."""


def _stats(answer: Message) -> QdiscStats:
    stats = answer.get_attr("TCA_STATS2")
    basic, queue = stats.get_attr("TCA_STATS_BASIC"), stats.get_attr("TCA_STATS_QUEUE")
    return QdiscStats(basic["bytes"], basic["packets"], queue["drops"], queue["qlen"], queue["overlimits"])
