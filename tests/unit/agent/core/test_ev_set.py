import numpy as np
import pytest

from agent.core.config import EvConfig, LossPolicy, SprayPolicy
from agent.core.ev.ev_set import EvSet
from agent.core.ev.profile_sources import EvProfile
from agent.core.ev.spray_schedule import SpraySchedule
from agent.core.ev.state import EvSignal, EvState
from agent.core.events import EvStatesChanged
from agent.wire.constants import EcnVerdict

PLANES = np.repeat(np.arange(2, dtype=np.uint8), 8)
PROFILE = EvProfile(np.arange(16, dtype=np.uint32) + 100, PLANES)
PAPER = EvConfig(loss_policy=LossPolicy.PAPER, skip_ns=1000, min_active=2)


class Set:
    def __init__(self, config=PAPER, profile=PROFILE, policy=SprayPolicy.ROTATION):
        self.events = []
        self.profile = profile
        self.set = EvSet(
            config,
            profile,
            lambda planes: SpraySchedule(policy, 1, planes),
            np.random.default_rng(7),
            self.events.append,
        )

    def lose(self, *rows, now_ns=0):
        self.set.on_losses(np.array(rows, np.uint16), np.ones(len(rows), bool), now_ns)

    def deliver(self, *rows):
        self.set.on_arrivals(np.array(rows, np.uint16))

    def mark(self, *rows, verdict=EcnVerdict.SKIP_ONCE, now_ns=0):
        evs = self.profile.evs[list(rows)]
        self.set.on_verdicts(evs, np.full(len(evs), verdict, np.uint8), now_ns)

    def states(self, *rows):
        return [EvState(state) for state in self.set.states[list(rows)].tolist()]

    def taken(self, count, now_ns=0):
        return self.set.take(count, now_ns).tolist()


def with_backup(active=8, **changes):
    return Set(EvConfig(**{"loss_policy": LossPolicy.PAPER, "active": active, "min_active": 2, **changes}))


def test_while_all_is_good_the_selection_is_the_schedule():
    ours = Set()
    schedule = SpraySchedule(SprayPolicy.ROTATION, 1, PLANES)
    assert ours.taken(50) == schedule.run(0, 50).tolist()
    assert ours.taken(50) == schedule.run(50, 50).tolist()


def test_off_ignores_losses_and_marks():
    ours = Set(EvConfig())
    ours.lose(3, 3, 3)
    ours.mark(4, verdict=EcnVerdict.ALWAYS_SKIP)
    assert not ours.set.states.any()
    assert not ours.events


def test_one_loss_retires_an_ev_and_a_backup_of_its_plane_takes_over():
    ours = with_backup()
    active = np.flatnonzero(ours.set.active)
    failed = int(active[0])
    ours.lose(failed)
    (event,) = ours.events
    assert event == EvStatesChanged(0, (failed,), EvState.ASSUMED_BAD, EvSignal.LOST, event.replacement)
    assert PLANES[event.replacement] == PLANES[failed]
    assert event.replacement not in active
    assert np.bincount(PLANES[ours.set.active]).tolist() == [4, 4]
    counts = np.bincount(ours.taken(800), minlength=16)
    assert counts[failed] == 0
    assert counts[event.replacement] == 100


def test_without_backup_the_rest_of_the_plane_shares_the_load():
    ours = Set()
    ours.lose(0)
    counts = np.bincount(ours.taken(1600), minlength=16)
    assert counts[0] == 0
    assert counts[:8].sum() == counts[8:].sum() == 800


def test_the_threshold_counts_losses_in_a_window():
    ours = Set(EvConfig(loss_policy=LossPolicy.THRESHOLD, bad_after=3, bad_window_ns=1000))
    ours.deliver(*range(16))
    ours.lose(2, 2, now_ns=0)
    ours.lose(2, now_ns=2000)
    assert ours.states(2) == [EvState.GOOD]
    ours.lose(2, 2, now_ns=2500)
    assert ours.states(2) == [EvState.ASSUMED_BAD]


