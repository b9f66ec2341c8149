"""Targets: what names, wildcards and chance select, and what they cannot mean."""

from fractions import Fraction

import pytest

from faults.errors import TargetError, WordingError
from faults.kinds import BlackHole, Crash, Down, Hang, RandomDrop
from faults.selector import Only
from faults.targets import chosen_of, require_fits
from testbed.errors import UnknownNameError
from testbed.model.fabric import Fabric, FabricSpec

FABRIC = Fabric.of(FabricSpec(planes=2, leaves=2, spines=2, hosts_per_leaf=2))


def ways(text, seed=0):
    return [str(way) for way in chosen_of(text, FABRIC, seed).ways]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("p0:leaf1>spine0", ["p0:leaf1>spine0"]),
        ("p0:leaf1-spine0", ["p0:leaf1>spine0", "p0:spine0>leaf1"]),
        ("p*:leaf1>spine0", ["p0:leaf1>spine0", "p1:leaf1>spine0"]),
        ("p0:h1>leaf0", ["p0:h1>leaf0"]),
        ("h1:plane1", ["p1:h1>leaf0"]),
        ("p0-leaf1:h2", ["p0:leaf1>h2"]),
        ("p0-leaf1:spine*", ["p0:leaf1>spine0", "p0:leaf1>spine1"]),
        ("p*-leaf0:spine[1-1]", ["p0:leaf0>spine1", "p1:leaf0>spine1"]),
        ("h[0-1]:plane0", ["p0:h0>leaf0", "p0:h1>leaf0"]),
        ("h?:plane1", ["p1:h0>leaf0", "p1:h1>leaf0", "p1:h2>leaf1", "p1:h3>leaf1"]),
        ("p0-leaf[1-9]", ["p0:leaf1>h2", "p0:leaf1>h3", "p0:leaf1>spine0", "p0:leaf1>spine1"]),
        ("p1-spine1", ["p1:spine1>leaf0", "p1:spine1>leaf1"]),
        ("h3", ["p0:h3>leaf1", "p1:h3>leaf1"]),
        ("p*-spine0", ["p0:spine0>leaf0", "p0:spine0>leaf1", "p1:spine0>leaf0", "p1:spine0>leaf1"]),
        ("h0:plane0, h1:plane0", ["p0:h0>leaf0", "p0:h1>leaf0"]),
        ("h0:plane0,p0:h0-leaf0", ["p0:h0>leaf0", "p0:leaf0>h0"]),
    ],
)
def test_names(text, found):
    assert ways(text) == found


def test_a_plane_is_all_its_links_both_ways():
    assert len(ways("p1")) == 2 * (4 + 4)
    assert ways("plane 1") == ways("p1")
    assert all(way.startswith("p1:") for way in ways("p1"))


@pytest.mark.parametrize(
    ("text", "count", "holds"),
    [
        ("any fabric link", 2, lambda way: "h" not in way),
        ("any access link of plane 1", 2, lambda way: "h" in way and way.startswith("p1:")),
        ("3 links of plane 1", 6, lambda way: way.startswith("p1:")),
        ("2 fabric directions", 2, lambda way: "h" not in way),
        ("any spine", 2, lambda way: ":spine" in way),
        ("any leaf of plane 0", 4, lambda way: way.startswith("p0:leaf")),
        ("any host", 2, lambda way: ":h" in way),
    ],
)
def test_chance_is_fixed_by_the_seed(text, count, holds):
    assert len(ways(text)) == count
    assert all(holds(way) for way in ways(text))
    assert ways(text, 5) == ways(text, 5)
    assert len({tuple(ways(text, seed)) for seed in range(40)}) > 1
    assert chosen_of(text, FABRIC).by_chance


@pytest.mark.parametrize(
    ("text", "error", "told"),
    [
        ("p0:leaf1-spin0", UnknownNameError, "did you mean"),
        ("p0-spine7", UnknownNameError, "no such node"),
        ("p*-spine7", UnknownNameError, "no such node"),
        ("h1:plane7", TargetError, "its ports are plane0, plane1"),
        ("h*:spine*", TargetError, r"h\* has no port spine\*; its ports are plane0, plane1"),
        ("h9:plane*", UnknownNameError, "no such node"),
        ("p0-leaf[7-9]:spine*", UnknownNameError, "no such node"),
        ("h[1-:plane0", UnknownNameError, "not a link name"),
        ("p7", TargetError, "planes are p0 to p1"),
        ("any link of plane 7", TargetError, "planes are p0 to p1"),
        ("99 fabric links", TargetError, "99 cannot be chosen; there are 8"),
        ("any fabric spine", TargetError, "fabric does not apply to a node"),
        (" , ", TargetError, "names nothing"),
    ],
)
def test_what_is_not_there_is_told(text, error, told):
    with pytest.raises(error, match=told):
        chosen_of(text, FABRIC)


def test_switch_kinds_want_switches():
    require_fits(chosen_of("p0-spine0,p0-leaf1", FABRIC), Crash(), FABRIC)
    require_fits(chosen_of("p0:leaf0-spine0", FABRIC), Down(), FABRIC)
    for text in ("p0:leaf0-spine0", "h1", "p0-spine0,h1", "p0"):
        with pytest.raises(TargetError, match="is for whole switches"):
            require_fits(chosen_of(text, FABRIC), Hang(), FABRIC)


def test_a_host_that_is_not_there_is_told():
    chosen = chosen_of("p0:leaf0>spine0", FABRIC)
    require_fits(chosen, BlackHole(3), FABRIC)
    for fault, word in ((BlackHole(4), "black-hole"), (RandomDrop(Fraction(1), Only(host=99)), "only-to")):
        with pytest.raises(WordingError, match=rf"^{word}: there is no host h.*; hosts are h0 to h3$"):
            require_fits(chosen, fault, FABRIC)


@pytest.mark.parametrize("text", ["p0:leaf0>spine0,,", "p0:leaf0>spine0,", ",h1", "h0,,h1", "h0, ,h1"])
def test_a_comma_too_many_is_told(text: str) -> None:
    with pytest.raises(TargetError, match="a comma has no name beside it"):
        chosen_of(text, FABRIC)


@pytest.mark.parametrize(
    ("text", "known"),
    [("h99", "nodes are h0 to h3, p0-leaf0 to p1-leaf1, p0-spine0 to p1-spine1"),
     ("p7-leaf*", "nodes are h0 to h3,"),
     ("p9:h99>spine7777777", "links are p0:leaf0-spine0 to p1:leaf1-spine1, p0:h0-leaf0 to p1:h3-leaf1")],
)  # fmt: skip
def test_a_name_that_resembles_none_is_told_with_those_there_are(text: str, known: str) -> None:
    with pytest.raises(UnknownNameError) as told:
        chosen_of(text, FABRIC)
    assert known in str(told.value)
    assert told.value.right.startswith(known)


def test_a_choice_is_told_spelt_out():
    assert str(chosen_of("p0:leaf1>spine0", FABRIC)) == "p0:leaf1>spine0"
    assert str(chosen_of("p*-spine0", FABRIC)) == "p*-spine0: p0-spine0, p1-spine0"
    assert str(chosen_of("p0", FABRIC)).endswith("... (16)")
