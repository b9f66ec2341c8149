"""The calibrated end effect holds for the sender's real schedule, wherever a measured run begins."""

import numpy as np
import pytest

from agent.core.config import SprayPolicy
from agent.core.ev.spray_schedule import SpraySchedule
from agent.spraycheck.statistics.calibration import ROTATION_ENDS, FlowShape, calibrate
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