@pytest.mark.parametrize("policy", list(SprayPolicy))
def test_a_marked_ev_is_passed_over_once(policy):
    ours = Set(policy=policy)
    ours.mark(5)
    assert ours.states(5, 6) == [EvState.SKIP, EvState.GOOD]
    taken = ours.taken(63)
    assert len(taken) == 63
    assert ours.states(5) == [EvState.GOOD]
    assert ours.set.skips[5] == 1
    if policy is SprayPolicy.ROTATION:
        # It would have come once in each of four rotations; its first turn went by.
        assert taken.count(5) == 3
        assert ours.set.position == 64


def test_of_neighbours_in_skip_one_is_reset_for_each_packet_sent():
    ours = Set(EvConfig(loss_policy=LossPolicy.PAPER, skip_share=1.0, swap_after=0))
    order = ours.set.schedule.run(0, 16).tolist()
    ours.mark(order[1], order[2], order[3])
    assert ours.taken(2) == [order[0], order[4]]
    assert ours.states(order[1], order[2], order[3]) == [EvState.GOOD, EvState.SKIP, EvState.SKIP]


def test_when_all_are_skipped_the_one_just_reset_is_used():
    ours = Set(EvConfig(loss_policy=LossPolicy.PAPER, skip_share=1.0, swap_after=0, skip_ns=10**9))
    ours.mark(*range(16))
    first = ours.set.schedule.run(0, 1)[0]
    assert ours.taken(1) == [first]
    assert sum(state is EvState.GOOD for state in ours.states(*range(16))) == 1


def test_when_most_are_skipped_none_is_passed_over():
    ours = Set()
    ours.mark(*range(9))
    assert ours.taken(32) == SpraySchedule(SprayPolicy.ROTATION, 1, PLANES).run(0, 32).tolist()


def test_a_skip_ends_with_time():
    ours = Set()
    ours.mark(5, now_ns=0)
    assert 5 in ours.taken(16, now_ns=1000)


def test_an_ev_marked_again_and_again_is_swapped_for_a_backup():
    ours = with_backup(swap_after=3)
    row = int(np.flatnonzero(ours.set.active)[0])
    for now_ns in (0, 10, 20):
        ours.mark(row, now_ns=now_ns)
    assert not ours.set.active[row]
    assert np.bincount(PLANES[ours.set.active]).tolist() == [4, 4]


def test_the_floor_keeps_the_last_of_each_plane():
    ours = Set()
    for row in range(8):
        ours.lose(row, now_ns=row)
        ours.set.on_arrivals(np.arange(16, dtype=np.uint16))
    assert sum(state is EvState.GOOD for state in ours.states(*range(8))) == 1
    assert ours.set.floor_holds == 1


def test_the_floor_counts_all_active_ones():
    ours = Set(EvConfig(loss_policy=LossPolicy.PAPER, min_active=12))
    for row in (0, 8, 1, 9, 2, 10):
        ours.lose(row)
        ours.set.on_arrivals(np.arange(16, dtype=np.uint16))
    assert sum(state is EvState.GOOD for state in ours.states(*range(16))) == 12


def test_a_plane_in_which_nothing_arrives_leaves_whole_but_not_the_last():
    ours = Set()
    ours.lose(*range(8))
    assert ours.states(*range(8)) == [EvState.ASSUMED_BAD] * 8
    assert set(ours.taken(100)) <= set(range(8, 16))
    ours.lose(*range(8, 16))
    assert EvState.GOOD in ours.states(*range(8, 16))


def test_what_never_delivered_is_retired_by_the_losses_of_the_first_rotations_whenever_they_are_found():
    ours = Set(EvConfig(loss_policy=LossPolicy.THRESHOLD, bad_after=3, bad_window_ns=1000, start_rotations=2))
    ours.deliver(*(row for row in range(16) if row != 2))
    ours.lose(2, 4, now_ns=0)
    ours.lose(2, 4, now_ns=10**9)
    assert ours.states(2, 4) == [EvState.ASSUMED_BAD, EvState.GOOD]


def test_a_plane_that_never_spoke_leaves_with_its_first_rotations():
    planes = np.repeat(np.arange(2, dtype=np.uint8), 2)
    ours = Set(
        EvConfig(loss_policy=LossPolicy.THRESHOLD, plane_silent_after=8, start_rotations=2),
        EvProfile(np.arange(4, dtype=np.uint32), planes),
    )
    ours.deliver(2, 3)
    ours.lose(0, 1)
    assert ours.states(0, 1) == [EvState.GOOD] * 2
    ours.lose(0, 1, now_ns=10**9)
    assert ours.states(0, 1) == [EvState.ASSUMED_BAD] * 2, "the floor does not hold a plane that is dead"
    assert set(ours.taken(20)) == {2, 3}


