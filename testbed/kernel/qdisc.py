"""What sits on a port: clsact with eBPF programs on its way in and out, and netem, each with its counters.

Knows interface indexes and typed parameters, not links or faults. A request whose object is already gone (on removal)
is no error. Sources: tc-bpf(8), tc-netem(8), net/sched/sch_netem.c.
"""

import errno
from dataclasses import dataclass
from enum import Enum

from testbed.errors import KernelError, MissingFeatureError
from testbed.kernel import traffic_control as tc
from testbed.kernel.rtnl import NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, Message, Request, Rtnl, absent

NETEM_LIMIT_PKTS = 100_000
"""netem's queue, which must never drop by itself: its own default of 1000 loses packets at high rate or long delay."""


class Direction(Enum):
    """Side of a port that a program sits on; the value is the parent handle inside clsact (linux/pkt_sched.h)."""

    INGRESS = 0xFFFFFFF2
    EGRESS = 0xFFFFFFF3


@dataclass(frozen=True, slots=True)
class AttachedProgram:
    """An eBPF program on a port. Lower `priority` runs first; `id` is the kernel's program id."""

    priority: int
    name: str
    id: int
    direct_action: bool


@dataclass(frozen=True, slots=True)
class Netem:
    """netem parameters. A packet is lost when a random 32-bit number is at most `loss_u32`, never when it is 0."""

    loss_u32: int = 0
    delay_ns: int = 0
    jitter_ns: int = 0
    limit_pkts: int = NETEM_LIMIT_PKTS


@dataclass(frozen=True, slots=True)
class QdiscStats:
    """Counters of a qdisc since it was made. For netem `drops` counts losses and queue overflows together."""

    bytes: int
    packets: int
    drops: int
    backlog_pkts: int


def ensure_clsact(rtnl: Rtnl, ifindex: int) -> None:
    """Make the place for programs on a port, unless it is there. Raises KernelError, MissingFeatureError."""
    message = tc.tc_message(ifindex, parent=tc.TC_H_CLSACT, handle=tc.CLSACT_HANDLE, attrs=[("TCA_KIND", "clsact")])
    request = Request(f"add clsact to port {ifindex}", message, tc.RTM_NEWQDISC, NLM_F_CREATE | NLM_F_EXCL)
    try:
        rtnl.apply([request])
    except KernelError as error:
        if error.errno != errno.EEXIST:
            raise _explained(error, "clsact", "CONFIG_NET_SCH_INGRESS") from error


def remove_clsact(rtnl: Rtnl, ifindex: int) -> None:
    """Remove clsact and every program in it."""
    message = tc.tc_message(ifindex, parent=tc.TC_H_CLSACT, handle=tc.CLSACT_HANDLE, attrs=[("TCA_KIND", "clsact")])
    _remove(rtnl, Request(f"remove clsact from port {ifindex}", message, tc.RTM_DELQDISC))


def attach_program(
    rtnl: Rtnl, ifindex: int, direction: Direction, priority: int, fd: int, name: str
) -> AttachedProgram:
    """Attach a loaded SCHED_CLS program in direct-action mode and return it as read back from the kernel.

    Clsact is made when missing. `priority` 1..65535 must be free. Raises KernelError, MissingFeatureError.
    """
    ensure_clsact(rtnl, ifindex)
    options = [("TCA_BPF_FD", fd), ("TCA_BPF_NAME", name), ("TCA_BPF_FLAGS", tc.TCA_BPF_FLAG_ACT_DIRECT)]
    message = _filter(ifindex, direction, priority, ("TCA_KIND", "bpf"), ("TCA_OPTIONS", {"attrs": options}))
    request = Request(f"attach {name} to port {ifindex}", message, tc.RTM_NEWTFILTER, NLM_F_CREATE | NLM_F_EXCL)
    try:
        rtnl.apply([request])
    except KernelError as error:
        raise _explained(error, "eBPF on ports (cls_bpf)", "CONFIG_NET_CLS_BPF") from error
    for program in attached_programs(rtnl, ifindex, direction):
        if program.priority == priority:
            return program
    raise KernelError(rtnl.node, f"read back {name} on port {ifindex}", errno.ENOENT)


def detach_program(rtnl: Rtnl, ifindex: int, direction: Direction, priority: int) -> None:
    """Detach the program of one priority."""
    message = _filter(ifindex, direction, priority, ("TCA_KIND", "bpf"))
    _remove(rtnl, Request(f"detach priority {priority} from port {ifindex}", message, tc.RTM_DELTFILTER))


