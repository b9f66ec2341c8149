import pytest

from agent.wire.usid import shift
from testbed.errors import FabricError
from testbed.model.addressing import default_path, paths_of
from testbed.model.fabric import Fabric, FabricSpec

FABRIC = Fabric.of(FabricSpec(planes=2, leaves=8, spines=3, hosts_per_leaf=2))


def test_all_paths_between_two_leaves():
    shown = [(str(p), str(p.destination), " ".join(map(str, p.links))) for p in paths_of(FABRIC, 7, 14)]
    assert shown == [
        (f"p{p}:spine{s}", f"5f00:0:2{p}03:1{p}0{s}:2{p}07:e{p}00::",
         f"p{p}:h7>leaf3 p{p}:leaf3>spine{s} p{p}:spine{s}>leaf7 p{p}:leaf7>h14")
        for p in (0, 1) for s in (0, 1, 2)
    ]  # fmt: skip


def test_below_one_leaf_there_is_one_path_a_plane():
    shown = [(str(p), p.spine, str(p.destination), " ".join(map(str, p.links))) for p in paths_of(FABRIC, 6, 7)]
    assert shown == [
        (f"p{p}:local", None, f"5f00:0:2{p}03:e{p}01::", f"p{p}:h6>leaf3 p{p}:leaf3>h7") for p in (0, 1)
    ]  # fmt: skip


@pytest.mark.parametrize("pair", [(0, 15), (6, 7)])
def test_the_address_shifts_once_a_switch(pair):
    for path in paths_of(FABRIC, *pair):
        assert len(path.destinations) == len(path.links) == len(path.usids)
        for before, after in zip(path.destinations, path.destinations[1:], strict=False):
            assert shift(before.packed) == after.packed


def test_links_of_a_path_are_in_the_fabric_and_join_up():
    links = set(FABRIC.links())
    for path in paths_of(FABRIC, 0, 15):
        assert {way.link for way in path.links} <= links
        assert all(a.receiver == b.sender for a, b in zip(path.links, path.links[1:], strict=False))


def test_every_pair_crosses_every_spine():
    assert {(p.plane, p.spine) for p in paths_of(FABRIC, 3, 8)} == {(p, s) for p in (0, 1) for s in (0, 1, 2)}


def test_the_default_path_is_one_of_all_and_the_same_both_ways():
    for source, target in [(0, 15), (7, 14), (6, 7)]:
        there, back = default_path(FABRIC, source, target), default_path(FABRIC, target, source)
        assert there in paths_of(FABRIC, source, target)
        assert (there.plane, there.spine) == (back.plane, back.spine)


@pytest.mark.parametrize(
    ("pair", "problem"),
    [
        ((0, 16), "h16 does not exist, hosts are h0..h15"),
        ((-1, 2), "h-1 does not exist, hosts are h0..h15"),
        ((3, 3), "h3 has no path to itself through the fabric"),
    ],
)
def test_wrong_pairs_are_refused(pair, problem):
    with pytest.raises(FabricError) as refused:
        paths_of(FABRIC, *pair)
    assert refused.value.problems == (problem,)