def test_a_plane_that_spoke_is_given_more_losses_before_it_is_silent():
    planes = np.repeat(np.arange(2, dtype=np.uint8), 2)
    ours = Set(
        EvConfig(loss_policy=LossPolicy.THRESHOLD, bad_after=100, plane_silent_after=8),
        EvProfile(np.arange(4, dtype=np.uint32), planes),
    )
    ours.deliver(0, 2, 3)
    ours.lose(0, 0, 0, 0, 0, 0, 0)
    assert ours.states(0, 1) == [EvState.GOOD] * 2
    ours.lose(0)
    assert ours.states(0, 1) == [EvState.ASSUMED_BAD] * 2


def test_a_revived_ev_becomes_a_backup_unless_its_plane_has_a_vacancy():
    ours = with_backup()
    row = int(np.flatnonzero(ours.set.active)[0])
    ours.lose(row)
    ours.set.revive(row, False, 5)
    assert ours.states(row) == [EvState.GOOD]
    assert not ours.set.active[row]
    alone = Set()
    alone.lose(3)
    alone.set.revive(3, False, 5)
    assert alone.set.active[3]
    assert alone.taken(16).count(3) == 1


def test_a_port_down_takes_its_plane_out_and_back_without_touching_states():
    ours = Set()
    up = np.ones(256, bool)
    up[1] = False
    ours.set.on_local_ports(up, 0)
    assert set(ours.taken(64)) <= set(range(8))
    assert not ours.set.states.any()
    ours.set.on_local_ports(np.ones(256, bool), 10)
    assert np.bincount(ours.taken(160), minlength=16)[8:].sum() == 80
    ours.set.on_remote_ports(~np.ones(256, bool), 20)
    assert not ours.set.sendable


def test_losses_of_a_falling_port_are_forgiven_when_it_returns():
    ours = Set()
    ours.lose(8, 9, now_ns=100)
    up = np.ones(256, bool)
    up[1] = False
    ours.set.on_remote_ports(up, 200)
    ours.lose(10, now_ns=300)
    assert ours.states(8, 9, 10) == [EvState.ASSUMED_BAD, EvState.ASSUMED_BAD, EvState.GOOD]
    ours.set.on_remote_ports(np.ones(256, bool), 5000)
    assert ours.states(8, 9) == [EvState.GOOD, EvState.GOOD]


def test_denial_replaces_and_only_allowing_brings_back():
    ours = with_backup()
    row = int(np.flatnonzero(ours.set.active)[0])
    ours.set.deny(np.array([row]), 0)
    assert ours.states(row) == [EvState.DENIED]
    assert not ours.set.active[row]
    ours.set.revive(row, False, 1)
    assert ours.states(row) == [EvState.DENIED]
    ours.set.allow(np.array([row]), 2)
    assert ours.states(row) == [EvState.GOOD]


def test_another_ev_stays_in_the_plane_until_the_plane_is_in_doubt():
    ours = Set()
    failed = np.full(200, 2, np.uint16)
    others = ours.set.other_than(failed)
    assert (PLANES[others] == 0).all()
    assert 2 not in others
    ours.lose(2, 3)
    assert (PLANES[ours.set.other_than(failed)] == 1).all()
    ours.set.on_arrivals(np.array([4], np.uint16))
    again = ours.set.other_than(failed)
    assert (PLANES[again] == 0).all()
    assert not {2, 3} & set(again.tolist())


@pytest.mark.parametrize("policy", [LossPolicy.OFF, LossPolicy.PAPER])
@pytest.mark.parametrize("bad", [(), (1,), (5, 6)])
def test_a_resend_never_takes_a_copy_of_the_value_that_failed(policy, bad):
    """A profile of the API may hold a value several times (EXP): they are one path."""
    evs = np.array([7, 1, 7, 2, 7, 3, 101, 102, 101, 102], np.uint32)
    ours = Set(EvConfig(loss_policy=policy, min_active=1), EvProfile(evs, (evs > 100).astype(np.uint8)))
    ours.set.deny(np.array(bad, np.int64), 0)
    failed = np.arange(10, dtype=np.uint16).repeat(600)
    others = ours.set.other_than(failed)
    assert not (evs[others] == evs[failed]).any()
    assert np.array_equal(evs[others] > 100, evs[failed] > 100), "in its plane"
    assert not np.isin(others, bad).any()
    counts = np.bincount(others[failed == 0], minlength=10)
    allowed = [row for row in (1, 3, 5) if row not in bad]
    assert (abs(counts[allowed] - 600 / len(allowed)) < 100).all(), "all others alike"


