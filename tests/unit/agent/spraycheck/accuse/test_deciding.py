"""The flow to send next."""

from agent.spraycheck.accuse.deciding import deciding_flow
from agent.spraycheck.paths import FabricLink, FabricPath

UP, DOWN = FabricLink(0, 3, 5, up=True), FabricLink(0, 4, 5, up=False)
EITHER = {frozenset({UP}): 0.5, frozenset({DOWN}): 0.5}


def test_a_flow_over_one_suspect_and_a_link_known_to_be_healthy():
    cleared = {FabricLink(0, 6, 5, up=False)}
    found = deciding_flow(EITHER, {UP: 0.01, DOWN: 0.01}, range(8), cleared)
    assert found is not None
    assert (found.path, found.rate) == (FabricPath(0, 3, 5, 6), 0.01)


def test_lowest_numbers_decide_among_equals_and_unknown_rates_stay_unknown():
    found = deciding_flow(EITHER, {}, range(8), ())
    assert found is not None
    assert (found.path, found.rate) == (FabricPath(0, 0, 5, 4), None)


def test_two_leaves_have_no_other_pair():
    assert deciding_flow(EITHER, {}, {3, 4}, ()) is None


def test_the_likeliest_split_is_preferred():
    third = FabricLink(0, 6, 5, up=False)
    found = deciding_flow({frozenset({UP}): 0.1, frozenset({DOWN}): 0.5, frozenset({third}): 0.4}, {}, range(8), ())
    assert found is not None
    assert (DOWN in found.path.links) != bool({UP, third} & set(found.path.links))
