"""The address plan, number by number, as docs/address-plan.md tells it."""

from ipaddress import IPv6Address

import pytest

from testbed.model.addressing import (
    carrier,
    downlink_usid,
    host_address,
    ifindex_of,
    link_local_of,
    mac_of,
    port_of,
    sid_prefix,
    spine_of_ifindex,
    usid_of,
)
from testbed.model.fabric import Fabric, FabricSpec
from testbed.model.node_names import NodeId, PortId

FABRIC = Fabric.of(FabricSpec(planes=16, leaves=256, spines=256, hosts_per_leaf=256))


def port(node: NodeId, peer: NodeId, plane: int) -> PortId:
    return PortId(node, peer, plane)


@pytest.mark.parametrize(
    ("node", "usid"),
    [
        (NodeId.spine(0, 5), 0x1005),
        (NodeId.leaf(0, 3), 0x2003),
        (NodeId.leaf(15, 255), 0x2FFF),
        (NodeId.spine(1, 0), 0x1100),
    ],
    ids=str,
)
def test_usids(node, usid):
    assert usid_of(node) == usid


def test_downlinks_are_in_the_local_block():
    assert downlink_usid(2, 7) == 0xE207
    with pytest.raises(ValueError, match="h3 has no uSID of its own"):
        usid_of(NodeId.host(3))


def test_the_carrier_reads_by_eye():
    assert carrier((0x2003, 0x1005, 0x2007, 0xE000)) == IPv6Address("5f00:0:2003:1005:2007:e000::")
    assert str(sid_prefix(0x1005)) == "5f00:0:1005::/48"


def test_host_addresses():
    assert [str(host_address(h)) for h in (0, 3, 65535)] == ["fd5f::", "fd5f::3", "fd5f::ffff"]


@pytest.mark.parametrize(
    ("of", "mac", "ifindex"),
    [
        (port(NodeId.leaf(0, 3), NodeId.spine(0, 5), 0), "02:20:00:03:10:05", 105),
        (port(NodeId.spine(0, 5), NodeId.leaf(0, 3), 0), "02:10:00:05:20:03", 703),
        (port(NodeId.leaf(4, 1), NodeId.host(258), 4), "02:24:00:01:30:02", 402),
        (port(NodeId.host(258), NodeId.leaf(4, 1), 4), "02:34:01:02:20:01", 104),
        (port(NodeId.leaf(15, 255), NodeId.spine(15, 255), 15), "02:2f:00:ff:10:ff", 355),
    ],
    ids=str,
)
def test_macs_and_interface_indexes(of, mac, ifindex):
    assert mac_of(FABRIC, of) == mac
    assert ifindex_of(FABRIC, of) == ifindex


def test_link_local_is_eui64():
    assert link_local_of("02:20:00:03:10:05") == IPv6Address("fe80::20:ff:fe03:1005")
    assert port_of(FABRIC, port(NodeId.leaf(0, 3), NodeId.spine(0, 5), 0)).name == "spine5"


def test_the_arrival_spine_is_known_by_the_interface_index():
    leaf = NodeId.leaf(0, 0)
    for peer in (NodeId.spine(0, 0), NodeId.spine(0, 255)):
        assert spine_of_ifindex(ifindex_of(FABRIC, port(leaf, peer, 0))) == peer.index
    assert spine_of_ifindex(ifindex_of(FABRIC, port(leaf, NodeId.host(0), 0))) is None


def test_nothing_is_allocated_twice():
    fabric = Fabric.of(FabricSpec(planes=3, leaves=4, spines=5, hosts_per_leaf=3))
    ports = [port_of(fabric, each) for node in fabric.nodes() for each in fabric.ports_of(node)]
    assert len({each.mac for each in ports}) == len(ports)
    assert len({(each.id.node, each.ifindex) for each in ports}) == len(ports)
    assert len({(each.id.node, each.name) for each in ports}) == len(ports)


def test_the_ends_of_a_link_never_share_an_interface_index():
    fabric = Fabric.of(FabricSpec(planes=16, leaves=8, spines=8, hosts_per_leaf=2))
    for link in fabric.links():
        up, _ = link.directions
        assert ifindex_of(fabric, up.egress) != ifindex_of(fabric, up.ingress)
