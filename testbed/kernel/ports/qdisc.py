"""Qdiscs of a port by kind, and clsact with eBPF programs for both directions.

Knows interface indexes and typed parameters, not links or faults. Removing an object that does not exist is no error.
Source: tc-bpf(8). netem and tbf are in `shaping`.
"""

import errno
from dataclasses import dataclass
from enum import Enum

from testbed.errors import KernelError, MissingFeatureError
from testbed.kernel.netlink import traffic_control as tc
from testbed.kernel.netlink.rtnl import NLM_F_CREATE, NLM_F_EXCL, Message, Request, Rtnl, absent


class Direction(Enum):
    """Direction in which a program is attached; the value is the parent handle inside clsact (linux/pkt_sched.h)."""

    INGRESS = 0xFFFFFFF2
    EGRESS = 0xFFFFFFF3


@dataclass(frozen=True, slots=True)
class AttachedProgram:
    """An eBPF program on a port. Lower `priority` runs first; `id` is the kernel's program id."""

    priority: int
    name: str
    id: int
    direct_action: bool


def ensure_clsact(rtnl: Rtnl, ifindex: int) -> None:
    """Create a port's clsact unless it exists. Creating it on a port that is up loses packets.

    Raises KernelError, MissingFeatureError.
    """
    try:
        create = NLM_F_CREATE | NLM_F_EXCL
        message = tc.clsact_message(ifindex)
        rtnl.apply([Request(f"add clsact to port {ifindex}", message, tc.RTM_NEWQDISC, create)])
    except KernelError as error:
        if error.errno != errno.EEXIST:
            raise explained(error, "clsact", "CONFIG_NET_SCH_INGRESS") from error


def remove_clsact(rtnl: Rtnl, ifindex: int) -> None:
    """Remove clsact and every program in it. A port that is up loses packets meanwhile."""
    remove(rtnl, Request(f"remove clsact from port {ifindex}", tc.clsact_message(ifindex), tc.RTM_DELQDISC))


def attach_program(
    rtnl: Rtnl, ifindex: int, direction: Direction, priority: int, fd: int, name: str
) -> AttachedProgram:
    """Attach a loaded SCHED_CLS program in direct-action mode and return it as read back from the kernel.

    Creates clsact if missing. `priority` 1..65535 must be free. Raises KernelError, MissingFeatureError.
    """
    ensure_clsact(rtnl, ifindex)
    options = [("TCA_BPF_FD", fd), ("TCA_BPF_NAME", name), ("TCA_BPF_FLAGS", tc.TCA_BPF_FLAG_ACT_DIRECT)]
    message = _filter(ifindex, direction, priority, ("TCA_KIND", "bpf"), ("TCA_OPTIONS", {"attrs": options}))
    request = Request(f"attach {name} to port {ifindex}", message, tc.RTM_NEWTFILTER, NLM_F_CREATE | NLM_F_EXCL)
    try:
        rtnl.apply([request])
    except KernelError as error:
        raise explained(error, "eBPF on ports (cls_bpf)", "CONFIG_NET_CLS_BPF") from error
    for program in attached_programs(rtnl, ifindex, direction):
        if program.priority == priority:
            return program
    raise KernelError(rtnl.node, f"read back {name} on port {ifindex}", errno.ENOENT)


def detach_program(rtnl: Rtnl, ifindex: int, direction: Direction, priority: int) -> None:
    """Detach the program of one priority."""
    message = _filter(ifindex, direction, priority, ("TCA_KIND", "bpf"))
    remove(rtnl, Request(f"detach priority {priority} from port {ifindex}", message, tc.RTM_DELTFILTER))


def attached_programs(rtnl: Rtnl, ifindex: int, direction: Direction) -> tuple[AttachedProgram, ...]:
    """Return the programs in one direction of a port, in running order; empty without clsact."""
    message = tc.tc_message(ifindex, parent=direction.value)
    try:
        answers = rtnl.dump(Request(f"read programs of port {ifindex}", message, tc.RTM_GETTFILTER), tc.TcMessage)
    except KernelError as error:
        if absent(error) or error.errno == errno.EINVAL:
            return ()
        raise
    found = (_program(answer) for answer in answers if answer.get_attr("TCA_KIND") == "bpf" and answer["handle"])
    return tuple(sorted(found, key=lambda program: program.priority))


def qdisc_kinds(rtnl: Rtnl, ifindex: int) -> tuple[str, ...]:
    """Return the kinds of all qdiscs of a port, such as `noqueue`, `clsact`, `netem`."""
    return tuple(answer.get_attr("TCA_KIND") for answer in qdiscs(rtnl, ifindex))


def qdiscs(rtnl: Rtnl, ifindex: int) -> list[Message]:
    """Return the kernel's answers about every qdisc of a port."""
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


def remove(rtnl: Rtnl, request: Request) -> None:
    """Request a removal; it is no error if the object does not exist."""
    try:
        rtnl.apply([request])
    except KernelError as error:
        if not absent(error) and error.errno != errno.EINVAL:  # EINVAL: no such kind below this parent
            raise


def explained(error: KernelError, feature: str, option: str) -> KernelError | MissingFeatureError:
    """Translate the kernel's ENOENT for an unknown kind to a missing option or module."""
    if error.errno in (errno.ENOENT, errno.EOPNOTSUPP):
        return MissingFeatureError(feature, f"this kernel needs {option}; it said: {error}")
    return error
