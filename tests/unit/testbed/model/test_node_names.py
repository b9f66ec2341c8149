import re

import pytest

from testbed.errors import UnknownNameError
from testbed.model.fabric import Fabric, FabricSpec
from testbed.model.name_parsing import parse_link, parse_node
from testbed.model.node_names import DirectedLink, LinkId, NodeId, PortId, namespace_name, namespace_prefix

FABRIC = Fabric.of(FabricSpec(planes=2, leaves=4, spines=3, hosts_per_leaf=2))
ONE_PLANE = Fabric.of(FabricSpec(planes=1, leaves=4, spines=3))


@pytest.mark.parametrize("text", ["p0-leaf3", "p1-spine2", "h7"])
def test_node_names_parse_to_what_renders_them(text):
    assert str(parse_node(text, FABRIC)) == text


def test_every_link_name_parses_to_its_directions():
    for link in FABRIC.links():
        assert parse_link(str(link), FABRIC) == link.directions
        for way in link.directions:
            assert parse_link(str(way), FABRIC) == (way,)
            assert way.link == link
            assert way.reverse.reverse == way


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("p0:leaf3>spine2", ["p0:leaf3>spine2"]),
        ("p0:spine2>leaf3", ["p0:spine2>leaf3"]),
        ("p1:leaf3-spine2", ["p1:leaf3>spine2", "p1:spine2>leaf3"]),
        ("p1:spine2-leaf3", ["p1:leaf3>spine2", "p1:spine2>leaf3"]),
        ("p0:h2-leaf1", ["p0:h2>leaf1", "p0:leaf1>h2"]),
        ("p*:leaf3>spine1", ["p0:leaf3>spine1", "p1:leaf3>spine1"]),
        ("p0:leaf0>spine*", ["p0:leaf0>spine0", "p0:leaf0>spine1", "p0:leaf0>spine2"]),
        (" p1:leaf*>h1 ", ["p1:leaf0>h1"]),
    ],
)
def test_link_names_select_directions(text, selected):
    assert [str(way) for way in parse_link(text, FABRIC)] == selected


def test_wildcards_select_whole_tiers():
    assert len(parse_link("p*:leaf*>spine*", FABRIC)) == 2 * 4 * 3
    assert len(parse_link("p0:h*-leaf*", FABRIC)) == 8 * 2


def test_the_plane_may_be_left_out_when_there_is_only_one():
    assert parse_link("leaf3>spine2", ONE_PLANE) == parse_link("p0:leaf3>spine2", ONE_PLANE)
    with pytest.raises(UnknownNameError, match="the plane is missing"):
        parse_link("leaf3>spine2", FABRIC)


@pytest.mark.parametrize(
    ("text", "reason", "near"),
    [
        ("p0:leaf3>spine5", "no such link", "p0:leaf3>spine2"),
        ("p0:leaf9-spine2", "no such link", "p0:leaf3-spine2"),
        ("p7:leaf3-spine2", "no such link", "p1:leaf3-spine2"),
        ("p0:h5-leaf1", "no such link", "p0:h3-leaf1"),
        ("p0:leaf3spine2", "not a link name", "p0:leaf3-spine2"),
        ("p0:leef3-spine2", "not a link name", "p0:leaf3-spine2"),
        ("p0:leaf3>leaf2", "no such link", "p0:leaf3>h6"),
        ("leaf3-spine2", "the plane is missing", "p1:leaf3-spine2"),
    ],
)
def test_wrong_link_names_are_answered_with_near_ones(text, reason, near):
    with pytest.raises(UnknownNameError) as wrong:
        parse_link(text, FABRIC)
    assert wrong.value.reason.startswith(reason)
    assert near in wrong.value.near
    assert near in str(wrong.value)


@pytest.mark.parametrize(("text", "near"), [("p0-leaf4", "p0-leaf3"), ("leaf3", "p0-leaf3"), ("h8", "h7"), ("", None)])
def test_wrong_node_names_are_answered_with_near_ones(text, near):
    with pytest.raises(UnknownNameError) as wrong:
        parse_node(text, FABRIC)
    assert near is None or near in wrong.value.near


def test_interfaces_are_named_for_the_peer():
    leaf, spine, host = NodeId.leaf(1, 2), NodeId.spine(1, 0), NodeId.host(5)
    assert PortId(leaf, spine, 1).interface == "spine0"
    assert PortId(spine, leaf, 1).interface == "leaf2"
    assert PortId(leaf, host, 1).interface == "h5"
    assert PortId(host, leaf, 1).interface == "plane1"
    assert str(PortId(leaf, spine, 1)) == "p1-leaf2:spine0"


def test_a_direction_knows_its_ends():
    way = DirectedLink(0, NodeId.leaf(0, 3), NodeId.spine(0, 1))
    assert way.egress == PortId(NodeId.leaf(0, 3), NodeId.spine(0, 1), 0)
    assert way.ingress == PortId(NodeId.spine(0, 1), NodeId.leaf(0, 3), 0)
    assert way.link == LinkId(0, NodeId.leaf(0, 3), NodeId.spine(0, 1))


def test_namespace_names():
    assert namespace_name("lab", NodeId.leaf(0, 3)) == "spraylab-lab-p0-leaf3"
    assert namespace_prefix("t1") == "spraylab-t1-"


@pytest.mark.parametrize("lab", ["", "Lab", "1lab", "a-b", "abcdefghijk", "a/b", "a\n"])
def test_lab_names_are_checked(lab):
    with pytest.raises(UnknownNameError, match="lab name"):
        namespace_prefix(lab)


def test_names_in_the_largest_fabric_do_not_take_writing_out_all_links(monkeypatch):
    largest = Fabric.of(FabricSpec(16, 256, 256, 1))
    monkeypatch.setattr(Fabric, "links", lambda self: pytest.fail("a million links"))
    assert [str(way) for way in parse_link("p15:leaf3>spine255", largest)] == ["p15:leaf3>spine255"]
    with pytest.raises(UnknownNameError, match="p3:leaf3>spine99"):
        parse_link("p3:leaf3>spine999", largest)
    with pytest.raises(UnknownNameError, match="p3:leaf255>spine5"):
        parse_link("p3:leaf2555>spine5", largest)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("p0:leaf0>spine9", "no such link (spines are spine0 to spine7)"),
        (
            "p9:leaf9-spine9",
            "(planes are p0 to p1, leaves are leaf0 to leaf3, spines are spine0 to spine7)",
        ),
        ("p0:h4-leaf*", "no such link (hosts are h0 to h3)"),
        ("p0:h1-leaf0", "no such link;"),
    ],
)
def test_numbers_that_are_too_large_are_told_with_those_there_are(text: str, told: str) -> None:
    with pytest.raises(UnknownNameError, match=re.escape(told)):
        parse_link(text, Fabric.of(FabricSpec(2, 4, 8, 1)))


def test_so_they_are_of_nodes() -> None:
    for text, told in (("h4", "hosts are h0 to h3"), ("p2-leaf9", "planes are p0 to p1, leaves are leaf0 to leaf3")):
        with pytest.raises(UnknownNameError, match=rf"no such node \({told}\)"):
            parse_node(text, Fabric.of(FabricSpec(2, 4, 8, 1)))