def attached_programs(rtnl: Rtnl, ifindex: int, direction: Direction) -> tuple[AttachedProgram, ...]:
    """The programs on one side of a port, in the order they run; empty without clsact."""
    message = tc.tc_message(ifindex, parent=direction.value)
    try:
        answers = rtnl.dump(Request(f"read programs of port {ifindex}", message, tc.RTM_GETTFILTER), tc.TcMessage)
    except KernelError as error:
        if absent(error) or error.errno == errno.EINVAL:
            return ()
        raise
    found = (_program(answer) for answer in answers if answer.get_attr("TCA_KIND") == "bpf" and answer["handle"])
    return tuple(sorted(found, key=lambda program: program.priority))


def set_netem(rtnl: Rtnl, ifindex: int, netem: Netem) -> Netem:
    """Make or change the port's netem, return what is then in force. Raises KernelError, MissingFeatureError."""
    options = {
        "limit": netem.limit_pkts,
        "loss": netem.loss_u32,
        "attrs": [("TCA_NETEM_LATENCY64", netem.delay_ns), ("TCA_NETEM_JITTER64", netem.jitter_ns)],
    }
    message = tc.tc_message(ifindex, parent=tc.TC_H_ROOT, attrs=[("TCA_KIND", "netem"), ("TCA_OPTIONS", options)])
    flags = NLM_F_CREATE | NLM_F_REPLACE
    try:
        rtnl.apply([Request(f"set netem on port {ifindex}", message, tc.RTM_NEWQDISC, flags)])
    except KernelError as error:
        raise _explained(error, "netem", "CONFIG_NET_SCH_NETEM (module sch_netem)") from error
    found = read_netem(rtnl, ifindex)
    if found is None:
        raise KernelError(rtnl.node, f"read back netem on port {ifindex}", errno.ENOENT)
    return found[0]


def read_netem(rtnl: Rtnl, ifindex: int) -> tuple[Netem, QdiscStats] | None:
    """The port's netem in force and its counters, or None without one."""
    for answer in _qdiscs(rtnl, ifindex):
        if answer.get_attr("TCA_KIND") == "netem" and answer["parent"] == tc.TC_H_ROOT:
            return _netem(answer), _stats(answer)
    return None


def remove_netem(rtnl: Rtnl, ifindex: int) -> None:
    """Remove the port's netem; packets that it holds back are lost."""
    message = tc.tc_message(ifindex, parent=tc.TC_H_ROOT, attrs=[("TCA_KIND", "netem")])
    _remove(rtnl, Request(f"remove netem from port {ifindex}", message, tc.RTM_DELQDISC))


def qdisc_kinds(rtnl: Rtnl, ifindex: int) -> tuple[str, ...]:
    """Kinds of all qdiscs of a port, such as `noqueue`, `clsact`, `netem`."""
    return tuple(answer.get_attr("TCA_KIND") for answer in _qdiscs(rtnl, ifindex))


def _qdiscs(rtnl: Rtnl, ifindex: int) -> list[Message]:
    message = tc.tc_message(ifindex)
    answers = rtnl.dump(Request(f"read qdiscs of port {ifindex}", message, tc.RTM_GETQDISC), tc.TcMessage)
    return [answer for answer in answers if answer["index"] == ifindex]


def _filter(ifindex: int, direction: Direction, priority: int, *attributes: tuple[str, object]) -> Message:
    info = tc.filter_info(priority)
    return tc.tc_message(ifindex, parent=direction.value, info=info, handle=1, attrs=list(attributes))


def _program(answer: Message) -> AttachedProgram:
    options = answer.get_attr("TCA_OPTIONS")
    direct = bool((options.get_attr("TCA_BPF_FLAGS") or 0) & tc.TCA_BPF_FLAG_ACT_DIRECT)
    return AttachedProgram(
        answer["info"] >> 16, options.get_attr("TCA_BPF_NAME"), options.get_attr("TCA_BPF_ID"), direct
    )


def _netem(answer: Message) -> Netem:
    options = answer.get_attr("TCA_OPTIONS")
    delay, jitter = (options.get_attr(f"TCA_NETEM_{name}64") or 0 for name in ("LATENCY", "JITTER"))
    return Netem(options["loss"], delay, jitter, options["limit"])


def _stats(answer: Message) -> QdiscStats:
    stats = answer.get_attr("TCA_STATS2")
    basic, queue = stats.get_attr("TCA_STATS_BASIC"), stats.get_attr("TCA_STATS_QUEUE")
    return QdiscStats(basic["bytes"], basic["packets"], queue["drops"], queue["qlen"])


def _remove(rtnl: Rtnl, request: Request) -> None:
    try:
        rtnl.apply([request])
    except KernelError as error:
        if not absent(error) and error.errno != errno.EINVAL:  # EINVAL: nothing of the kind below this parent
            raise


def _explained(error: KernelError, feature: str, option: str) -> KernelError | MissingFeatureError:
    """The kernel says ENOENT for a kind that it does not know, and means a missing option or module."""
    if error.errno in (errno.ENOENT, errno.EOPNOTSUPP):
        return MissingFeatureError(feature, f"this kernel needs {option}; it said: {error}")
    return error
