"""What the paper says of the statistics (S1 to S8), each item over many seeds, within exact bounds.

S6, small flows added up, is in test_pair_sums.py; S4's false alarms and misses flow by flow in test_uniform.py.
"""

from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, chi2, norm

from agent.core.config import SprayPolicy
from agent.core.ev.spray_schedule import SpraySchedule
from agent.spraycheck.statistics.calibration import ROTATION_ENDS, FlowShape
from agent.spraycheck.statistics.uniform import judge, plan_test, uniform_packets_needed
from agent.spraycheck.statistics.verdicts import Requirements, Verdict
from agent.wire.constants import SprayPolicyCode
from scenarios.study.simulate import sent_by_path

POLICIES = list(SprayPolicy)
SURE = 1 - 1e-5
"""Of each bound here."""


@cache
def scheduled(policy: SprayPolicy, spines: int, per_path: int, flows: int) -> NDArray[np.int64]:
    """First transmissions of healthy flows as the sender's own schedule gives them out, `(flows, spines)`."""
    plane, packets, sent = np.zeros(spines, np.uint8), per_path * spines, np.empty((flows, spines), np.int64)
    for seed in range(flows):
        sent[seed] = np.bincount(SpraySchedule(policy, seed, plane).run(7919 * seed, packets), minlength=spines)
    sent.flags.writeable = False
    return sent


@cache
def flows_of(policy: SprayPolicy, spines: int, per_path: int, flows: int, seed: int = 1) -> NDArray[np.int64]:
    """The same for more or longer flows, drawn with the schedule's distribution (`test_simulate.py` compares them)."""
    rng = np.random.default_rng(seed)
    sent = np.array([sent_by_path(policy, 1, spines, per_path * spines, rng)[0] for _ in range(flows)])
    sent.flags.writeable = False
    return sent


def dropped(sent: NDArray[np.int64], rate: float, seed: int = 2) -> NDArray[np.int64]:
    """What arrives if the path over spine 0 drops packets, `(flows, spines)`."""
    rng, arrived = np.random.default_rng(seed), sent.copy()
    arrived[:, 0] = rng.binomial(sent[:, 0], 1 - rate)
    return arrived


@pytest.mark.parametrize("policy", POLICIES)
def test_s1_the_mean_of_a_healthy_path_is_n_over_k(policy: SprayPolicy) -> None:
    flows, per_path, spines = 2000, 2000, 8
    sent = scheduled(policy, spines, per_path, flows)
    assert (sent.sum(axis=1) == per_path * spines).all()
    deviation = np.sqrt(per_path * (1 - 1 / spines)) if policy is SprayPolicy.RANDOM else ROTATION_ENDS
    assert np.abs(sent.mean(axis=0) - per_path).max() <= norm.ppf(SURE) * deviation / np.sqrt(flows)


def test_s2_the_variance_is_binomial_under_random_spraying_and_next_to_none_under_rotation() -> None:
    flows, per_path, spines = 2000, 2000, 8
    random = scheduled(SprayPolicy.RANDOM, spines, per_path, flows)
    squares = ((random - per_path) ** 2 / (per_path * (1 - 1 / spines))).sum(axis=0)
    assert (squares >= chi2.ppf(1 - SURE, flows)).all()
    assert (squares <= chi2.ppf(SURE, flows)).all()
    rotation = scheduled(SprayPolicy.ROTATION, spines, per_path, flows)
    assert np.abs(rotation - per_path).max() <= ROTATION_ENDS
    assert rotation.var() < 0.001 * random.var()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("rate", [0.005, 0.01, 0.015])
