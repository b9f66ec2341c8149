import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agent.core.ev.profile_sources import EvProfile
from agent.core.ev.reverse_evs import ReverseEvs

PLANES = np.repeat(np.arange(4, dtype=np.uint8), 2)
PROFILE = EvProfile(np.arange(8, dtype=np.uint32), PLANES)


def ports(*down):
    up = np.ones(256, bool)
    up[list(down)] = False
    return up


def turns(reverse, count):
    rows = []
    for _ in range(count):
        reverse.turn()
        rows.append(reverse.row)
    return rows


def test_planes_take_turns_and_keep_the_ev_that_answered_last():
    reverse = ReverseEvs(PROFILE)
    assert turns(reverse, 5) == [2, 4, 6, 0, 2]
    reverse.learn(3)
    assert reverse.row == 3
    assert reverse.rows == [0, 3, 4, 6]


def test_a_plane_is_passed_over_after_two_silent_probes_until_one_is_answered():
    reverse = ReverseEvs(PROFILE)
    reverse.doubt(7)
    assert reverse.rows == [0, 2, 4, 6]
    reverse.doubt(6)
    assert set(turns(reverse, 12)) == {0, 2, 4}
    reverse.learn(7)
    assert reverse.rows == [0, 2, 4, 7]


def test_an_answer_between_two_silent_probes_keeps_the_plane():
    reverse = ReverseEvs(PROFILE)
    for row in (7, 6, 7, 6):
        reverse.doubt(row)
        reverse.learn(row)
    assert reverse.rows == [0, 2, 4, 6]


def test_a_preferred_ev_is_used_and_excuses_nothing():
    reverse = ReverseEvs(PROFILE)
    reverse.doubt(2)
    reverse.doubt(2)
    reverse.prefer(3)
    assert reverse.rows == [0, 4, 6]
    reverse.learn(3)
    reverse.prefer(1)
    assert reverse.rows == [1, 3, 4, 6]
    assert reverse.row == 1


def test_when_no_plane_answers_those_that_owe_least_carry_on():
    reverse = ReverseEvs(PROFILE)
    for row, silent in zip((0, 2, 4, 6), (9, 3, 3, 5), strict=True):
        for _ in range(silent):
            reverse.doubt(row)
    assert reverse.rows == [2, 4]


def test_silence_before_a_port_was_known_to_be_down_is_forgotten():
    reverse = ReverseEvs(PROFILE)
    reverse.doubt(0)
    reverse.doubt(0)
    reverse.on_planes(ports(0))
    assert reverse.rows == [2, 4, 6]
    reverse.on_planes(ports())
    assert reverse.rows == [0, 2, 4, 6]


@given(st.lists(st.tuples(st.sampled_from(["learn", "doubt", "prefer", "turn", "ports"]), st.integers(0, 7))))
def test_some_plane_whose_ports_are_up_always_has_the_turn(steps):
    reverse, down = ReverseEvs(PROFILE), set()
    for what, row in steps:
        if what == "ports":
            down ^= {int(PLANES[row])}
            reverse.on_planes(ports(*down))
        elif what == "turn":
            reverse.turn()
        else:
            getattr(reverse, what)(row)
        assert reverse.row in reverse.rows
        assert len(down) == 4 or int(PLANES[reverse.row]) not in down
