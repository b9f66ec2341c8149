"""Shutting and reopening of one port: what the kernel removes meanwhile is restored and read back.

Shutting a port removes the IPv6 routes through it and its neighbours, permanent ones too; its qdiscs and addresses'
settings stay. Knows records, not fabrics. Sources: net/ipv6/addrconf.c, net/core/neighbour.c, linux/if_link.h.
"""

from collections.abc import Sequence
from pathlib import Path

from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

from testbed.errors import KernelError, ReadBackError
from testbed.kernel.netlink import dumps, requests
from testbed.kernel.netlink.rtnl import Message, Request, Rtnl
from testbed.kernel.netns import inside
from testbed.model.node_config import Neighbour, Route

_RTM_GETLINK = 18
_IFF_UP = 0x1
_DROPPED_ON_SEND = 11
"""Column of /proc/net/dev after the name (net/core/net-procfs.c)."""
_NO_ROUTE = "Ip6InNoRoutes"
"""Counter of packets without a route; the Out counter would also include answers that a switch cannot send."""


def is_shut(rtnl: Rtnl, ifindex: int) -> bool:
    """Report whether a port is administratively down. Raises KernelError without such a port."""
    message: Message = ifinfmsg()
    answers = rtnl.dump(Request("read links", message, _RTM_GETLINK), ifinfmsg, frozenset())
    for answer in answers:
        if answer["index"] == ifindex:
            return not answer["flags"] & _IFF_UP
    raise KernelError(rtnl.node, f"read port {ifindex}", 19)  # ENODEV


def shut(rtnl: Rtnl, ifindex: int, name: str) -> None:
    """Take a port down. Raises KernelError."""
    rtnl.apply([requests.shut(ifindex, name)])


def reopen(rtnl: Rtnl, ifindex: int, name: str, neighbours: Sequence[Neighbour], routes: Sequence[Route]) -> None:
    """Bring a port up with everything it had, and read that back. Raises KernelError, ReadBackError."""
    rtnl.apply([requests.bring_up(ifindex, name)])
    known, there = set(dumps.found_neighbours(rtnl)), set(dumps.found_routes(rtnl)[0])
    rtnl.apply(requests.add_neighbour(each) for each in neighbours if each not in known)
    rtnl.apply(requests.add_route(each) for each in routes if each not in there)
    known, there = set(dumps.found_neighbours(rtnl)), set(dumps.found_routes(rtnl)[0])
    lost = [*(each for each in neighbours if each not in known), *(each for each in routes if each not in there)]
    if lost or is_shut(rtnl, ifindex):
        raise ReadBackError(tuple(f"{rtnl.node}: {name}: wanted {each}, found nothing" for each in lost or ["up"]))


def dropped_on_send(namespace: Path, interface: str) -> int:
    """Count the packets that a port refused to send since it was created; 0 without such a port."""
    with inside(namespace):
        lines = Path("/proc/thread-self/net/dev").read_text().splitlines()
    rows = (line.replace(":", " ").split() for line in lines[2:])
    return next((int(row[1 + _DROPPED_ON_SEND]) for row in rows if row[0] == interface), 0)


def without_route(namespace: Path) -> int:
    """Count the IPv6 packets that a node could not forward for want of a route since it was created."""
    with inside(namespace):
        lines = Path("/proc/thread-self/net/snmp6").read_text().splitlines()
    return next((int(value) for name, value in map(str.split, lines) if name == _NO_ROUTE), 0)