def test_s3_a_drop_rate_lowers_the_mean_by_its_share(policy: SprayPolicy, rate: float) -> None:
    flows, per_path, spines = 2000, 2000, 8
    arrived = dropped(scheduled(policy, spines, per_path, flows), rate)
    spread = per_path * rate * (1 - rate) + (per_path if policy is SprayPolicy.RANDOM else ROTATION_ENDS**2)
    deficit = per_path - arrived[:, 0].mean()
    assert abs(deficit - rate * per_path) <= norm.ppf(SURE) * np.sqrt(spread / flows)


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_s4_what_is_flagged_is_what_lies_below_the_threshold(policy: SprayPolicy) -> None:
    """t = λ − s·√λ splits healthy from failed counts with the stated probabilities, by counts alone."""
    flows, per_path, spines, required = 1000, 20_000, 8, Requirements(0.03, false_alarm=0.01)
    test = plan_test(FlowShape(policy.code, per_path * spines, spines), required)
    assert test.threshold == pytest.approx(per_path - test.calibration.s * np.sqrt(per_path))
    sent = flows_of(policy, spines, per_path, flows)
    alarms = (sent < test.threshold).any(axis=1).sum()
    missed = (dropped(sent, 0.03)[:, 0] >= test.threshold).sum()
    allowed = 0.0 if policy is SprayPolicy.ROTATION else required.false_alarm
    assert alarms <= binom.ppf(SURE, flows, allowed)
    assert missed <= binom.ppf(SURE, flows, test.miss)


@pytest.mark.parametrize("per_path", [2_000, 8_000, 32_000])
def test_s5_the_signal_to_noise_ratio_grows_with_the_root_of_the_packets(per_path: int) -> None:
    flows, spines, rate = 4000, 64, 0.01
    sent = flows_of(SprayPolicy.RANDOM, spines, per_path, flows)
    deficit, noise = per_path - dropped(sent, rate)[:, 0].mean(), sent[:, 1:].std()
    stated = plan_test(FlowShape(SprayPolicyCode.RANDOM, per_path * spines, spines), Requirements(rate)).snr
    assert stated == pytest.approx(rate * np.sqrt(per_path))
    assert abs(deficit / noise - stated) <= norm.ppf(SURE) / np.sqrt(flows) * 1.1 + 0.01 * stated


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "per_path"), [(0.005, 60_000), (0.01, 20_000), (0.015, 7_000)])
def test_s7_rotation_has_the_papers_zeros_at_its_packet_counts(rate: float, per_path: int) -> None:
    flows, spines = 400, 8
    test = plan_test(FlowShape(SprayPolicyCode.ROTATION, per_path * spines, spines), Requirements(rate))
    sent = flows_of(SprayPolicy.ROTATION, spines, per_path, flows)
    found = [judge(test, counts) for counts in dropped(sent, rate)]
    assert [each[0].verdict for each in found] == [Verdict.FAILED] * flows, f"stated misses {test.miss:.2g}"
    assert {each.verdict for verdicts in found for each in verdicts[1:]} == {Verdict.HEALTHY}
    healthy = [judge(test, counts) for counts in sent]
    assert {each.verdict for verdicts in healthy for each in verdicts} == {Verdict.HEALTHY}


@pytest.mark.parametrize("spines", [2, 4, 8, 16, 32, 64, 256])
def test_s8_the_same_rates_hold_for_any_number_of_spines(spines: int) -> None:
    """At the packets a path that this number of spines needs, which hardly differ from eight on."""
    flows, rate, required = 300, 0.01, Requirements(0.01, miss=0.01)
    needed = uniform_packets_needed(SprayPolicyCode.ROTATION, spines, 1, required)
    eight = uniform_packets_needed(SprayPolicyCode.ROTATION, 8, 1, required)
    assert needed is not None
    assert eight is not None
    assert needed <= eight * (1.05 if spines >= 8 else 2)
    test = plan_test(FlowShape(SprayPolicyCode.ROTATION, needed * spines, spines), required)
    sent = flows_of(SprayPolicy.ROTATION, spines, needed, flows)
    found = [judge(test, counts) for counts in dropped(sent, rate)]
    assert sum(each[0].verdict is not Verdict.FAILED for each in found) <= binom.ppf(SURE, flows, required.miss)
    assert not any(each.verdict is Verdict.FAILED for verdicts in found for each in verdicts[1:])
