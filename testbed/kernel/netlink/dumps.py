"""Conversion of the kernel's dumps to records: the present state of one namespace.

Knows the records of `testbed.model.node_config` and no fabric. Sources: linux/rtnetlink.h, linux/if_link.h,
linux/neighbour.h, linux/pkt_sched.h.
"""

import socket
from ipaddress import IPv6Address, IPv6Network

from pyroute2.netlink.rtnl.fibmsg import fibmsg
from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.ndmsg import ndmsg

from testbed.kernel.netlink import seg6local
from testbed.kernel.netlink import traffic_control as tc
from testbed.kernel.netlink.rtnl import Message, Request, Rtnl
from testbed.model.node_config import (
    LOOPBACK_IFINDEX,
    Address,
    Clsact,
    EncapRed,
    EndDt6,
    EndNextCsid,
    Interface,
    Neighbour,
    Route,
    Rule,
    UnknownAction,
)

_RTM_GETLINK, _RTM_GETADDR, _RTM_GETROUTE, _RTM_GETNEIGH, _RTM_GETRULE = 18, 22, 26, 30, 34
_RTEXT_FILTER_SKIP_STATS = 8
_READ_LINK_ATTRIBUTES = frozenset({1, 3, 4, 5, 16, 18})
"""IFLA_ADDRESS, _IFNAME, _MTU, _LINK, _OPERSTATE, _LINKINFO."""

_READ_QDISC_ATTRIBUTES = frozenset({1})
"""TCA_KIND."""

_NUD_PERMANENT = 0x80
_KERNEL_MADE = (1, 2, 9)
"""Protocols RTPROT_REDIRECT, RTPROT_KERNEL, RTPROT_RA: routes that no program requested."""

_IFF_UP = 1
"""IFF_UP of linux/if.h."""

_RTNH_F_DEAD, _RTNH_F_LINKDOWN = 1, 16


def found_interfaces(rtnl: Rtnl) -> tuple[tuple[Interface, ...], frozenset[int], frozenset[str]]:
    """Return the veth ends, the indexes of those that are ready to send, and the names of other interfaces that are up.

    Others that are down are left out: the kernel makes some itself in every namespace, as `sit0`.
    """
    message: Message = ifinfmsg()
    message.update({"attrs": [("IFLA_EXT_MASK", _RTEXT_FILTER_SKIP_STATS)]})
    messages = rtnl.dump(Request("read links", message, _RTM_GETLINK), ifinfmsg, _READ_LINK_ATTRIBUTES)
    ends = [message for message in messages if _kind(message) == "veth"]
    ready = frozenset(message["index"] for message in ends if message.get_attr("IFLA_OPERSTATE") == "UP")
    others = (each for each in messages if _kind(each) != "veth" and each["index"] != LOOPBACK_IFINDEX)
    strange = frozenset(message.get_attr("IFLA_IFNAME") for message in others if message["flags"] & _IFF_UP)
    return tuple(map(_interface, ends)), ready, strange


def found_rules(rtnl: Rtnl) -> frozenset[Rule]:
    """Return the routing rules for IPv6."""
    messages = _dump(rtnl, "rules", fibmsg, _RTM_GETRULE, family=socket.AF_INET6)
    return frozenset(
        Rule(m.get_attr("FRA_PRIORITY") or 0, m.get_attr("FRA_TABLE") or m["table"] or 0, m["action"]) for m in messages
    )


def found_clsacts(rtnl: Rtnl) -> tuple[Clsact, ...]:
    """Return the ports that have a clsact."""
    request = Request("read qdiscs", tc.tc_message(0), tc.RTM_GETQDISC)
    answers = rtnl.dump(request, tc.TcMessage, _READ_QDISC_ATTRIBUTES)
    return tuple(Clsact(answer["index"]) for answer in answers if answer.get_attr("TCA_KIND") == "clsact")


def found_addresses(rtnl: Rtnl) -> tuple[Address, ...]:
    """Return the IPv6 addresses, without `::1`, which the kernel gives to `lo`."""
    messages = _dump(rtnl, "addresses", ifaddrmsg, _RTM_GETADDR, family=socket.AF_INET6)
    found = (Address(m["index"], IPv6Address(m.get_attr("IFA_ADDRESS")), m["prefixlen"]) for m in messages)
    return tuple(address for address in found if not address.address.is_loopback)


