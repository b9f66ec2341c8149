"""Arrived against sent: false alarms of a run, misses, the bound, and losses that no path is to blame for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from agent.spraycheck.statistics.declared import (
    declared_miss,
    declared_packets_needed,
    flagged,
    judge_declared,
    judge_host_link,
    judge_source,
    least_loss,
    packets_needed,
)
from agent.spraycheck.statistics.uniform import COMMON_LOSS_ALARM
from agent.spraycheck.statistics.verdicts import NOTHING_SENT, Requirements, Verdict

ASKED = Requirements(0.01, miss=0.01)
WANTED = [(0.01, 1000), (0.005, 2000), (0.001, 10_000)]
"""Drop rate, packets a path that must do at a miss rate under 1 % and a false-alarm rate of a run under 0.1 %."""


def verdicts(sent, lost, required=ASKED):
    return [each.verdict for each in judge_declared(sent, sent - lost, required)]


def assert_at_most(happened, of, probability):
    """So many are no proof that the probability is larger: below its 99.99 % quantile."""
    assert happened <= binom.ppf(1 - 1e-4, of, probability), f"{happened} of {of}, at most {probability:g} expected"


@pytest.mark.parametrize(("rate", "packets"), WANTED)
@pytest.mark.parametrize("paths", [5, 8, 64, 256])
def test_the_wanted_bounds_hold(rate, packets, paths):
    needed = packets_needed(rate, paths, ASKED.test_level, 0.01)
    assert needed is not None
    assert needed <= packets


@pytest.mark.parametrize(("rate", "packets"), WANTED)
def test_misses_are_as_rare_as_stated(rate, packets):
    rng = np.random.default_rng(1)
    flows, required = 50_000, Requirements(rate, miss=0.01)
    lost = np.zeros((flows, 8), np.int64)
    lost[:, 5] = rng.binomial(packets, rate, flows)
    sent = np.full((flows, 8), packets)
    found = flagged(sent, lost, required)
    assert not np.delete(found, 5, axis=1).any()
    stated = declared_miss(packets, 8 * packets, required)
    low, high = binom.ppf([1e-4, 1 - 1e-4], flows, binom.cdf(least_loss(packets, 1 / 8, required) - 1, packets, rate))
    assert low <= flows - found[:, 5].sum() <= high
    assert stated < 0.01


@pytest.mark.parametrize(("rate", "packets"), WANTED)
def test_stated_misses_are_those_with_stray_losses_beside(rate, packets):
    rng = np.random.default_rng(12)
    flows, required = 100_000, Requirements(rate, miss=0.01, stray_rate=1e-5)
    sent = np.full((flows, 8), packets)
    lost = rng.binomial(sent, 1e-5)
    lost[:, 5] = rng.binomial(packets, rate, flows)
    missed = flows - flagged(sent, lost, required)[:, 5].sum()
    low, high = binom.ppf([1e-4, 1 - 1e-4], flows, declared_miss(packets, 8 * packets, required))
    assert low * 0.9 <= missed <= high, "the rare second stray loss is reckoned as the first"


def test_packets_needed_in_practice_are_hardly_more_than_the_bound():
    for rate, _ in WANTED:
        required = Requirements(rate, miss=0.01)
        bound, practical = packets_needed(rate, 8, required.test_level, 0.01), declared_packets_needed(8, required)
        assert bound <= practical <= 1.15 * bound
        assert (
            declared_miss(practical, 8 * practical, required)
            <= 0.01
            < declared_miss(practical - 1, 8 * practical - 8, required)
        )


@pytest.mark.parametrize("rate", [0.0002, 0.001, 0.01, 0.2])
@pytest.mark.parametrize("paths", [2, 8, 64])
def test_loss_common_to_all_paths_accuses_none(rate, paths):
    """As rarely as if nothing was lost, once the other paths lose too; a handful of losses may all fall on one path."""
    rng = np.random.default_rng(3)
    flows = 4000
    sent = np.full((flows, paths), 5000) + rng.integers(0, 50, (flows, paths))
    lost = rng.binomial(sent, rate)
    accused = flagged(sent, lost, ASKED).any(axis=1)
    few = lost.sum(axis=1) < 30
    assert not accused[~few & (np.sort(lost, axis=1)[:, :2].sum(axis=1) > 1)].any()
    assert_at_most(accused.sum(), flows, 2 * COMMON_LOSS_ALARM)


def test_a_lossy_host_link_leads_to_a_flagged_path_as_seldom_as_the_document_says():
    """0.4 % at the worst, three losses a flow, and 0.02 % at ten; fewer with more."""
    rng = np.random.default_rng(13)
    sent = np.full((100_000, 8), 1000)
    means = (2, 3, 4, 10, 20, 80)
    shares = [flagged(sent, rng.binomial(sent, mean / 8000), ASKED).any(axis=1).mean() for mean in means]
    assert means[int(np.argmax(shares))] == 3
    assert 0.0035 < max(shares) < 0.0045
    assert 1e-4 < shares[3] < 2.7e-4
    assert max(shares[4:]) < 1e-4


@pytest.mark.parametrize("failed", [1, 2, 4, 6, 7])
def test_any_number_of_failed_paths_but_all_is_found(failed):
    rng = np.random.default_rng(4)
    flows = 4000
    sent = np.full((flows, 8), 2000)
    lost = np.zeros((flows, 8), np.int64)
    lost[:, :failed] = rng.binomial(2000, 0.01, (flows, failed))
    found = flagged(sent, lost, ASKED)
    assert not found[:, failed:].any()
    assert found[:, :failed].mean() > 0.985


def test_one_lost_packet_in_a_thousand_shows_after_ten_thousand():
    sent = np.full(8, 10_000)
    lost = np.array([0, 0, 3, 0, 0, 0, 0, 0])
    required = Requirements(0.001, miss=0.01)
    assert verdicts(sent, lost, required)[2] is Verdict.FAILED
    assert set(verdicts(sent, np.zeros(8, np.int64), required)) == {Verdict.HEALTHY}


def test_uneven_sending_is_no_loss():
    """EVs were skipped and retired: the expectation `uniform` would call these counts broken."""
    sent = np.array([4000, 2500, 100, 0, 3900, 4100, 3000, 2000])
    found = judge_declared(sent, sent, ASKED)
    assert [each.verdict is Verdict.HEALTHY for each in found] == [True, True, False, False, True, True, True, True]
    assert "would be missed" in found[2].doubt.text
    assert found[3].doubt is NOTHING_SENT


def test_more_than_was_sent_is_no_proof_of_health():
    sent = np.full(8, 2000)
    (extra, *others) = judge_declared(sent, sent + np.array([3, 0, 0, 0, 0, 0, 0, 0]), ASKED)
    assert (extra.verdict, {each.verdict for each in others}) == (Verdict.INSUFFICIENT, {Verdict.HEALTHY})
    assert "more packets arrived" in extra.doubt.text


def test_p_value_and_snr_are_those_of_the_path():
    sent = np.array([1000, 1000])
    first, second = judge_declared(sent, np.array([990, 1000]), ASKED)
    assert first.p_value == pytest.approx(binom.sf(9, 1000, ASKED.stray_rate))
    assert second.p_value == 1.0
    assert first.snr == pytest.approx(np.sqrt(1000 * 0.01 / 0.99), rel=1e-3)


@pytest.mark.parametrize("rate", [0.005, 0.01, 0.2])
def test_a_lossy_host_link_is_found_as_such(rate):
    rng = np.random.default_rng(5)
    sent = np.full(8, 2000)
    found = [judge_source(sent, rng.binomial(sent, 1 - rate), ASKED).verdict for _ in range(1500)]
    assert np.mean([each is Verdict.FAILED for each in found]) > 0.9
    assert Verdict.HEALTHY not in found


def test_a_failed_path_is_not_blamed_on_the_host():
    rng = np.random.default_rng(6)
    sent = np.full(8, 2000)
    for failed in (1, 2, 3):
        blamed = 0
        for _ in range(500):
            lost = np.zeros(8, np.int64)
            lost[:failed] = rng.binomial(2000, 0.01, failed)
            blamed += judge_source(sent, sent - lost, ASKED).verdict is Verdict.FAILED
        assert blamed == 0


def test_a_lossy_host_link_does_not_hide_a_worse_path():
    rng = np.random.default_rng(7)
    sent = np.full(8, 4000)
    arrived = rng.binomial(rng.binomial(sent, 0.995), [0.95] + [1.0] * 7)
    assert judge_declared(sent, arrived, ASKED)[0].verdict is Verdict.FAILED
    source = judge_source(sent, arrived, ASKED)
    assert (source.verdict, source.sent) == (Verdict.FAILED, 7 * 4000)


def test_a_source_without_losses_is_healthy_and_a_short_flow_says_nothing():
    assert judge_source(np.full(8, 1000), np.full(8, 1000), ASKED).verdict is Verdict.HEALTHY
    short = judge_source(np.full(8, 5), np.full(8, 5), ASKED)
    assert (short.verdict, "would be missed" in (short.reason or "")) == (Verdict.INSUFFICIENT, True)
    alone = judge_source(np.array([1000]), np.array([900]), ASKED)
    assert alone.reason == "fewer than two paths to compare"


@given(st.floats(2e-4, 0.5), st.integers(1, 256), st.floats(1e-8, 1e-2), st.floats(1e-6, 0.1), st.floats(1e-8, 1e-5))
def test_the_bound_is_exact(rate, paths, alpha, beta, stray):
    """At the bound some loss serves both error rates; with one packet less none does."""
    needed = packets_needed(rate, paths, alpha, beta, stray)
    assert needed is not None

    def serves(packets):
        losses = np.arange(1, min(packets, 60) + 1)
        shares = np.log(1 / paths) * losses <= np.log(COMMON_LOSS_ALARM) + 1e-9 if paths > 1 else True
        ok = (binom.sf(losses - 1, packets, stray) <= alpha) & (binom.cdf(losses - 1, packets, rate) <= beta)
        return (ok & shares).any()

    assert serves(needed)
    assert not serves(needed - 1)


@given(st.integers(1, 50_000), st.integers(1, 64), st.floats(1e-3, 0.2))
def test_the_stated_threshold_is_that_of_the_test(packets, paths, rate):
    required = Requirements(rate, miss=0.01)
    loss = least_loss(packets, 1 / paths, required)
    sent, lost = np.full(paths, packets), np.zeros(paths, np.int64)
    for each, expected in ((loss, True), (loss - 1, False)):
        if each <= packets:
            lost[0] = each
            assert flagged(sent, lost, required)[0] == expected


@pytest.mark.parametrize(
    ("sent", "arrived", "wrong"),
    [([1, 2], [1], "one number per path"), ([], [], "one number per path"), ([1], [-1], "negative")],
)
def test_counts_that_cannot_be_are_refused(sent, arrived, wrong):
    with pytest.raises(ValueError, match=wrong):
        judge_declared(np.array(sent, np.int64), np.array(arrived, np.int64), ASKED)


@pytest.mark.parametrize(
    ("entered", "verdict"),
    [(16_000, Verdict.HEALTHY), (15_840, Verdict.FAILED), (16_001, Verdict.INSUFFICIENT)],
)
def test_the_source_leafs_count_judges_the_hosts_link(entered, verdict):
    assert judge_host_link(16_000, entered, ASKED) is verdict


def test_a_short_flow_says_nothing_of_the_hosts_link():
    assert judge_host_link(20, 20, ASKED) is Verdict.INSUFFICIENT
