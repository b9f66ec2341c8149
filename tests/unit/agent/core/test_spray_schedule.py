import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.core.config import SprayPolicy
from agent.core.ev.spray_schedule import SpraySchedule

POLICIES = list(SprayPolicy)
PLANES = st.lists(st.integers(0, 15), min_size=1, max_size=300).map(lambda p: np.array(p, np.uint8))
EQUAL = st.tuples(st.integers(1, 8), st.integers(1, 64)).map(lambda t: np.tile(np.arange(t[0], dtype=np.uint8), t[1]))
START, COUNT = st.integers(0, 20_000), st.integers(0, 12_000)


@settings(max_examples=60)
@given(st.sampled_from(POLICIES), PLANES, st.integers(0, 2**32), START, COUNT)
def test_the_schedule_is_a_pure_function_of_the_index(policy, planes, seed, start, count):
    one, two = (SpraySchedule(policy, seed, planes) for _ in range(2))
    rows = one.run(start, count)
    assert rows.dtype == np.uint16
    assert len(rows) == count
    assert (rows < len(planes)).all()
    indices = np.random.default_rng(seed).permutation(np.arange(start, start + count))[:500]
    assert np.array_equal(two.evs(indices), rows[indices - start])
    assert np.array_equal(two.run(start + count // 3, count - count // 3), rows[count // 3 :])


@settings(max_examples=60)
@given(st.sampled_from(POLICIES), PLANES, st.integers(0, 99), START, COUNT)
def test_planes_are_counted_ahead(policy, planes, seed, start, count):
    schedule = SpraySchedule(policy, seed, planes)
    went_to = planes[schedule.run(start, count)]
    counts = schedule.count_per_plane(start, count)
    last = schedule.last_index_per_plane(start, count)
    assert counts == {int(p): int((went_to == p).sum()) for p in np.unique(planes)}
    assert last == {int(p): start + int(np.flatnonzero(went_to == p)[-1]) for p in np.unique(went_to)}


@settings(max_examples=60)
@given(st.sampled_from(POLICIES), EQUAL, st.integers(0, 99), START, COUNT)
def test_planes_take_turns_so_any_stretch_is_equal_among_them(policy, planes, seed, start, count):
    counts = SpraySchedule(policy, seed, planes).count_per_plane(start, count).values()
    # Within an order or block turns are strict; where it changes, a stretch may meet one plane twice in a row.
    assert max(counts) - min(counts) <= 2
    assert sum(counts) == count


@settings(max_examples=40)
@given(PLANES, st.integers(0, 99), st.integers(0, 50), st.integers(1, 20))
def test_every_rotation_holds_every_ev_once(planes, seed, rotation, rotations_per_order):
    schedule = SpraySchedule(SprayPolicy.ROTATION, seed, planes, rotations_per_order)
    rows = schedule.run(rotation * len(planes), len(planes))
    assert sorted(rows.tolist()) == list(range(len(planes)))


def test_the_order_is_redrawn_after_its_rotations():
    planes = np.repeat(np.arange(4, dtype=np.uint8), 16)
    rows = SpraySchedule(SprayPolicy.ROTATION, 1, planes, 3).run(0, 64 * 300).reshape(-1, 64)
    same = [np.array_equal(a, b) for a, b in itertools.pairwise(rows)]
    assert same == [i % 3 != 2 for i in range(299)]


def test_random_is_uniform_inside_a_plane():
    planes = np.repeat(np.arange(2, dtype=np.uint8), 8)
    counts = np.bincount(SpraySchedule(SprayPolicy.RANDOM, 3, planes).run(0, 160_000), minlength=16)
    # 10 000 expected with a deviation of 94 each; consecutive draws are independent, unlike a rotation's.
    assert (abs(counts - 10_000) < 5 * 94).all()
    assert counts.std() > 20


@pytest.mark.parametrize("policy", POLICIES)
def test_seeds_give_different_schedules(policy):
    planes = np.repeat(np.arange(2, dtype=np.uint8), 8)
    assert not np.array_equal(SpraySchedule(policy, 1, planes).run(0, 64), SpraySchedule(policy, 2, planes).run(0, 64))


def test_a_block_of_the_past_is_the_same_when_drawn_again():
    schedule = SpraySchedule(SprayPolicy.RANDOM, 1, np.zeros(8, np.uint8))
    first = schedule.run(0, 100).copy()
    schedule.run(10**6, 100_000)
    assert np.array_equal(schedule.run(0, 100), first)
