import numpy as np
import pytest

from agent.core.send.inflight import InFlight, Tolerance


def sent(evs, window=64, ev_count=4):
    flight = InFlight(window, ev_count)
    flight.record_first(len(evs), np.array(evs, np.uint16), 1000)
    return flight


def received(flight, *offsets):
    """As a SACK with full bitmaps would show exactly these arrivals above `base`."""
    known = np.zeros(flight.end - flight.base, bool)
    known[[o - flight.base for o in offsets]] = True
    return known


def lost(flight):
    return flight.lost_offsets(100, flight.end).tolist()


def test_a_gap_is_lost_only_when_its_own_ev_has_delivered_something_later():
    flight = sent([0, 1, 0, 1])
    flight.acknowledge(0, received(flight, 2))
    assert flight.evs_at(flight.infer_lost(None)).tolist() == [0]
    assert lost(flight) == [0]
    assert (flight.sent, flight.lost) == (2, 1)
    flight.acknowledge(0, received(flight, 3))
    assert flight.evs_at(flight.infer_lost(None)).tolist() == [1]
    assert lost(flight) == [0, 1]


def test_an_earlier_arrival_on_the_ev_proves_nothing():
    flight = sent([0, 0, 1])
    flight.acknowledge(1, received(flight, 2)[1:])
    assert not len(flight.infer_lost(None))


def test_only_what_is_explicitly_missing_is_lost():
    flight = sent([0, 0, 0, 0])
    flight.acknowledge(0, received(flight, 3))
    missing = np.array([False, True])
    assert flight.evs_at(flight.infer_lost(missing)).tolist() == [0]
    assert lost(flight) == [1]
    assert not len(flight.infer_lost(np.zeros(0, bool)))


def test_a_resend_is_judged_on_its_new_ev_and_place():
    flight = sent([0, 1, 0])
    flight.acknowledge(0, received(flight, 1, 2))
    flight.infer_lost(None)
    flight.record_again(np.array([0]), np.array([1], np.uint16), 2000)
    assert not len(flight.infer_lost(None))
    flight.record_first(5, np.array([0, 1], np.uint16), 3000)
    flight.acknowledge(0, received(flight, 3))
    assert not len(flight.infer_lost(None))
    flight.acknowledge(0, received(flight, 4))
    assert flight.evs_at(flight.infer_lost(None)).tolist() == [1]


def test_a_resend_that_arrives_proves_higher_first_transmissions_lost():
    flight = sent([0, 0, 1])
    flight.acknowledge(0, received(flight, 1))
    flight.infer_lost(None)
    flight.record_again(np.array([0]), np.array([1], np.uint16), 2000)
    flight.acknowledge(2, np.zeros(1, bool))
    assert flight.evs_at(flight.infer_lost(None)).tolist() == [1]
    assert lost(flight) == [2]


def test_a_packet_resent_after_a_timeout_proves_nothing():
    flight = sent([0, 1])
    flight.expire(None, 1000, 1)
    flight.record_again(np.array([0]), np.array([1], np.uint16), 2000)
    flight.acknowledge(1, np.zeros(1, bool))
    # The first copy may be the one that arrived, and it was sent before packet 1.
    assert not len(flight.infer_lost(None))


def test_an_acknowledged_packet_waiting_to_be_resent_is_not():
    flight = sent([0, 1, 0])
    flight.expire(None, 1000, 3)
    assert (flight.sent, flight.lost) == (0, 3)
    assert flight.acknowledge(0, received(flight, 1)).tolist() == [1]
    assert (flight.sent, flight.lost) == (0, 2)
    assert lost(flight) == [0, 2]
    assert flight.acknowledge(3, None).tolist() == [0, 0]
    assert (flight.sent, flight.lost) == (0, 0)


def test_expiry_takes_the_oldest_old_missing_ones():
    flight = sent([0, 1, 2])
    flight.record_first(4, np.array([3], np.uint16), 5000)
    assert not len(flight.expire(None, 999, 9))
    assert flight.evs_at(flight.expire(None, 1000, 2)).tolist() == [0, 1]
    assert flight.oldest_sent_ns(0) == 1000
    assert flight.evs_at(flight.expire(np.array([True, True, False, True]), 9999, 9)).tolist() == [3]
    assert flight.oldest_sent_ns(0) == 1000
    flight.expire(None, 9999, 9)
    assert flight.oldest_sent_ns(7) == 7


