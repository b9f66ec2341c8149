import pytest

from testbed.errors import FabricError
from testbed.model.fabric import Fabric, FabricSpec
from testbed.model.node_names import NodeId, Role

FABRIC = Fabric.of(FabricSpec(planes=2, leaves=3, spines=4, hosts_per_leaf=2))


def test_counts():
    assert len(FABRIC.nodes()) == 6 + 2 * (3 + 4)
    assert len(FABRIC.links()) == FABRIC.link_count == 2 * 3 * (4 + 2)
    assert len(set(FABRIC.links())) == len(FABRIC.links())
    assert FABRIC.host_count == 6


def test_hosts_sit_on_the_same_leaf_and_slot_in_every_plane():
    places = [(FABRIC.leaf_of(h), FABRIC.slot_of(h)) for h in range(6)]
    assert places == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]
    assert [FABRIC.host_at(leaf, slot) for leaf, slot in places] == list(range(6))
    assert [str(port) for port in FABRIC.ports_of(NodeId.host(3))] == ["h3:plane0", "h3:plane1"]


def test_ports_and_links_agree():
    for node in FABRIC.nodes():
        for port, link in zip(FABRIC.ports_of(node), FABRIC.links_of(node), strict=True):
            assert {port.node, port.peer} == {link.lower, link.upper}
            assert link in FABRIC.links()
            assert link.lower.role > link.upper.role


def test_links_come_leaf_by_leaf():
    assert FABRIC.links() == tuple(link for leaf in FABRIC.leaves() for link in FABRIC.links_of(leaf))


def test_a_leaf_has_downlinks_then_uplinks():
    interfaces = [port.interface for port in FABRIC.ports_of(NodeId.leaf(1, 1))]
    assert interfaces == ["h2", "h3", "spine0", "spine1", "spine2", "spine3"]


def test_the_largest_fabric_has_interface_names_the_kernel_takes():
    largest = Fabric.of(FabricSpec(16, 256, 256, 256))
    nodes = (NodeId.leaf(15, 255), NodeId.spine(15, 255), NodeId.host(largest.host_count - 1))
    names = [port.interface for node in nodes for port in largest.ports_of(node)]
    assert max(map(len, names)) <= 15
    assert {node.role for node in nodes} == set(Role)


def test_all_problems_are_told_at_once_with_reasons():
    with pytest.raises(FabricError) as refused:
        Fabric.of(FabricSpec(planes=17, leaves=0, spines=257, hosts_per_leaf=-1, mtu=1300))
    assert refused.value.problems == (
        "planes: 17 is not in 1..16 (a uSID has 4 bits for the plane)",
        "leaves: 0 is not in 1..256 (a uSID has 8 bits for the leaf)",
        "spines: 257 is not in 1..256 (a uSID has 8 bits for the spine)",
        "hosts_per_leaf: -1 is not in 1..256 (a uSID has 8 bits for the downlink)",
        "mtu: 1300 is not in 1320..65535 (1280 for IPv6 and 40 for the outer header; a veth carries at most 65535)",
    )


@pytest.mark.parametrize("spec", [FabricSpec(), FabricSpec(1, 1, 1, 1, 1320), FabricSpec(16, 256, 256, 256, 65535)])
def test_sizes_at_the_limits_are_taken(spec):
    assert Fabric.of(spec).spec == spec
