"""When flows were under way and when they lost packets."""

import numpy as np

from agent.spraycheck.statistics.flow_times import LEAST_SEEN, MOST_SHARE, WINDOW_DOUBT, LossTime, Span, share_needed

FLOW = Span(0, 1000)


def test_the_share_of_a_flow_within_a_window():
    assert FLOW.share_within(Span(-5, 2000)) == 1
    assert FLOW.share_within(Span(250, 500)) == 0.25
    assert FLOW.share_within(Span(1001, 2000)) == 0
    assert [Span(5, 5).share_within(Span(0, end)) for end in (4, 5)] == [0, 1]
    assert Span(3, 9).joined(Span(1, 4)) == Span(1, 9)


def test_few_retransmissions_do_not_tell_when_packets_were_lost():
    assert LossTime.of(Span(300, 400), LEAST_SEEN - 1, FLOW) == LossTime(FLOW, FLOW)
    assert LossTime.of(Span(1100, 1200), 100, FLOW) == LossTime(FLOW, FLOW), "all came after the flow"


def test_a_flow_meets_losses_if_it_was_there_for_a_tenth_of_them():
    lossy = LossTime(Span(400, 800), FLOW)
    assert [lossy.is_met_by(Span(0, end)) for end in (300, 439, 440, 900)] == [False, False, True, True]
    moment = LossTime(Span(400, 400), FLOW)
    assert [moment.is_met_by(Span(0, end)) for end in (399, 400)] == [False, True]


def test_the_window_holds_all_losses_but_seldom():
    rng, missed, runs = np.random.default_rng(1), 0, 4000
    for _ in range(runs):
        count = int(rng.integers(LEAST_SEEN, 60))
        lost = np.sort(rng.uniform(3e6, 5e6, count))
        window = LossTime.of(Span(int(lost[0]), int(lost[-1])), count, Span(0, 10**8)).window
        missed += window.from_ns > 3e6
    assert missed / runs <= 2 * WINDOW_DOUBT


def test_a_flow_needs_as_many_packets_as_tell_the_rate_or_half_of_its_own():
    assert share_needed(1000, 10_000) == 0.1
    assert share_needed(1000, 1500) == share_needed(None, 9) == share_needed(5, 0) == MOST_SHARE
