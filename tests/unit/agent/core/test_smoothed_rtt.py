import numpy as np

from agent.core.send.smoothed_rtt import RoundTrip, RoundTrips

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
