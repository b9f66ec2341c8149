"""State of one node's ports in the kernel, whoever set it: flags, root qdiscs, programs and other filters.

Reads and decides nothing. Sources: linux/if_link.h (IFLA_XDP), linux/pkt_sched.h, linux/pkt_cls.h.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

from testbed.errors import KernelError
from testbed.kernel.bpf import tcx
from testbed.kernel.netlink import traffic_control as tc
from testbed.kernel.netlink.rtnl import Message, Request, Rtnl, absent
from testbed.kernel.ports.qdisc import Direction

_RTM_GETLINK = 18
_IFF_UP = 0x1
_SKIP_STATS = 8
"""RTEXT_FILTER_SKIP_STATS."""
_IFLA_XDP = 43
_NO_QUEUE = "noqueue"


@dataclass(frozen=True, slots=True)
class FoundProgram:
    """A program or filter in one direction of a port."""

    inward: bool
    id: int
    """Kernel id of an eBPF program; 0 for another kind of filter."""
    name: str = ""
    """Name of a filter, or its kind; programs by TCX have none."""

    def __str__(self) -> str:
        """Format as `an eBPF program 7 (fault) on the way out`."""
        name = f" ({self.name})" if self.name else ""
        what = f"an eBPF program {self.id}{name}" if self.id else f"a filter of kind {self.name}"
        return f"{what} on the way {'in' if self.inward else 'out'}"


@dataclass(frozen=True, slots=True)
class FoundPort:
    """One port. `root` is the kind of its root qdisc, empty when packets do not queue in one."""

    ifindex: int
    up: bool
    """The port is administratively up (IFF_UP)."""
    root: str = ""
    clsact: bool = False
    programs: frozenset[FoundProgram] = frozenset()
    xdp: bool = False


def found_ports(rtnl: Rtnl, ifindexes: Iterable[int]) -> tuple[FoundPort, ...]:
    """Return those of the ports that exist, in the order of their indexes.

    The calling thread must be inside the node's namespace, for programs by TCX. Raises KernelError.
    """
    wanted, links, kinds = set(ifindexes), _links(rtnl), _qdiscs(rtnl)
    return tuple(
        FoundPort(
            ifindex=index,
            up=bool(link["flags"] & _IFF_UP),
            root=kinds.get((index, tc.TC_H_ROOT), ""),
            clsact=(index, tc.TC_H_CLSACT) in kinds,
            programs=_programs(rtnl, index, (index, tc.TC_H_CLSACT) in kinds),
            xdp=_has_xdp(link),
        )
        for index, link in sorted(links.items())
        if index in wanted
    )


def _links(rtnl: Rtnl) -> dict[int, Message]:
    message: Message = ifinfmsg()
    message.update({"attrs": [("IFLA_EXT_MASK", _SKIP_STATS)]})
    answers = rtnl.dump(Request("read links", message, _RTM_GETLINK), ifinfmsg, frozenset({_IFLA_XDP}))
    return {answer["index"]: answer for answer in answers}


def _has_xdp(link: Message) -> bool:
    told = link.get_attr("IFLA_XDP")
    return told is not None and bool(told.get_attr("IFLA_XDP_ATTACHED"))


def _qdiscs(rtnl: Rtnl) -> dict[tuple[int, int], str]:
    """Return the kinds of qdiscs that hold packets or programs, by port and place."""
    request = Request("read qdiscs", tc.tc_message(0), tc.RTM_GETQDISC)
    answers = rtnl.dump(request, tc.TcMessage, frozenset({1}))  # TCA_KIND
    found = ((answer["index"], answer["parent"], answer.get_attr("TCA_KIND")) for answer in answers)
    return {(index, parent): kind for index, parent, kind in found if kind != _NO_QUEUE}


def _programs(rtnl: Rtnl, ifindex: int, clsact: bool) -> frozenset[FoundProgram]:
    by_tcx = [
        FoundProgram(side is Direction.INGRESS, each)
        for side in Direction
        for each in tcx.attached(rtnl.node, ifindex, side)
    ]
    sides = Direction if clsact else ()
    return frozenset([*by_tcx, *(each for side in sides for each in _filters(rtnl, ifindex, side))])


def _filters(rtnl: Rtnl, ifindex: int, side: Direction) -> Iterable[FoundProgram]:
    request = Request(f"read filters of port {ifindex}", tc.tc_message(ifindex, parent=side.value), tc.RTM_GETTFILTER)
    try:
        answers = rtnl.dump(request, tc.TcMessage)
    except KernelError as error:
        if absent(error):
            return
        raise
    for answer in answers:
        kind, options = answer.get_attr("TCA_KIND"), answer.get_attr("TCA_OPTIONS")
        if kind == "bpf" and answer["handle"]:
            name, number = options.get_attr("TCA_BPF_NAME") or "", options.get_attr("TCA_BPF_ID") or 0
            yield FoundProgram(side is Direction.INGRESS, number, name.partition(":[")[0])
        elif kind != "bpf" and answer["handle"]:
            yield FoundProgram(side is Direction.INGRESS, 0, kind)
