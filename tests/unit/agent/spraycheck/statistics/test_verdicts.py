"""Healthy runs have anything flagged by declaration as rarely as asked: paths, sources, hosts' links, sums of links."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from agent.spraycheck.statistics.binomial import all_at_least
from agent.spraycheck.statistics.declared import flagged
from agent.spraycheck.statistics.loss_groups import Counts, Flags
from agent.spraycheck.statistics.verdicts import LEAST_TESTS, Requirements, count_tests

FLOWS = [(leaf, (leaf + stride) % 8) for stride in (1, 3) for leaf in range(8)]
SPINES, RUNS = 8, 1500


@pytest.mark.parametrize(
    ("flows", "planes", "spines", "tests"),
    [
        (0, 1, 8, LEAST_TESTS),
        (16, 2, 8, LEAST_TESTS),
        (157, 1, 8, LEAST_TESTS),
        (158, 1, 8, 8192),
        (16, 1, 256, 16_384),
        (448, 2, 8, 32_768),
    ],
)
def test_a_flow_makes_three_tests_a_path_and_two_more(flows: int, planes: int, spines: int, tests: int) -> None:
    assert flows * planes * (3 * spines + 2) <= tests
    assert count_tests(flows, planes, spines) == tests


def as_sent(rng: np.random.Generator, stray: float) -> tuple[Counts, Counts]:
    """Packets of flows and how many of them stray losses take, `(runs, flows, spines)` each."""
    sent = rng.integers(500, 12_000, (RUNS, len(FLOWS), SPINES))
    return sent, rng.binomial(sent, stray)


def as_retired(rng: np.random.Generator, stray: float) -> tuple[Counts, Counts]:
    """The same of senders that leave a path at its first loss."""
    most = rng.integers(500, 12_000, (RUNS, len(FLOWS), SPINES))
    first = rng.geometric(stray, most.shape)
    return np.minimum(first, most), (first <= most).astype(np.int64)


def sums_flagged(sent: Counts, lost: Counts, end: int, order: NDArray[np.int64], required: Requirements) -> Flags:
    """Whether a link of a leaf is flagged by the sums after each flow that ends in this order, `(runs,)`."""
    leaf_of = np.array([flow[end] for flow in FLOWS])[order]
    of_leaf = np.take_along_axis(order, np.argsort(leaf_of, axis=1, kind="stable"), 1)  # two flows per leaf, in order
    pairs = (np.take_along_axis(each, of_leaf[..., None], 1).reshape(-1, 8, 2, SPINES) for each in (sent, lost))
    sent, lost = (each.cumsum(2).reshape(len(order), -1, SPINES) for each in pairs)
    found: Flags = flagged(sent, lost, required).any(axis=(1, 2))
    return found


def anything_flagged(sent: Counts, lost: Counts, rng: np.random.Generator, required: Requirements) -> Flags:
    """By runs; flows that lost a packet end last. What flows have in common counts without having to be alike."""
    of_flow, lost_of_flow = sent.sum(-1), lost.sum(-1)
    before_leaf = rng.binomial(of_flow, required.stray_rate)
    alike, entered = (all_at_least(each, of_flow, required.stray_rate) for each in (lost_of_flow, before_leaf))
    order = np.argsort((lost_of_flow > 0) + rng.random(of_flow.shape), axis=1)
    found: Flags = flagged(sent, lost, required).any(axis=(1, 2)) | (
        np.minimum(alike, entered) <= required.test_level
    ).any(1)
    return found | sums_flagged(sent, lost, 0, order, required) | sums_flagged(sent, lost, 1, order, required)


@pytest.mark.slow
@pytest.mark.parametrize("sprayed", [as_sent, as_retired])
@pytest.mark.parametrize(("stray", "alarm"), [(1e-6, 1e-3), (1e-4, 0.02), (2e-3, 0.05)])
def test_a_healthy_run_has_anything_flagged_as_rarely_as_asked(sprayed, stray, alarm) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(2)
    required = Requirements(0.05, stray_rate=stray, run_alarm=alarm, run_tests=len(FLOWS) * (3 * SPINES + 2))
    alarms = anything_flagged(*sprayed(rng, stray), rng, required)
    assert alarms.sum() <= binom.ppf(1 - 1e-4, RUNS, alarm)


def test_the_same_runs_without_division_among_tests_have_many_alarms() -> None:
    """So the test above can fail."""
    rng = np.random.default_rng(2)
    required = Requirements(0.05, stray_rate=1e-4, run_alarm=0.02, run_tests=1)
    assert anything_flagged(*as_sent(rng, 1e-4), rng, required).mean() > 0.5
