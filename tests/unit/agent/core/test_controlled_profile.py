"""The life of an EV profile: every state against every act, and what operations do to entries and queue pairs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.errors import ConfigError, ProfileStateError
from agent.core.ev.controlled_profile import ControlledProfile, ProfilePaths
from agent.core.ev.profile_life_cycle import (
    ALLOWED,
    ALLOWED_IF_CAPABLE,
    TRANSITIONS,
    Act,
    ApiEvState,
    Attributes,
    BatchResult,
    Entry,
    EvFormat,
    EvMode,
    OpStatus,
    ProfileState,
    Replacement,
)
from agent.core.ev.profile_sources import GenField
from agent.core.ev.state import EvState

INIT, OFFLINE, ONLINE = ProfileState
GOOD, BAD, DENIED, UNKNOWN = ApiEvState
ALL_GOOD = frozenset({GOOD, BAD})
GEN_FIELDS = (GenField(24, 0), GenField(8, 0, mask=0x13, max=7))
"""Planes 0 and 1 in bit 4, four values in each."""


def plane_of(ev: int) -> int:
    """Values 0xP0..0xP7 name paths of plane P of two."""
    if ev >> 4 > 1 or ev & 0xF > 7:
        raise ConfigError((f"{ev:#x} names no path",))
    return ev >> 4


def fresh(modify_online: bool = False) -> ControlledProfile:
    candidates = np.array([plane << 4 | turn for plane in (0, 1) for turn in range(8)], np.uint32)
    return ControlledProfile(ProfilePaths(candidates, plane_of), np.random.default_rng(1), modify_online)


def exp(*evs: int, online: bool = True, modify_online: bool = False) -> ControlledProfile:
    profile = fresh(modify_online)
    profile.set(Attributes(EvMode.EXP, EvFormat.SRV6, len(evs), None, 1, ALL_GOOD), 0)
    profile.go(OFFLINE)
    profile.replace([Replacement(None, ev) for ev in evs], 0)
    if online:
        profile.go(ONLINE)
    return profile


class User:
    """A queue pair as far as a profile sees one."""

    def __init__(self, profile: ControlledProfile) -> None:
        self.evs = profile.profile().evs.tolist()
        self.states = np.zeros(len(self.evs), np.uint8)
        self.reported: frozenset[EvState] = frozenset()

    def set_evs(self, rows, state, now_ns):
        self.states[rows] = state

    def replace_ev(self, row, ev, state, now_ns):
        self.evs[row], self.states[row] = ev, state

    def ev_states(self):
        return self.states.copy(), np.ones(len(self.states), bool)

    def report_evs(self, states):
        self.reported = states


def joined(profile: ControlledProfile) -> User:
    user = User(profile)
    profile.join(user, 0)
    return user


def in_state(state: ProfileState, modify_online: bool) -> ControlledProfile:
    profile = fresh(modify_online)
    profile.set(Attributes(EvMode.GEN, EvFormat.SRV6, 4, GEN_FIELDS, 1, ALL_GOOD), 0)
    for step in {INIT: (), OFFLINE: (OFFLINE,), ONLINE: (OFFLINE, ONLINE)}[state]:
        profile.go(step)
    return profile


ACTS = {
    Act.SET_SHAPE: lambda profile: profile.set(Attributes(count=4), 0),
    Act.SET_FIELDS: lambda profile: profile.set(Attributes(fields=GEN_FIELDS), 0),
    Act.SET_MIN_ACTIVE: lambda profile: profile.set(Attributes(min_active=2), 0),
    Act.SET_EVENT_MASK: lambda profile: profile.set(Attributes(event_mask=frozenset({BAD})), 0),
    Act.REPLACE_EV: lambda profile: profile.replace([], 0),
    Act.MODIFY_EV_STATE: lambda profile: profile.modify([], 0),
    Act.QUERY: lambda profile: profile.query_array(),
    Act.USE: lambda profile: profile.profile(),
}


@pytest.mark.parametrize("capable", [False, True])
@pytest.mark.parametrize("act", list(Act))
@pytest.mark.parametrize("state", list(ProfileState))
def test_every_state_allows_and_forbids_as_the_table_says(state, act, capable):
    profile = in_state(state, capable)
    if act in ALLOWED[state] | (ALLOWED_IF_CAPABLE if capable and state is ONLINE else frozenset()):
        ACTS[act](profile)
    else:
        with pytest.raises(ProfileStateError, match=f"EV profile is in {state.value}.*{act.value}"):
            ACTS[act](profile)


@pytest.mark.parametrize("to", list(ProfileState))
@pytest.mark.parametrize("state", list(ProfileState))
def test_only_the_next_state_up_or_down_may_follow(state, to):
    allowed = {(INIT, OFFLINE), (OFFLINE, ONLINE), (ONLINE, OFFLINE), (OFFLINE, INIT)}
    profile = in_state(state, modify_online=False)
    if (state, to) in allowed:
        profile.go(to)
        assert profile.state is to
    else:
        with pytest.raises(ProfileStateError):
            profile.go(to)
    assert {(a, b) for a, following in TRANSITIONS.items() for b in following} == allowed


def test_what_is_missing_is_told_all_at_once():
    with pytest.raises(ConfigError) as error:
        fresh().go(OFFLINE)
    assert [text.split(":")[0] for text in error.value.problems] == ["mode", "format", "count"]
    profile = fresh()
    profile.set(Attributes(EvMode.EXP, EvFormat.SRV6, 3), 0)
    profile.go(OFFLINE)
    profile.replace([Replacement(None, 1)], 0)
    with pytest.raises(ConfigError) as error:
        profile.go(ONLINE)
    assert [text.split(":")[0] for text in error.value.problems] == [
        "min_active",
        "event_mask",
        "values for 2 of 3 entries",
    ]
    generated = fresh()
    generated.set(Attributes(EvMode.GEN, EvFormat.SRV6, 3), 0)
    with pytest.raises(ConfigError, match="fields"):
        generated.go(OFFLINE)


def test_impossible_attributes_are_refused_and_change_nothing():
    profile = fresh()
    with pytest.raises(ConfigError) as error:
        profile.set(Attributes(count=0, min_active=0, event_mask=frozenset({DENIED})), 0)
    assert len(error.value.problems) == 3
    with pytest.raises(ConfigError, match="no more than count"):
        profile.set(Attributes(count=4, min_active=5), 0)
    assert profile.attributes == Attributes()


def test_the_three_modes_fill_their_entries():
    auto = fresh()
    auto.set(Attributes(EvMode.AUTO, EvFormat.SRV6, 6, None, 2, ALL_GOOD), 0)
    auto.go(OFFLINE)
    auto.go(ONLINE)
    assert np.bincount(auto.profile().planes).tolist() == [3, 3]
    assert in_state(ONLINE, False).profile().evs.tolist() == [0, 1, 2, 3]
    assert exp(0x10, 0x02).profile().planes.tolist() == [1, 0]


def test_going_back_to_init_forgets_everything():
    profile = exp(1, 2, online=False)
    profile.go(INIT)
    assert profile.attributes == Attributes()


def test_a_profile_in_use_stays_online():
    profile = exp(1, 2)
    user = joined(profile)
    with pytest.raises(ProfileStateError, match="in use"):
        profile.go(OFFLINE)
    profile.leave(user)
    profile.go(OFFLINE)


def test_an_operation_stops_at_its_first_error_and_keeps_what_it_did():
    profile = exp(1, 2, 3, online=False)
    wanted = [Replacement(1, 4), Replacement(9, 5), Replacement(2, 6)]
    assert profile.replace(wanted, 0) == BatchResult(1, OpStatus.NO_SUCH_EV)
    assert [entry.ev for entry in profile.query_array()] == [4, 2, 3]
    assert profile.replace([Replacement(2, 5), Replacement(3, 0x99)], 0) == BatchResult(1, OpStatus.NO_PATH)
    assert profile.replace([Replacement(3, 6, UNKNOWN)], 0) == BatchResult(0, OpStatus.BAD_STATE)
    assert profile.modify([(5, DENIED), (77, GOOD)], 0) == BatchResult(1, OpStatus.NO_SUCH_EV)
    assert profile.modify([(5, UNKNOWN)], 0) == BatchResult(0, OpStatus.BAD_STATE)
    assert profile.query([4, 5, 77, 3]) == (BatchResult(2, OpStatus.NO_SUCH_EV), [GOOD, DENIED])


def test_copies_are_changed_one_or_all():
    profile = exp(1, 1, 2, 1, online=False)
    profile.replace([Replacement(1, 3)], 0)
    assert [entry.ev for entry in profile.query_array()] == [3, 1, 2, 1]
    profile.modify([(1, DENIED)], 0, all_copies=True)
    assert [entry.state for entry in profile.query_array()] == [GOOD, DENIED, GOOD, DENIED]
    profile.modify([(1, GOOD)], 0)
    assert profile.query([1], all_copies=True)[1] == [UNKNOWN], "the copies differ"
    profile.replace([Replacement(1, 7, BAD)], 0, all_copies=True)
    assert profile.query_array()[1:] == [Entry(7, 0, BAD), Entry(2, 0, GOOD), Entry(7, 0, BAD)]


def test_an_entry_nobody_filled_is_unknown():
    profile = fresh()
    profile.set(Attributes(EvMode.EXP, EvFormat.SRV6, 2), 0)
    profile.go(OFFLINE)
    profile.replace([Replacement(None, 0x11)], 0)
    assert profile.query_array() == [Entry(0x11, 1, GOOD), Entry(None, None, UNKNOWN)]
    assert profile.query([0])[0].status is OpStatus.NO_SUCH_EV, "an empty entry holds no value"


def test_what_a_controller_sets_reaches_all_queue_pairs_and_those_to_come():
    profile = exp(1, 2, 0x11)
    first, second = joined(profile), joined(profile)
    profile.modify([(2, DENIED)], 5)
    third = joined(profile)
    assert [user.states.tolist() for user in (first, second, third)] == [[0, EvState.DENIED, 0]] * 3


def test_what_one_queue_pair_found_out_is_its_own_and_the_answer_is_unknown():
    profile = exp(1, 2)
    first, second = joined(profile), joined(profile)
    first.states[1] = EvState.ASSUMED_BAD
    second.states[0] = EvState.SKIP
    assert profile.query([1, 2])[1] == [GOOD, UNKNOWN], "congestion shows as GOOD"
    second.states[1] = EvState.ASSUMED_BAD
    assert profile.query([2])[1] == [BAD]


def test_online_an_ev_is_replaced_within_its_plane_only():
    profile = exp(1, 2, modify_online=True)
    user = joined(profile)
    assert profile.replace([Replacement(1, 0x11)], 0) == BatchResult(0, OpStatus.OTHER_PLANE)
    assert profile.replace([Replacement(1, 5, DENIED)], 0) == BatchResult(1, OpStatus.DONE)
    assert (user.evs, user.states.tolist()) == ([5, 2], [EvState.DENIED, 0])


def test_online_fields_replace_what_they_generate_otherwise():
    profile = in_state(ONLINE, modify_online=True)
    user = joined(profile)
    profile.set(Attributes(fields=(GenField(24, 0), GenField(8, 4, mask=0x13, max=7))), 0)
    assert user.evs == [4, 5, 6, 7]
    with pytest.raises(ConfigError, match="another plane"):
        profile.set(Attributes(fields=(GenField(24, 0), GenField(8, 0x10, mask=0x3, max=3))), 0)
    assert user.evs == [4, 5, 6, 7]
    assert profile.attributes.fields[1].init_val == 4


def test_the_event_mask_reaches_queue_pairs_at_once():
    profile = exp(1, modify_online=True)
    user = joined(profile)
    assert user.reported == {EvState.GOOD, EvState.ASSUMED_BAD}
    profile.set(Attributes(event_mask=frozenset({BAD})), 0)
    assert user.reported == {EvState.ASSUMED_BAD}


STEPS = {
    "replace": lambda profile, ev, new, state, copies: profile.replace([Replacement(ev, new, state)], 0, copies),
    "modify": lambda profile, ev, new, state, copies: profile.modify([(ev, state)], 0, copies),
    "join": lambda profile, *_: joined(profile),
    "leave": lambda profile, *_: [profile.leave(user) for user in profile.users[:1]],
    "down": lambda profile, *_: profile.go(OFFLINE),
    "up": lambda profile, *_: profile.go(ONLINE),
}
VALUES = st.integers(0, 40)
WALK = st.lists(st.tuples(st.sampled_from(sorted(STEPS)), VALUES, VALUES, st.sampled_from(ApiEvState), st.booleans()))


@given(WALK)
def test_queue_pairs_always_have_what_the_profile_says(steps):
    """Whatever a controller does: entries and users agree, planes of users stay, what is refused changes no state."""
    profile = exp(0, 1, 1, 0x10, 0x11, 0x11, modify_online=True)
    planes = profile.profile().planes.tolist()
    for what, *how in steps:
        before = profile.state
        try:
            STEPS[what](profile, *how)
        except ProfileStateError:
            assert profile.state is before
        entries = profile.query_array()
        planes = planes if profile.users else [entry.plane for entry in entries]
        assert [entry.plane for entry in entries] == planes == [plane_of(entry.ev) for entry in entries]
        for user in profile.users:
            assert user.evs == [entry.ev for entry in entries]
            assert profile.state is ONLINE
