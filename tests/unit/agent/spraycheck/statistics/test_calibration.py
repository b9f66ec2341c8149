"""Calibration by policy and by healthy counts."""

import numpy as np
import pytest

from agent.core.config import SprayPolicy
from agent.core.ev.spray_schedule import SpraySchedule
from agent.spraycheck.statistics.calibration import ROTATION_ENDS, FlowShape, Healthy, calibrate, measured_s
from agent.wire.constants import SprayPolicyCode


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize(("planes", "spines"), [(1, 4), (2, 8), (3, 5)])
def test_counts_of_the_real_rotation_stay_within_the_end_effect(planes, spines, copies):
    evs = [(plane, spine) for plane in range(planes) for spine in range(spines) for _ in range(copies)]
    plane_of, spine_of = (np.array(column) for column in zip(*evs, strict=True))
    rng = np.random.default_rng(7)
    for seed in range(20):
        schedule = SpraySchedule(SprayPolicy.ROTATION, seed, plane_of.astype(np.uint8))
        start, count = (int(value) for value in rng.integers(1, 20_000, 2))
        rows = schedule.run(start, count)
        for plane in range(planes):
            here = rows[plane_of[rows] == plane]
            counts = np.bincount(spine_of[here], minlength=spines)
            expected = FlowShape(SprayPolicyCode.ROTATION, len(here), spines, copies).expected
            assert np.abs(counts - expected).max() <= ROTATION_ENDS * copies


def test_s_of_random_grows_slowly_with_the_number_of_paths():
    """The price of testing every path: alarm/k in each tail, not alarm."""
    few, many = (calibrate(FlowShape(SprayPolicyCode.RANDOM, k * 100_000, k), 1e-3).s for k in (2, 64))
    assert 2 < few < many < 5


PER_PATH, PATHS = 20_000, 8


def random_counts(flows, seed=1):
    return np.random.default_rng(seed).multinomial(PER_PATH * PATHS, np.full(PATHS, 1 / PATHS), size=flows)


def healthy_of(counts):
    """Deficits of healthy flows with equal N, `(flows, k)`."""
    expected = counts.sum(axis=1, keepdims=True) / PATHS
    deficits = (expected - counts) / np.sqrt(expected)
    return Healthy(PATHS, deficits.max(axis=1), float(np.mean(deficits**2)))


def test_random_spraying_has_the_variance_it_must_have_and_the_s_it_is_given():
    measured = measured_s(healthy_of(random_counts(400)), 1e-3)
    assert measured.dispersion == pytest.approx(1 - 1 / PATHS, rel=0.08)
    given = calibrate(FlowShape(SprayPolicyCode.RANDOM, PER_PATH * PATHS, PATHS), 1e-3).s
    assert measured.s == pytest.approx(given, rel=0.05)


def test_the_measured_s_raises_false_alarms_as_rarely_as_asked():
    measured = measured_s(healthy_of(random_counts(2000)), 0.02)
    fresh = healthy_of(random_counts(4000, seed=2))
    assert (fresh.largest > measured.s).mean() <= 0.02


def test_a_policy_of_less_variance_gets_a_smaller_s():
    rng = np.random.default_rng(3)
    steps = rng.integers(-10, 11, (400, PATHS))
    tight = PER_PATH + steps - np.roll(steps, 1, axis=1)  # equal sums, a variance far below λ
    measured = measured_s(healthy_of(tight), 1e-3)
    assert measured.dispersion < 0.01
    assert measured.s < 0.4


def test_no_healthy_path_that_was_seen_is_flagged_and_the_bound_is_that_of_none_of_n():
    odd = Healthy(8, np.array([0.1, 0.2, 9.0]), 0.01)
    measured = measured_s(odd, 1e-3)
    assert measured.s > 9.0
    assert measured.false_alarm_bound == pytest.approx(1 - 0.05 ** (1 / 3))
    with pytest.raises(ValueError, match="no healthy flow"):
        measured_s(Healthy(8, np.array([]), 0.0), 1e-3)