def found_neighbours(rtnl: Rtnl) -> tuple[Neighbour, ...]:
    """Return the permanent IPv6 neighbours."""
    messages = _dump(rtnl, "neighbours", ndmsg, _RTM_GETNEIGH, family=socket.AF_INET6)
    return tuple(
        Neighbour(m["ifindex"], IPv6Address(m.get_attr("NDA_DST")), m.get_attr("NDA_LLADDR"))
        for m in messages
        if m["state"] & _NUD_PERMANENT
    )


def found_routes(rtnl: Rtnl) -> tuple[tuple[Route, ...], frozenset[Route]]:
    """Return IPv6 routes of all tables that the kernel did not make itself, and those whose interface cannot send."""
    messages = _dump(rtnl, "routes", seg6local.RouteMessage, _RTM_GETROUTE, family=socket.AF_INET6)
    found = [(_route(m), m["flags"]) for m in messages if m["proto"] not in _KERNEL_MADE]
    dead = frozenset(route for route, flags in found if flags & (_RTNH_F_DEAD | _RTNH_F_LINKDOWN))
    return tuple(route for route, _ in found), dead


def _dump(rtnl: Rtnl, what: str, message_class: type, kind: int, **fields: object) -> list[Message]:
    message: Message = message_class()
    message.update(fields)
    return rtnl.dump(Request(f"read {what}", message, kind), message_class)


def _kind(message: Message) -> str | None:
    info = message.get_attr("IFLA_LINKINFO")
    return None if info is None else info.get_attr("IFLA_INFO_KIND")


def _interface(message: Message) -> Interface:
    index = message["index"]
    peer = message.get_attr("IFLA_LINK")
    return Interface(
        message.get_attr("IFLA_IFNAME"),
        index,
        message.get_attr("IFLA_ADDRESS"),
        message.get_attr("IFLA_MTU"),
        index if peer is None else peer,  # the kernel leaves the peer's index out when it equals the own one
    )


def _route(message: Message) -> Route:
    prefix = IPv6Network((message.get_attr("RTA_DST") or "::", message["dst_len"]))
    gateway = message.get_attr("RTA_GATEWAY")
    return Route(
        prefix,
        message.get_attr("RTA_OIF") or 0,
        None if gateway is None else IPv6Address(gateway),
        _action(message),
        message.get_attr("RTA_TABLE") or message["table"],
    )


def _action(message: Message) -> EndNextCsid | EndDt6 | EncapRed | UnknownAction | None:
    kind, encap = message.get_attr("RTA_ENCAP_TYPE"), message.get_attr("RTA_ENCAP")
    if kind is None:
        return None
    if kind == seg6local.LWTUNNEL_ENCAP_SEG6_LOCAL:
        return _local_action(encap)
    if kind == seg6local.LWTUNNEL_ENCAP_SEG6:
        segments = seg6local.segments_of(encap.get_attr("SEG6_IPTUNNEL_SRH"))
        return UnknownAction("seg6 of another mode") if segments is None else EncapRed(segments)
    return UnknownAction(f"lightweight tunnel type {kind}")


def _local_action(encap: Message) -> EndNextCsid | EndDt6 | UnknownAction:
    action, flavors = encap.get_attr("SEG6_LOCAL_ACTION"), encap.get_attr("SEG6_LOCAL_FLAVORS")
    if action == seg6local.SEG6_LOCAL_ACTION_END and flavors is not None:
        operation = flavors.get_attr("SEG6_LOCAL_FLV_OPERATION")
        bits = (flavors.get_attr(f"SEG6_LOCAL_FLV_{name}_BITS") for name in ("LCBLOCK", "LCNODE_FN"))
        if operation == seg6local.FLV_OP_NEXT_CSID:
            return EndNextCsid(*bits)
        return UnknownAction(f"seg6local End with flavors {operation:#x}")
    if action == seg6local.SEG6_LOCAL_ACTION_END_DT6 and encap.get_attr("SEG6_LOCAL_TABLE") is not None:
        return EndDt6(encap.get_attr("SEG6_LOCAL_TABLE"))
    return UnknownAction(f"seg6local action {action} without flavors")