def test_a_resend_leaves_a_plane_that_has_only_copies_of_what_failed():
    evs = np.array([7, 7, 7, 101, 102], np.uint32)
    ours = Set(EvConfig(), EvProfile(evs, (evs > 100).astype(np.uint8)))
    assert set(ours.set.other_than(np.zeros(50, np.uint16)).tolist()) == {3, 4}
    alone = Set(EvConfig(), EvProfile(evs[:3], np.zeros(3, np.uint8)))
    assert set(alone.set.other_than(np.zeros(50, np.uint16)).tolist()) == {0}


def test_a_resend_avoids_silent_rows_and_leaves_a_silent_plane():
    ours = Set()
    silent = np.zeros(16, bool)
    silent[[3, 4]] = True
    others = ours.set.other_than(np.full(200, 2, np.uint16), silent)
    assert set(others.tolist()) == {0, 1, 5, 6, 7}
    assert (ours.set.other_than(np.full(200, 2, np.uint16), PLANES == 0) >= 8).all()


def test_a_loss_speaks_against_all_copies_of_its_value():
    evs = np.array([7, 1, 7, 2, 101, 102, 101, 103], np.uint32)
    config = EvConfig(loss_policy=LossPolicy.THRESHOLD, bad_after=2, min_active=1)
    ours = Set(config, EvProfile(evs, (evs > 100).astype(np.uint8)))
    ours.set.on_arrivals(np.arange(8, dtype=np.uint16))
    ours.lose(0)
    assert EvState.ASSUMED_BAD not in ours.states(*range(8))
    ours.lose(2)
    assert [row for row in range(8) if ours.states(row) == [EvState.ASSUMED_BAD]] == [0, 2]


@pytest.mark.parametrize(("floor", "left"), [(12, 12), (10, 10), (4, 4), (None, 4), (1, 4)])
def test_silent_planes_never_leave_fewer_than_the_floor_in_use(floor, left):
    """MRC 4.4: active EVs never fall below ev_min_active; the plane that is left keeps its own."""
    planes = np.repeat(np.arange(4, dtype=np.uint8), 4)
    config = EvConfig(loss_policy=LossPolicy.PAPER, min_active=floor, plane_silent_after=8)
    ours = Set(config, EvProfile(np.arange(16, dtype=np.uint32), planes))
    ours.set.on_arrivals(np.arange(16, dtype=np.uint16))
    for plane in range(3):
        ours.set.on_losses(np.repeat(np.arange(4, dtype=np.uint16) + 4 * plane, 2), np.ones(8, bool), 0)
    states = ours.set.states
    assert int((states <= EvState.SKIP).sum()) == left
    assert (states[12:] == EvState.GOOD).all()


@pytest.mark.parametrize("seed", range(20))
def test_planes_stay_equal_whatever_evs_do(seed):
    rng = np.random.default_rng(seed)
    ours = Set(EvConfig(loss_policy=LossPolicy.PAPER, active=8, skip_ns=10**9))
    taken = []
    for now_ns in range(60):
        kind, row = rng.integers(4), int(rng.integers(16))
        if kind == 0:
            ours.lose(row, now_ns=now_ns)
        elif kind == 1:
            ours.mark(row, now_ns=now_ns)
        elif kind == 2:
            ours.set.revive(row, False, now_ns)
        ours.set.on_arrivals(np.arange(16, dtype=np.uint16))
        batch = ours.taken(int(rng.integers(1, 40)), now_ns)
        assert all(ours.set.active[row] for row in batch)
        taken += batch
    per_plane = np.bincount(PLANES[taken])
    assert abs(int(per_plane[0]) - int(per_plane[1])) <= 0.1 * len(taken)
