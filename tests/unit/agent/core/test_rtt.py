"""Round trips: which count, and what is kept of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.congestion.interface import RttSamples
from agent.core.send.rtt import RoundTrip, RoundTrips, RttEstimator, elapsed_ns, is_valid, samples_of

PLANES = np.array([0, 0, 3], np.uint8)
MS = 1_000_000


def test_a_packet_is_late_by_what_its_own_plane_takes():
    trips = RoundTrips(PLANES)
    for _ in range(100):
        trips.add(10 * MS, 0)
        trips.add(30 * MS, 2)
    fast, slow = RoundTrip(), RoundTrip()
    for _ in range(100):
        fast.add(10 * MS)
        slow.add(30 * MS)
    assert trips.tolerances_ns(0).tolist() == [fast.tolerance_ns(0)] * 2 + [slow.tolerance_ns(0)]
    assert slow.tolerance_ns(0) < 3.1 * fast.tolerance_ns(0)


def test_a_plane_without_a_sample_goes_by_the_others():
    trips = RoundTrips(PLANES)
    assert trips.tolerances_ns(7).tolist() == [7, 7, 7]
    trips.add(10 * MS, 1)
    assert trips.tolerances_ns(0).tolist() == [trips.all.tolerance_ns(0)] * 3


def test_when_the_load_moves_no_plane_is_sure_of_its_spread():
    trips = RoundTrips(PLANES)
    for _ in range(100):
        trips.add(10 * MS, 0)
        trips.add(30 * MS, 2)
    before = trips.tolerances_ns(0)
    trips.forget_spread()
    assert (trips.tolerances_ns(0) >= before + 4 * 5 * MS).all()


US = 1_000


@pytest.mark.parametrize(
    ("resends", "echoed", "valid"),
    [(0, False, True), (0, True, False), (1, True, True), (1, False, False), (2, True, False), (2, False, False)],
)
def test_a_sample_counts_if_it_is_known_which_transmission_is_answered(resends, echoed, valid):
    assert is_valid(resends, echoed) is valid


def test_samples_are_those_of_valid_packets():
    assert samples_of([100, 700], now_ns=1000) == RttSamples(taken=2, least_ns=300, mean_ns=600.0)


def test_without_a_valid_packet_there_is_no_sample():
    assert samples_of([], 9) is None


@given(st.integers(0, 2**62), st.integers(0, 65_535 * 8192))
def test_a_reflected_timestamp_gives_its_age_within_a_tick(sent_ns, age_ns):
    age = elapsed_ns(sent_ns // 8192 & 0xFFFF, sent_ns + age_ns)
    assert abs(age - age_ns) < 8192


def test_the_least_round_trip_starts_from_the_configured_one():
    rtt = RttEstimator(100 * US)
    assert rtt.add(RttSamples(1, 130 * US, 130.0 * US)) == 30 * US
    assert rtt.base_rtt_ns == 100 * US
    assert rtt.add(RttSamples(2, 60 * US, 80.0 * US)) == 20 * US
    assert rtt.base_rtt_ns == 60 * US


def test_the_least_round_trip_has_a_floor():
    rtt = RttEstimator(100 * US, floor_ns=80 * US)
    assert rtt.add(RttSamples(1, 10 * US, 10.0 * US)) == 0
    assert rtt.base_rtt_ns == 80 * US


def test_averages_move_by_an_eighth_of_the_way():
    rtt = RttEstimator(100)
    rtt.add(RttSamples(1, 180, 180.0))
    assert (rtt.srtt_ns, rtt.average_delay_ns) == (180, 10)
    rtt.add(RttSamples(1, 100, 100.0))
    assert rtt.srtt_ns == 170
    assert rtt.average_delay_ns == pytest.approx(8.75)


def test_samples_together_weigh_as_one_after_another():
    together, apart = RttEstimator(100), RttEstimator(100)
    together.add(RttSamples(5, 300, 300.0))
    together.add_delay(900, 3)
    for _ in range(5):
        apart.add(RttSamples(1, 300, 300.0))
    for _ in range(3):
        apart.add_delay(900, 1)
    assert together.average_delay_ns == pytest.approx(apart.average_delay_ns)
    assert together.srtt_ns == pytest.approx(apart.srtt_ns)