def test_each_packet_is_newly_acknowledged_once():
    flight = sent([0, 1, 2, 3])
    assert flight.acknowledge(1, received(flight, 0, 2)[1:]).tolist() == [0, 2]
    assert flight.acknowledge(1, received(flight, 2)).tolist() == []
    assert flight.acknowledge(3, None).tolist() == [1]
    assert flight.is_outstanding(3)
    assert not flight.is_outstanding(2)


@pytest.mark.parametrize("seed", range(20))
def test_fifo_evs_are_judged_exactly_over_many_windows(seed):
    """Random arrivals per EV, each a prefix of what was sent on it with holes: the holes, and no others, are lost."""
    rng = np.random.default_rng(seed)
    flight = InFlight(64, 4)
    evs, base = np.zeros(0, np.int64), 0
    for _ in range(20):
        count = int(rng.integers(0, flight.base + 64 - flight.end + 1))
        new = rng.integers(0, 4, count)
        evs = np.concatenate((evs, new))
        flight.record_first(len(evs), new.astype(np.uint16), 0)
        offsets = np.arange(base, len(evs))
        reached = {e: rng.integers(0, len(evs) + 1) for e in range(4)}
        arrived = [o for o in offsets if o < reached[evs[o]] and rng.random() < 0.7]
        before = set(lost(flight))
        flight.acknowledge(base, received(flight, *arrived))
        proven = {e: max((o for o in arrived if evs[o] == e), default=-1) for e in range(4)}
        flight.infer_lost(None)
        expected = {o for o in offsets.tolist() if o not in arrived and o < proven[evs[o]]}
        assert set(lost(flight)) == (before - set(arrived)) | {o for o in expected if flight.is_outstanding(o)}
        base = len(evs)
        flight.acknowledge(base, None)


HUNDRED = np.full(4, 100)
"""Nanoseconds for each EV row."""


def late_flight(evs):
    flight = InFlight(64, 4)
    flight.note_arrivals(1)
    flight.record_first(len(evs), np.array(evs, np.uint16), 1000)
    return flight


def test_what_was_resent_for_being_late_proves_nothing():
    flight = late_flight([0, 1, 2])
    flight.acknowledge(0, received(flight, 2))
    assert flight.evs_at(flight.infer_lost_late(None, Tolerance(1, 1100, HUNDRED))).tolist() == [0, 1]
    flight.record_again(np.array([0, 1]), np.array([2, 2], np.uint16), 2000)
    flight.record_first(5, np.array([1, 3], np.uint16), 2000)
    flight.acknowledge(1, received(flight)[1:])
    # The first copy of packet 0 may be what has arrived: EV 2 and the new packets are above suspicion.
    assert not len(flight.infer_lost(None))
    assert not len(flight.infer_lost_late(None, Tolerance(1, 9000, HUNDRED)))


def test_each_copy_is_given_twice_the_time():
    flight = late_flight([0, 1, 1])
    flight.acknowledge(0, received(flight, 1))
    assert flight.evs_at(flight.infer_lost_late(None, Tolerance(1, 1099, HUNDRED))).tolist() == []
    assert flight.evs_at(flight.infer_lost_late(None, Tolerance(1, 1100, HUNDRED))).tolist() == [0]
    flight.record_again(np.array([0]), np.array([2], np.uint16), 2000)
    flight.record_first(4, np.array([3], np.uint16), 2000)
    flight.acknowledge(0, received(flight, 3))
    assert flight.evs_at(flight.infer_lost_late(None, Tolerance(1, 2199, HUNDRED))).tolist() == [1]
    assert flight.evs_at(flight.infer_lost_late(None, Tolerance(1, 2200, HUNDRED))).tolist() == [2]


def test_each_ev_row_has_a_patience_of_its_own():
    flight = late_flight([0, 1, 2])
    flight.acknowledge(0, received(flight, 2))
    patience = np.array([100, 300, 100, 100])
    assert flight.evs_at(flight.infer_lost_late(None, Tolerance(1, 1299, patience))).tolist() == [0]
    assert flight.evs_at(flight.infer_lost_late(None, Tolerance(1, 1300, patience))).tolist() == [1]
