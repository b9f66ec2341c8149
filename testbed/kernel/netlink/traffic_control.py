"""Netlink messages of traffic control as spraylab declares them: clsact, bpf filters, tbf, netem with 64-bit times.

Declares messages only; sends nothing. Sources: linux/pkt_sched.h, linux/pkt_cls.h, linux/rtnetlink.h.
"""

import socket
from typing import Any, ClassVar

from pyroute2.netlink import nla
from pyroute2.netlink.rtnl.tcmsg import tcmsg

RTM_NEWQDISC, RTM_DELQDISC, RTM_GETQDISC = 36, 37, 38
RTM_NEWTCLASS, RTM_GETTCLASS = 40, 42
RTM_NEWTFILTER, RTM_DELTFILTER, RTM_GETTFILTER = 44, 45, 46

TC_H_ROOT = 0xFFFFFFFF
TC_H_CLSACT = 0xFFFFFFF1
CLSACT_HANDLE = 0xFFFF0000

TCA_BPF_FLAG_ACT_DIRECT = 1
ETH_P_ALL = 0x0003


class BpfOptions(nla):
    """TCA_OPTIONS of a bpf filter."""

    __slots__ = ()
    nla_map = (
        ("TCA_BPF_UNSPEC", "none"),
        ("TCA_BPF_ACT", "hex"),
        ("TCA_BPF_POLICE", "hex"),
        ("TCA_BPF_CLASSID", "uint32"),
        ("TCA_BPF_OPS_LEN", "uint16"),
        ("TCA_BPF_OPS", "hex"),
        ("TCA_BPF_FD", "uint32"),
        ("TCA_BPF_NAME", "asciiz"),
        ("TCA_BPF_FLAGS", "uint32"),
        ("TCA_BPF_FLAGS_GEN", "uint32"),
        ("TCA_BPF_TAG", "hex"),
        ("TCA_BPF_ID", "uint32"),
    )


class NetemOptions(nla):
    """TCA_OPTIONS of a netem qdisc: `struct tc_netem_qopt`, then attributes. `latency` and `jitter` are in ticks and
    are left 0 in favour of the 64-bit attributes in nanoseconds.
    """

    __slots__ = ()
    fields = (
        ("latency", "I"),
        ("limit", "I"),
        ("loss", "I"),
        ("gap", "I"),
        ("duplicate", "I"),
        ("jitter", "I"),
    )
    nla_map = (
        ("TCA_NETEM_UNSPEC", "none"),
        ("TCA_NETEM_CORR", "hex"),
        ("TCA_NETEM_DELAY_DIST", "cdata"),
        ("TCA_NETEM_REORDER", "cdata"),
        ("TCA_NETEM_CORRUPT", "cdata"),
        ("TCA_NETEM_LOSS", "cdata"),
        ("TCA_NETEM_RATE", "hex"),
        ("TCA_NETEM_ECN", "hex"),
        ("TCA_NETEM_RATE64", "hex"),
        ("TCA_NETEM_PAD", "hex"),
        ("TCA_NETEM_LATENCY64", "int64"),
        ("TCA_NETEM_JITTER64", "int64"),
        ("TCA_NETEM_SLOT", "hex"),
        ("TCA_NETEM_SLOT_DIST", "hex"),
        ("TCA_NETEM_PRNG_SEED", "uint64"),
    )


class TbfOptions(nla):
    """TCA_OPTIONS of a tbf qdisc; PARMS is `struct tc_tbf_qopt`."""

    __slots__ = ()
    nla_map = (
        ("TCA_TBF_UNSPEC", "none"),
        ("TCA_TBF_PARMS", "cdata"),
        ("TCA_TBF_RTAB", "hex"),
        ("TCA_TBF_PTAB", "hex"),
        ("TCA_TBF_RATE64", "uint64"),
        ("TCA_TBF_PRATE64", "uint64"),
        ("TCA_TBF_BURST", "uint32"),
        ("TCA_TBF_PBURST", "uint32"),
        ("TCA_TBF_PAD", "hex"),
    )


class HtbOptions(nla):
    """TCA_OPTIONS of an htb qdisc or class; INIT is `struct tc_htb_glob`, PARMS `struct tc_htb_opt`."""

    __slots__ = ()
    nla_map = (
        ("TCA_HTB_UNSPEC", "none"),
        ("TCA_HTB_PARMS", "cdata"),
        ("TCA_HTB_INIT", "cdata"),
        ("TCA_HTB_CTAB", "hex"),
        ("TCA_HTB_RTAB", "hex"),
        ("TCA_HTB_DIRECT_QLEN", "uint32"),
        ("TCA_HTB_RATE64", "uint64"),
        ("TCA_HTB_CEIL64", "uint64"),
    )


class TcMessage(tcmsg):
    """A qdisc or filter message; options of other kinds stay undecoded."""

    __slots__ = ()
    options: ClassVar[dict[str, Any]] = {"bpf": BpfOptions, "netem": NetemOptions, "tbf": TbfOptions, "htb": HtbOptions}

    @staticmethod
    def get_options(self: Any, *_args: Any, **_kwargs: Any) -> Any:
        """Return the class that codes TCA_OPTIONS; pyroute2 calls this with the message as first argument."""
        return self.options.get(self.get_attr("TCA_KIND"), self.hex)


def filter_info(priority: int) -> int:
    """Return `tcm_info` of a filter: priority in the upper half, protocol in network order in the lower."""
    return priority << 16 | socket.htons(ETH_P_ALL)


def tc_message(ifindex: int, **fields: object) -> Any:
    """Create a message about one interface."""
    message: Any = TcMessage()
    message.update({"index": ifindex, **fields})
    return message


def clsact_message(ifindex: int) -> Any:
    """Create a message about the clsact of a port."""
    return tc_message(ifindex, parent=TC_H_CLSACT, handle=CLSACT_HANDLE, attrs=[("TCA_KIND", "clsact")])
