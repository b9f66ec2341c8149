"""The wanted state of one leaf, one spine and one host, record by record."""

from ipaddress import IPv6Address, IPv6Network

from testbed.model.fabric import Fabric, FabricSpec
from testbed.model.node_config import (
    LOOPBACK_IFINDEX,
    Address,
    EncapRed,
    EndDt6,
    EndNextCsid,
    Interface,
    Neighbour,
    Route,
    Sysctl,
    cables_of,
    node_config,
)
from testbed.model.node_names import NodeId

PLAIN = Fabric.of(FabricSpec(planes=2, leaves=2, spines=2, hosts_per_leaf=2))
STACK = Fabric.of(FabricSpec(planes=2, leaves=2, spines=2, hosts_per_leaf=2, mtu=4000, host_stack=True))


def net(text: str) -> IPv6Network:
    return IPv6Network(text)


def ip(text: str) -> IPv6Address:
    return IPv6Address(text)


def test_a_leaf():
    config = node_config(PLAIN, NodeId.leaf(1, 0))
    assert config.interfaces == (
        Interface("h0", 400, "02:21:00:00:30:00", 9000, 101),
        Interface("h1", 401, "02:21:00:00:30:01", 9000, 101),
        Interface("spine0", 100, "02:21:00:00:10:00", 9000, 700),
        Interface("spine1", 101, "02:21:00:00:10:01", 9000, 700),
    )
    assert config.routes == (
        Route(net("5f00:0:2100::/48"), LOOPBACK_IFINDEX, action=EndNextCsid(32, 16)),
        Route(net("5f00:0:e100::/48"), 400, ip("fe80::31:ff:fe00:2000")),
        Route(net("5f00:0:e101::/48"), 401, ip("fe80::31:ff:fe01:2000")),
        Route(net("5f00:0:1100::/48"), 100, ip("fe80::11:ff:fe00:2000")),
        Route(net("5f00:0:1101::/48"), 101, ip("fe80::11:ff:fe01:2000")),
    )
    assert config.neighbours == (
        Neighbour(400, ip("fe80::31:ff:fe00:2000"), "02:31:00:00:20:00"),
        Neighbour(401, ip("fe80::31:ff:fe01:2000"), "02:31:00:01:20:00"),
        Neighbour(100, ip("fe80::11:ff:fe00:2000"), "02:11:00:00:20:00"),
        Neighbour(101, ip("fe80::11:ff:fe01:2000"), "02:11:00:01:20:00"),
    )
    assert (config.addresses, config.loopback_up) == ((), True)
    assert config.forwarding == (Sysctl("net/ipv6/conf/all/forwarding", "1"),)


def test_a_spine():
    config = node_config(PLAIN, NodeId.spine(0, 1))
    assert config.interfaces == (
        Interface("leaf0", 700, "02:10:00:01:20:00", 9000, 101),
        Interface("leaf1", 701, "02:10:00:01:20:01", 9000, 101),
    )
    assert config.routes == (
        Route(net("5f00:0:1001::/48"), LOOPBACK_IFINDEX, action=EndNextCsid(32, 16)),
        Route(net("5f00:0:2000::/48"), 700, ip("fe80::20:ff:fe00:1001")),
        Route(net("5f00:0:2001::/48"), 701, ip("fe80::20:ff:fe01:1001")),
    )


def test_a_host_without_its_stack_has_links_only():
    config = node_config(PLAIN, NodeId.host(2))
    assert [interface.name for interface in config.interfaces] == ["plane0", "plane1"]
    assert config.quiet == (Sysctl("net/ipv6/conf/default/disable_ipv6", "1"),)
    assert (config.routes, config.neighbours, config.addresses, config.forwarding) == ((), (), (), ())
    assert not config.loopback_up


def test_a_host_with_its_stack():
    config = node_config(STACK, NodeId.host(2))
    assert config.addresses == (Address(LOOPBACK_IFINDEX, ip("fd5f::2"), 128),)
    assert config.interfaces[0] == Interface("plane0", 100, "02:30:00:02:20:01", 4000, 400)
    assert config.routes == (
        Route(net("5f00:0:e000::/48"), LOOPBACK_IFINDEX, action=EndDt6(255)),
        Route(net("5f00:0:e100::/48"), LOOPBACK_IFINDEX, action=EndDt6(255)),
        Route(net("5f00:0:2001::/48"), 100, ip("fe80::20:ff:fe01:3000")),
        Route(net("5f00:0:2101::/48"), 101, ip("fe80::21:ff:fe01:3000")),
        Route(net("fd5f::/128"), 100, action=EncapRed((ip("5f00:0:2001:1001:2000:e000::"),))),
        Route(net("fd5f::1/128"), 100, action=EncapRed((ip("5f00:0:2001:1001:2000:e001::"),))),
        Route(net("fd5f::3/128"), 100, action=EncapRed((ip("5f00:0:2001:e001::"),))),
    )
    assert config.forwarding == ()


def test_nothing_is_learned_or_announced():
    for node in PLAIN.leaves() + PLAIN.spines():
        quiet = {sysctl.path.rpartition("/")[2]: sysctl.value for sysctl in node_config(PLAIN, node).quiet}
        wanted = {"addr_gen_mode": "1", "accept_dad": "0", "accept_ra": "0", "router_solicitations": "0"}
        assert wanted.items() <= quiet.items()


def test_the_cables_of_the_leaves_are_all_links_from_both_ends():
    ends = []
    for leaf in PLAIN.leaves():
        for cable in cables_of(PLAIN, leaf):
            ends += [(leaf, cable.near), (cable.far_node, cable.far)]
    wanted = [(node, interface) for node in PLAIN.nodes() for interface in node_config(PLAIN, node).interfaces]
    assert sorted(ends, key=str) == sorted(wanted, key=str)
