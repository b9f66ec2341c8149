"""Equal shares while some paths are denied, by the sender's own selection of entropy values: L4, over many seeds."""

import numpy as np
import pytest
from scipy.stats import binom

from agent.core.config import EvConfig, SprayPolicy
from agent.core.ev.ev_set import EvSet
from agent.core.ev.profile_sources import EvProfile
from agent.core.ev.spray_schedule import SpraySchedule
from agent.spraycheck.statistics.calibration import FlowShape, calibrate
from agent.spraycheck.statistics.uniform import judge, plan_test
from agent.spraycheck.statistics.verdicts import Requirements, Verdict
from agent.wire.constants import SprayPolicyCode

PLANES, SPINES = 2, 8


def counts_of(policy: SprayPolicy, seed: int, packets: int, denied: tuple[int, ...], copies: int = 1) -> np.ndarray:
    """First transmissions by plane and spine of a flow somewhere in a schedule, `(planes, spines)`."""
    rng = np.random.default_rng(seed)
    planes = np.repeat(np.arange(PLANES, dtype=np.uint8), SPINES * copies)
    spines = np.tile(np.repeat(np.arange(SPINES), copies), PLANES)
    profile = EvProfile(np.arange(len(planes), dtype=np.uint32), planes)
    ev_set = EvSet(EvConfig(), profile, lambda seats: SpraySchedule(policy, seed, seats), rng, lambda _: None)
    ev_set.deny(np.flatnonzero((planes == 0) & np.isin(spines, denied)), 0)
    ev_set.take(int(rng.integers(1, 1000)), 0)
    rows = np.concatenate([ev_set.take(min(256, packets - at), 0) for at in range(0, packets, 256)])
    return np.bincount(planes[rows] * SPINES + spines[rows], minlength=PLANES * SPINES).reshape(PLANES, SPINES)


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("denied", [(3,), (0, 5), (1, 2, 6, 7)])
def test_under_rotation_what_is_left_stays_equal_up_to_the_stated_ends(denied: tuple[int, ...], copies: int) -> None:
    used = [spine for spine in range(SPINES) if spine not in denied]
    for seed in range(60):
        counts = counts_of(SprayPolicy.ROTATION, seed, 6000, denied, copies)
        assert counts[0, list(denied)].sum() == 0
        packets = int(counts[0].sum())
        shape = FlowShape(SprayPolicyCode.ROTATION, packets, len(used), copies, vacant=len(denied))
        ends = calibrate(shape, 1e-3).end_effect_pkts
        assert np.abs(counts[0, used] - shape.expected).max() <= ends
        assert np.abs(counts[1] - counts[1].sum() / SPINES).max() <= 2 * copies, "the other plane sees nothing of it"


@pytest.mark.parametrize("policy", list(SprayPolicy))
def test_healthy_flows_over_the_paths_left_are_flagged_no_more_than_allowed(policy: SprayPolicy) -> None:
    required, alarms, flows = Requirements(0.05, false_alarm=0.02), 0, 400
    for seed in range(flows):
        counts = counts_of(policy, seed, 16_000, (3,))[0]
        shape = FlowShape(policy.code, int(counts.sum()), SPINES - 1, vacant=1)
        verdicts = judge(plan_test(shape, required), np.delete(counts, 3))
        alarms += any(each.verdict is Verdict.FAILED for each in verdicts)
    assert alarms <= (0 if policy is SprayPolicy.ROTATION else binom.ppf(1 - 1e-4, flows, required.false_alarm))


def test_a_lossy_path_among_those_left_is_missed_no_more_than_allowed() -> None:
    required, missed, flows = Requirements(0.02, miss=0.01), 0, 500
    for seed in range(flows):
        counts = np.delete(counts_of(SprayPolicy.ROTATION, seed, 32_000, (3,))[0], 3)
        test = plan_test(FlowShape(SprayPolicyCode.ROTATION, int(counts.sum()), SPINES - 1, vacant=1), required)
        assert test.weakness is None
        counts[2] -= np.random.default_rng(seed).binomial(counts[2], 0.02)
        missed += judge(test, counts)[2].verdict is not Verdict.FAILED
    assert missed <= binom.ppf(1 - 1e-4, flows, required.miss)
