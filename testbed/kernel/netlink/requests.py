"""Conversion of records to netlink requests.

Knows the records of `testbed.model.node_config` and no fabric. Sources: linux/rtnetlink.h, linux/if_link.h,
linux/neighbour.h, linux/if_addr.h, linux/pkt_sched.h.
"""

import socket

from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.ndmsg import ndmsg

from testbed.kernel.netlink import seg6local
from testbed.kernel.netlink import traffic_control as tc
from testbed.kernel.netlink.rtnl import NLM_F_CREATE, NLM_F_EXCL, Message, Request
from testbed.model.node_config import (
    LOOPBACK_IFINDEX,
    Address,
    Cable,
    Clsact,
    EncapRed,
    EndDt6,
    EndNextCsid,
    Interface,
    Neighbour,
    Route,
    UnknownAction,
)

_RTM_NEWLINK, _RTM_NEWADDR, _RTM_NEWROUTE, _RTM_NEWNEIGH = 16, 20, 24, 28
_IFF_UP, _IFF_MULTICAST = 0x1, 0x1000
_IFA_F_NODAD, _IFA_F_PERMANENT = 0x02, 0x80
_NUD_PERMANENT = 0x80
_RT_SCOPE_UNIVERSE, _RTN_UNICAST, _RTN_LOCAL, _RTPROT_STATIC = 0, 1, 2, 4
_NEW = NLM_F_CREATE | NLM_F_EXCL


def create_cable(cable: Cable, far_namespace: int) -> Request:
    """Create a veth pair with both ends in place. `far_namespace` is an open descriptor of the far end's namespace.

    The ends are created without IFF_MULTICAST: they join no group, so no MLD report is ever sent.
    """
    peer = _link_fields(cable.far)
    peer["attrs"].append(("IFLA_NET_NS_FD", far_namespace))
    veth = {"attrs": [("IFLA_INFO_KIND", "veth"), ("IFLA_INFO_DATA", {"attrs": [("VETH_INFO_PEER", peer)]})]}
    fields = _link_fields(cable.near)
    fields["attrs"].append(("IFLA_LINKINFO", veth))
    text = f"create link {cable.near.name} to {cable.far_node}"
    return Request(text, _filled(ifinfmsg(), fields), _RTM_NEWLINK, _NEW)


def add_clsact(clsact: Clsact) -> Request:
    """Create the clsact of a port."""
    return Request(f"add clsact to port {clsact.ifindex}", tc.clsact_message(clsact.ifindex), tc.RTM_NEWQDISC, _NEW)


def bring_up(ifindex: int, name: str) -> Request:
    """Set an interface up."""
    fields = {"index": ifindex, "flags": _IFF_UP, "change": _IFF_UP, "attrs": []}
    return Request(f"bring {name} up", _filled(ifinfmsg(), fields), _RTM_NEWLINK)


def shut(ifindex: int, name: str) -> Request:
    """Set an interface down."""
    fields = {"index": ifindex, "flags": 0, "change": _IFF_UP, "attrs": []}
    return Request(f"shut {name}", _filled(ifinfmsg(), fields), _RTM_NEWLINK)


def add_address(address: Address) -> Request:
    """Add an address that is usable at once."""
    fields = {
        "family": socket.AF_INET6,
        "prefixlen": address.prefix_bits,
        "flags": _IFA_F_NODAD | _IFA_F_PERMANENT,
        "index": address.ifindex,
        "attrs": [("IFA_ADDRESS", str(address.address)), ("IFA_LOCAL", str(address.address))],
    }
    return Request(f"add address {address.address}", _filled(ifaddrmsg(), fields), _RTM_NEWADDR, _NEW)


def add_neighbour(neighbour: Neighbour) -> Request:
    """Add a permanent neighbour."""
    fields = {
        "family": socket.AF_INET6,
        "ifindex": neighbour.ifindex,
        "state": _NUD_PERMANENT,
        "attrs": [("NDA_DST", str(neighbour.address)), ("NDA_LLADDR", neighbour.mac)],
    }
    return Request(f"add neighbour {neighbour.address}", _filled(ndmsg(), fields), _RTM_NEWNEIGH, _NEW)


def add_route(route: Route) -> Request:
    """Add a static route."""
    return Request(f"add route {route.prefix}", _route_message(route), _RTM_NEWROUTE, _NEW)


def _filled(message: Message, fields: dict[str, object]) -> Message:
    message.update(fields)
    return message


def _link_fields(interface: Interface) -> dict[str, Message]:
    attributes = [
        ("IFLA_IFNAME", interface.name),
        ("IFLA_MTU", interface.mtu),
        ("IFLA_ADDRESS", interface.mac),
    ]
    return {"index": interface.ifindex, "flags": 0, "change": _IFF_MULTICAST, "attrs": attributes}


def _route_message(route: Route) -> Message:
    attributes: seg6local.Attributes = [("RTA_DST", str(route.prefix.network_address)), ("RTA_OIF", route.ifindex)]
    if route.gateway is not None:
        attributes.append(("RTA_GATEWAY", str(route.gateway)))
    fields = {
        "family": socket.AF_INET6,
        "dst_len": route.prefix.prefixlen,
        "table": route.table,
        "proto": _RTPROT_STATIC,
        "scope": _RT_SCOPE_UNIVERSE,
        "type": _RTN_LOCAL if route.ifindex == LOOPBACK_IFINDEX else _RTN_UNICAST,
        "attrs": attributes + _action_attributes(route),
    }
    return _filled(seg6local.RouteMessage(), fields)


def _action_attributes(route: Route) -> seg6local.Attributes:
    match route.action:
        case EndNextCsid(block_bits, usid_bits):
            return seg6local.end_next_csid(block_bits, usid_bits)
        case EndDt6(table):
            return seg6local.end_dt6(table)
        case EncapRed(segments):
            return seg6local.encap_red(segments)
        case UnknownAction(text):
            raise ValueError(f"cannot ask the kernel for {text}")
        case None:
            return []
