"""The model of a study: it sprays as senders do, loses what links lose, and finds what leaves find."""

import msgspec
import numpy as np
import pytest
from scipy.stats import binom, chi2

from agent.core.config import SprayPolicy
from agent.core.ev.spray_schedule import SpraySchedule
from agent.spraycheck.statistics.calibration import ROTATION_ENDS, FlowShape
from agent.spraycheck.statistics.uniform import plan_test
from agent.spraycheck.statistics.verdicts import Requirements
from agent.wire.constants import SprayPolicyCode
from scenarios.file.plan import plan_of
from scenarios.run.judge.detector_demands import run_tests_of
from scenarios.study.folder import calibrations_of
from scenarios.study.run_points import scenario_of
from scenarios.study.simulate import asked_of, sent_by_path, simulate
from tests.unit.scenarios.study.test_model import point


@pytest.mark.parametrize(("planes", "spines"), [(1, 8), (2, 4), (3, 5), (1, 64)])
@pytest.mark.parametrize("packets", [1, 37, 4096, 16 * 4096 + 11])
def test_a_rotation_is_counted_as_the_schedule_sends_it(planes, spines, packets):
    rng = np.random.default_rng(packets)
    counts = sent_by_path(SprayPolicy.ROTATION, planes, spines, packets, rng)
    again = np.random.default_rng(packets)
    plane_of = np.repeat(np.arange(planes, dtype=np.uint8), spines)
    schedule = SpraySchedule(SprayPolicy.ROTATION, int(again.integers(2**32)), plane_of)
    rows = schedule.run(int(again.integers(1 << 20)), packets)
    assert counts.ravel().tolist() == np.bincount(rows, minlength=planes * spines).tolist()
    assert np.abs(counts - packets / (planes * spines)).max() <= ROTATION_ENDS


def test_random_counts_have_the_distribution_of_the_schedule():
    """Sum over paths of (X - λ)²/λ is chi-square in both; its mean over many flows tells any other variance."""
    plane_of = np.repeat(np.arange(2, dtype=np.uint8), 8)
    packets, flows = 2 * 8 * 500, 150
    rng = np.random.default_rng(1)
    drawn = [sent_by_path(SprayPolicy.RANDOM, 2, 8, packets, rng) for _ in range(flows)]
    sent = []
    for seed in range(flows):
        rows = SpraySchedule(SprayPolicy.RANDOM, seed, plane_of).run(0, packets)
        sent.append(np.bincount(rows, minlength=16).reshape(2, 8))
    for counts in (drawn, sent):
        totals = np.array(counts).sum(axis=2)
        assert np.abs(totals - packets // 2).max() <= 1
        statistic = ((np.array(counts) - 500) ** 2 / 500).sum()
        low, high = chi2.ppf([1e-4, 1 - 1e-4], 2 * 7 * flows)
        assert low < statistic < high


def test_a_run_repeats_and_finds_its_link():
    row = simulate(point(seed=4))
    assert row == simulate(point(seed=4))
    assert (row.named, row.state, row.named_wrong, row.candidates) == (row.links, "named", 0, 0)
    assert (row.flows, row.paths, row.bad) == (16, 128, 2)


def rows_of(failure, seeds, **parts):
    return [simulate(point(failure, seed, **parts)) for seed in range(1, seeds + 1)]


@pytest.mark.slow
def test_declared_misses_and_alarms_as_rarely_as_stated():
    """1 % with 1 000 packets a path: a miss rate under 1 %, no alarm in healthy runs."""
    rows = rows_of("one", 150)
    bad, missed = sum(row.bad for row in rows), sum(row.bad - row.bad_failed for row in rows)
    assert missed <= binom.ppf(1 - 1e-4, bad, 0.01)
    healthy = rows_of("none", 60)
    assert sum(row.good_failed for row in rows + healthy) <= 1  # 1e-3 a run: two in 210 runs have probability 0.02
    assert not any(row.named for row in healthy)


@pytest.mark.parametrize("failure", ["same-spine", "same-leaf", "disjoint", "four-of-plane", "two-of-pair"])
def test_several_failures_are_named_and_no_healthy_link_is(failure):
    rows = rows_of(failure, 12, packets=3000)
    assert sum(row.named_wrong for row in rows) == 0
    assert sum(row.named_right for row in rows) >= 0.95 * sum(len(row.links) for row in rows)


def test_a_lossy_host_link_accuses_no_link_of_the_fabric_by_equal_shares_either():
    for rate in (0.001, 0.01):
        assert not any(row.named for row in rows_of("host-link", 15, rate=rate, expectation="uniform", packets=5000))


def test_a_lossy_host_link_accuses_no_link_of_the_fabric():
    for rate in (0.001, 0.01, 0.2):
        rows = rows_of("host-link", 15, rate=rate)
        assert not any(row.named for row in rows)
        assert all(row.links[0] in row.common for row in rows)


def test_uniform_cannot_do_under_random_spraying_what_it_does_under_rotation():
    fine = rows_of("one", 6, expectation="uniform", packets=7000, rate=0.015)
    poor = rows_of("one", 6, expectation="uniform", packets=7000, rate=0.015, spray="random")
    assert all(row.named == row.links for row in fine)
    assert sum(row.bad_failed for row in poor) < sum(row.bad for row in poor) / 2
    assert all(row.snr == pytest.approx(0.015 * np.sqrt(7000), abs=1e-3) for row in fine + poor)


@pytest.mark.parametrize("parts", [{}, {"planes": 2, "spines": 64}, {"spines": 256, "leaves": 16}])
def test_tests_of_a_run_share_its_false_alarms_as_on_a_fabric(parts):
    asked = asked_of(point(**parts))
    assert asked.run_tests == run_tests_of(plan_of(scenario_of(point(**parts))))
    assert asked.test_level == pytest.approx(1e-3 / asked.run_tests)


def test_flows_too_small_alone_are_added_up_as_on_a_fabric():
    """250 packets a path: where at most one of the three flows over a link accuses it, their sum names it."""
    rows = [row for row in rows_of("one", 40, packets=250, strides=(1, 2, 3)) if row.bad_failed <= 1]
    assert len(rows) > 15
    assert sum(row.named == row.links for row in rows) >= len(rows) - 1


def test_calibration_from_healthy_runs_agrees_with_the_one_in_use():
    rows = [
        row
        for spray in ("rotation", "random")
        for row in rows_of("none", 10, expectation="uniform", packets=20_000, spray=spray)
    ]
    rotation, random = calibrations_of(msgspec.to_builtins(rows))
    assert (rotation.spray, rotation.flows, random.flows) == ("rotation", 160, 160)
    assert rotation.s_measured <= rotation.s_in_use
    assert random.s_measured == pytest.approx(random.s_in_use, rel=0.1)
    assert random.dispersion == pytest.approx(7 / 8, rel=0.15)


def test_calibration_is_told_for_the_false_alarms_that_the_runs_allowed():
    rows = [
        row
        for allowed in (1e-3, 0.05)
        for row in rows_of("none", 4, expectation="uniform", packets=20_000, spray="random", false_alarm=allowed)
    ]
    strict, lax = calibrations_of(msgspec.to_builtins(rows))
    assert (strict.false_alarm, lax.false_alarm) == (1e-3, 0.05)
    for found in (strict, lax):
        shape = FlowShape(SprayPolicyCode.RANDOM, 8 * 20_000, 8)
        used = plan_test(shape, Requirements(0.01, false_alarm=found.false_alarm)).calibration.s
        assert found.s_in_use == pytest.approx(used, abs=1e-4)
    assert lax.s_measured < strict.s_measured
