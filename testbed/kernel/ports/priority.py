"""Two queues at one rate: a port limited to a rate, at which packets of the first class never wait for the others.

It uses HTB, since a port without a rate has no queue in which packets could go first. The sender of a packet chooses
the first class by setting `skb->priority` to FIRST_CLASS. Sources: tc-htb(8), net/sched/sch_htb.c.
"""

import struct
from dataclasses import dataclass

from testbed.errors import KernelError
from testbed.kernel.netlink import traffic_control as tc
from testbed.kernel.netlink.rtnl import NLM_F_CREATE, NLM_F_REPLACE, Request, Rtnl
from testbed.kernel.ports.qdisc import explained, remove

_HANDLE = 0x00010000
_ALL, FIRST_CLASS, _REST_CLASS = _HANDLE | 1, _HANDLE | 0x10, _HANDLE | 0x20
"""Class ids: the whole rate, packets that go first, all others."""

_GLOBALS = struct.Struct("=5I")  # struct tc_htb_glob: version, rate2quantum, default class, debug, direct packets
_CLASS = struct.Struct("=BBHhHI BBHhHI 5I")  # struct tc_htb_opt: rate, ceil, buffer, cbuffer, quantum, level, prio
_LINKLAYER_ETHERNET = 1
_NS_PER_TICK = 64  # PSCHED_SHIFT 6
_MOST_32_BITS = 0xFFFFFFFF
_BURST_NS = 2_000_000
"""Burst as time at the rate; never less than _BURST_BYTES. Our choice."""
_BURST_BYTES = 2 * 9000
_QUANTUM_BYTES = 9000
_REST_SHARE = 100
"""Divisor of the rate: the rest is guaranteed a hundredth, and gets what the first class leaves."""
_QUEUE_PKTS = 16384
"""Packets that each class holds: more than the windows of all senders through a port."""


@dataclass(frozen=True, slots=True)
class ClassCounts:
    """Packets that a class has sent and dropped since it was created."""

    packets: int
    drops: int
    bytes_per_s: int
    """Greatest rate of the class, as the kernel holds it."""
    prio: int
    """Priority; a lower number goes first."""


def set_priority(rtnl: Rtnl, ifindex: int, bytes_per_s: int) -> tuple[ClassCounts, ClassCounts]:
    """Limit a port to a rate with two queues; return both as read back: first class, rest.

    Raises KernelError, MissingFeatureError.
    """
    remove_priority(rtnl, ifindex)
    init = {"attrs": [("TCA_HTB_INIT", _GLOBALS.pack(3, 10, _REST_CLASS & 0xFFFF, 0, 0))]}
    root = tc.tc_message(
        ifindex, parent=tc.TC_H_ROOT, handle=_HANDLE, attrs=[("TCA_KIND", "htb"), ("TCA_OPTIONS", init)]
    )
    try:
        rtnl.apply([Request(f"set htb on port {ifindex}", root, tc.RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE)])
    except KernelError as error:
        raise explained(error, "htb", "CONFIG_NET_SCH_HTB (module sch_htb)") from error
    rest = max(1, bytes_per_s // _REST_SHARE)
    rtnl.apply(
        [
            _class(ifindex, _HANDLE, _ALL, bytes_per_s, bytes_per_s, 0),
            _class(ifindex, _ALL, FIRST_CLASS, bytes_per_s, bytes_per_s, 0),
            _class(ifindex, _ALL, _REST_CLASS, rest, bytes_per_s, 1),
            _queue(ifindex, FIRST_CLASS),
            _queue(ifindex, _REST_CLASS),
        ]
    )
    return read_priority(rtnl, ifindex)


def read_priority(rtnl: Rtnl, ifindex: int) -> tuple[ClassCounts, ClassCounts]:
    """Return the two classes of a port. Raises KernelError when it has none."""
    request = Request(f"read classes of port {ifindex}", tc.tc_message(ifindex), tc.RTM_GETTCLASS)
    found = {answer["handle"]: answer for answer in rtnl.dump(request, tc.TcMessage)}
    if not {FIRST_CLASS, _REST_CLASS} <= found.keys():
        raise KernelError(rtnl.node, request.text, 2)
    return _counts(found[FIRST_CLASS]), _counts(found[_REST_CLASS])


def remove_priority(rtnl: Rtnl, ifindex: int) -> None:
    """Remove both queues; packets that wait in them are lost. No effect without them."""
    message = tc.tc_message(ifindex, parent=tc.TC_H_ROOT, handle=_HANDLE, attrs=[("TCA_KIND", "htb")])
    remove(rtnl, Request(f"remove htb from port {ifindex}", message, tc.RTM_DELQDISC))


def _class(ifindex: int, parent: int, handle: int, rate: int, ceil: int, prio: int) -> Request:
    said = [_ratespec(rate), _ratespec(ceil)]
    ticks = [_burst_ticks(rate), _burst_ticks(ceil)]
    packed = _CLASS.pack(*said[0], *said[1], *ticks, _QUANTUM_BYTES, 0, prio)
    attributes = [("TCA_HTB_PARMS", packed), ("TCA_HTB_RATE64", rate), ("TCA_HTB_CEIL64", ceil)]
    message = tc.tc_message(
        ifindex, parent=parent, handle=handle, attrs=[("TCA_KIND", "htb"), ("TCA_OPTIONS", {"attrs": attributes})]
    )
    return Request(f"set class {handle:#x} of port {ifindex}", message, tc.RTM_NEWTCLASS, NLM_F_CREATE | NLM_F_REPLACE)


def _ratespec(rate: int) -> tuple[int, ...]:
    return 0, _LINKLAYER_ETHERNET, 0, 0, 0, min(rate, _MOST_32_BITS)


def _burst_ticks(rate: int) -> int:
    needed_ns = _BURST_BYTES * 10**9 // rate
    return min(max(_BURST_NS, needed_ns) // _NS_PER_TICK, _MOST_32_BITS)


def _queue(ifindex: int, parent: int) -> Request:
    attributes = [("TCA_KIND", "pfifo"), ("TCA_OPTIONS", struct.pack("=I", _QUEUE_PKTS))]
    message = tc.tc_message(ifindex, parent=parent, attrs=attributes)
    return Request(f"set queue of {parent:#x} of port {ifindex}", message, tc.RTM_NEWQDISC, NLM_F_CREATE)


def _counts(answer: tc.TcMessage) -> ClassCounts:
    values = _CLASS.unpack_from(answer.get_attr("TCA_OPTIONS").get_attr("TCA_HTB_PARMS"))
    ceil = answer.get_attr("TCA_OPTIONS").get_attr("TCA_HTB_CEIL64") or values[11]
    stats = answer.get_attr("TCA_STATS2")
    basic, queue = stats.get_attr("TCA_STATS_BASIC"), stats.get_attr("TCA_STATS_QUEUE")
    return ClassCounts(basic["packets"], queue["drops"], ceil, values[16])
