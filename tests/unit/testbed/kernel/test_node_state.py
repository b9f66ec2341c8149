"""The comparison of wanted and found: silent when equal, one readable line for each difference."""

from dataclasses import replace

from testbed.kernel.node_state import NodeState, differences, pending
from testbed.model.fabric import Fabric, FabricSpec
from testbed.model.node_config import EncapRed, Route, Sysctl, UnknownAction, node_config
from testbed.model.node_names import NodeId

FABRIC = Fabric.of(FabricSpec(planes=1, leaves=2, spines=1))
CONFIG = node_config(FABRIC, NodeId.leaf(0, 0))
SAME = NodeState(
    sysctls=CONFIG.quiet + CONFIG.forwarding,
    interfaces=CONFIG.interfaces,
    ready=frozenset(interface.ifindex for interface in CONFIG.interfaces),
    clsacts=CONFIG.clsacts,
    addresses=CONFIG.addresses,
    neighbours=CONFIG.neighbours,
    routes=CONFIG.routes,
    dead=frozenset(),
)


def test_equal_states_in_any_order_have_no_differences():
    shuffled = replace(SAME, routes=SAME.routes[::-1], neighbours=SAME.neighbours[::-1])
    assert differences(CONFIG, shuffled) == ()
    assert pending(CONFIG, shuffled) == ()


def test_each_difference_is_one_line():
    own, downlink, uplink = SAME.routes
    state = replace(
        SAME,
        sysctls=(Sysctl(SAME.sysctls[0].path, "7"), *SAME.sysctls[1:]),
        interfaces=(replace(SAME.interfaces[0], mtu=1500), *SAME.interfaces[1:]),
        clsacts=SAME.clsacts[1:],
        neighbours=SAME.neighbours[1:],
        routes=(replace(own, action=UnknownAction("seg6local action 1 without flavors")), downlink),
    )
    assert differences(CONFIG, state) == (
        "p0-leaf0: sysctl net/ipv6/conf/default/addr_gen_mode: wanted value=1, found value=7",
        "p0-leaf0: interface h0: wanted ifindex=400 mac=02:20:00:00:30:00 mtu=9000 peer_ifindex=100, "
        "found ifindex=400 mac=02:20:00:00:30:00 mtu=1500 peer_ifindex=100",
        "p0-leaf0: clsact of interface 400: wanted it, found nothing",
        "p0-leaf0: neighbour of interface 400 fe80::30:ff:fe00:2000: wanted mac=02:30:00:00:20:00, found nothing",
        "p0-leaf0: route 5f00:0:2000::/48 in table 255: "
        "wanted ifindex=1 gateway=None action=EndNextCsid(block_bits=32, usid_bits=16), "
        "found ifindex=1 gateway=None action=UnknownAction(text='seg6local action 1 without flavors')",
        f"p0-leaf0: route 5f00:0:1000::/48 in table 255: "
        f"wanted ifindex=100 gateway={uplink.gateway} action=None, found nothing",
    )


def test_what_nobody_asked_for_is_told():
    extra = Route(CONFIG.routes[0].prefix.supernet(8), 100, table=254, action=EncapRed(()))
    (line,) = differences(CONFIG, replace(SAME, routes=(*SAME.routes, extra)))
    assert line.startswith("p0-leaf0: route 5f00:0:2000::/40 in table 254: not wanted, found ifindex=100")


def test_ports_that_are_not_up_yet_are_pending_not_different():
    state = replace(SAME, ready=SAME.ready - {100}, dead=frozenset({SAME.routes[2]}))
    assert differences(CONFIG, state) == ()
    assert pending(CONFIG, state) == (
        "p0-leaf0: interface spine0: is not up",
        "p0-leaf0: route 5f00:0:1000::/48: its interface is not up",
    )
