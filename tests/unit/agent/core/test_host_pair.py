from dataclasses import replace

import numpy as np
import pytest

from agent.core.ev.profile_sources import EvProfile
from agent.core.host_pair import Endpoint, EndpointSettings, EvProbeAnswer
from agent.wire.array.control_columns import EndpointRequestColumns, EndpointResponseColumns
from agent.wire.constants import EndpointOp

PROFILE = EvProfile(np.arange(8, dtype=np.uint32), np.repeat(np.arange(4, dtype=np.uint8), 2))
SETTINGS = EndpointSettings(probe_timeout_ns=1000, update_interval_ns=100, most_updates=10)
ALL_UP = np.ones(256, bool)


def responses(*ids, op=EndpointOp.EV_PROBE):
    n = len(ids)
    return EndpointResponseColumns(
        op=np.full(n, op, np.uint8),
        request_id=np.array(ids, np.uint16),
        tx_timestamp=np.zeros(n, np.uint16),
        ev=np.zeros(n, np.uint32),
        source_address=np.zeros((n, 16), np.uint8),
        dqpn=np.full(n, 2, np.uint32),
        plane=0,
    )


def requests(op, mask, number=5):
    return EndpointRequestColumns(
        op=np.array([op], np.uint8),
        request_id=np.array([number], np.uint16),
        port_status_mask=np.array([mask], np.uint32),
        tx_timestamp=np.array([77], np.uint16),
        ev=np.zeros(1, np.uint32),
        source_address=np.zeros((1, 16), np.uint8),
        dqpn=np.full(1, 2, np.uint32),
        plane=0,
    )


def test_an_ev_probe_is_matched_by_its_id_and_timed_by_our_clock():
    endpoint = Endpoint(PROFILE, SETTINGS)
    endpoint.probe(5, qpn=9)
    (batch,) = endpoint.batches(100)
    assert batch.op.tolist() == [EndpointOp.EV_PROBE]
    assert batch.ev_index.tolist() == [5]
    endpoint.receive_responses(responses(*batch.request_id.tolist(), 999), 450)
    assert endpoint.drain_answers(450) == [EvProbeAnswer(9, 5, 350)]
    assert (endpoint.probes_answered, endpoint.unasked) == (1, 1)
    assert endpoint.next_deadline_ns() is None


def test_an_ev_probe_without_an_answer_fails_in_time():
    endpoint = Endpoint(PROFILE, SETTINGS)
    endpoint.probe(5, qpn=9)
    endpoint.batches(100)
    assert endpoint.next_deadline_ns() == 1100
    assert endpoint.drain_answers(1099) == []
    assert endpoint.drain_answers(1100) == [EvProbeAnswer(9, 5, None)]


def test_a_request_is_answered_with_its_id_and_timestamp():
    endpoint = Endpoint(PROFILE, SETTINGS)
    assert not endpoint.receive_requests(requests(EndpointOp.EV_PROBE, 0))
    (batch,) = endpoint.batches(0)
    assert (batch.request_id.tolist(), batch.tx_timestamp.tolist()) == ([5], [77])
    assert endpoint.batches(0) == []


def test_a_port_status_update_is_heard_once():
    endpoint = Endpoint(PROFILE, SETTINGS)
    assert endpoint.receive_requests(requests(EndpointOp.PORT_STATUS_UPDATE, 0b11100))
    assert not endpoint.receive_requests(requests(EndpointOp.PORT_STATUS_UPDATE, 0b11100, 6))
    assert endpoint.peer_ports.mask == 0b11100
    assert endpoint.peer_ports.updates == 2


@pytest.mark.parametrize("first", [5, 0xFFFE, 0x7FFF])
def test_updates_that_come_late_or_twice_change_nothing(first):
    """Copies of one change take several planes: one that waits in a queue may come behind the next change."""
    endpoint = Endpoint(PROFILE, SETTINGS)
    update = EndpointOp.PORT_STATUS_UPDATE
    assert endpoint.receive_requests(requests(update, 0b01110, first))
    assert endpoint.receive_requests(requests(update, 0b11110, (first + 3) & 0xFFFF))
    for late in (first, first + 1, first + 3):
        assert not endpoint.receive_requests(requests(update, 0b01110, late & 0xFFFF))
    assert endpoint.peer_ports.mask == 0b11110
    assert endpoint.peer_ports.old == 3
    (answers,) = endpoint.batches(0)
    assert len(answers) == 5, "who asks is answered, or it would ask again"


def test_updates_of_one_drain_are_taken_in_their_order():
    endpoint = Endpoint(PROFILE, SETTINGS)
    columns = [requests(EndpointOp.PORT_STATUS_UPDATE, mask, number) for mask, number in ((0b110, 8), (0b010, 7))]
    both = replace(
        columns[0],
        **{name: np.concatenate([getattr(each, name) for each in columns])
           for name in ("op", "request_id", "port_status_mask", "tx_timestamp", "ev", "source_address", "dqpn")},
    )  # fmt: skip
    assert endpoint.receive_requests(both)
    assert endpoint.peer_ports.mask == 0b110


def test_updates_are_counted_apart_from_probes():
    """Else half the numbers could pass between two changes, and the new one would look like an old one."""
    ours, peer = Endpoint(PROFILE, SETTINGS), Endpoint(PROFILE, SETTINGS)
    for mask in (0b01110, 0b11110):
        ours.tell_ports(mask, ALL_UP, 0)
        (update,) = ours.batches(0)
        assert peer.receive_requests(requests(update.op[0], mask, int(update.request_id[0])))
        for _ in range(40):
            for _ in range(1000):
                ours.probe(0, 9)
            ours.batches(0)
            ours.drain_answers(10**9)
    assert peer.peer_ports.mask == 0b11110


def test_who_is_met_with_all_ports_up_is_told_nothing():
    endpoint = Endpoint(PROFILE, SETTINGS)
    endpoint.greet(0b11110, ALL_UP, 0)
    assert endpoint.next_deadline_ns() is None


def test_who_is_met_while_a_port_is_down_is_told_at_once_and_again_if_it_never_answered():
    endpoint = Endpoint(PROFILE, SETTINGS)
    up = ALL_UP.copy()
    up[3] = False
    endpoint.greet(0b01110, up, 7)
    (update,) = endpoint.batches(7)
    assert update.port_status_mask.tolist() == [0b01110]
    endpoint.greet(0b01110, up, 8)
    assert endpoint.batches(8) == [], "it is being told already"
    while (due := endpoint.next_deadline_ns()) is not None:
        endpoint.batches(due)
    sent = endpoint.updates_sent
    endpoint.greet(0b01110, up, 10**6)
    (update,) = endpoint.batches(10**6)
    endpoint.receive_responses(responses(*update.request_id.tolist(), op=EndpointOp.PORT_STATUS_UPDATE), 10**6)
    while (due := endpoint.next_deadline_ns()) is not None:
        endpoint.batches(due)
    assert endpoint.updates_sent == sent + 3
    endpoint.greet(0b01110, up, 10**7)
    assert endpoint.next_deadline_ns() is None, "it has answered"


def test_an_answer_to_a_probe_is_none_to_an_update():
    endpoint = Endpoint(PROFILE, SETTINGS)
    endpoint.tell_ports(0b10, ALL_UP, 0)
    (update,) = endpoint.batches(0)
    endpoint.receive_responses(responses(*update.request_id.tolist(), op=EndpointOp.EV_PROBE), 0)
    assert endpoint.unasked == 1


def test_an_update_goes_out_three_times_on_different_planes():
    endpoint = Endpoint(PROFILE, SETTINGS)
    endpoint.tell_ports(0b11110, ALL_UP, 0)
    batches = []
    now_ns = 0
    while (due := endpoint.next_deadline_ns()) is not None:
        now_ns = max(now_ns, due)
        batches += endpoint.batches(now_ns)
        answer = responses(int(batches[-1].request_id[0]), op=EndpointOp.PORT_STATUS_UPDATE)
        endpoint.receive_responses(answer, now_ns)
    assert len(batches) == 3
    assert len({int(PROFILE.planes[batch.ev_index[0]]) for batch in batches}) == 3
    assert {int(batch.port_status_mask[0]) for batch in batches} == {0b11110}


def test_an_answer_after_the_last_copy_ends_an_update():
    endpoint = Endpoint(PROFILE, SETTINGS)
    endpoint.tell_ports(0b11110, ALL_UP, 0)
    copies = [batch for now_ns in (0, 100, 200) for batch in endpoint.batches(now_ns)]
    endpoint.receive_responses(responses(int(copies[-1].request_id[0]), op=EndpointOp.PORT_STATUS_UPDATE), 250)
    assert endpoint.next_deadline_ns() is None
    assert endpoint.updates_sent == 3


def test_an_unanswered_update_ends_at_last():
    endpoint = Endpoint(PROFILE, SETTINGS)
    endpoint.tell_ports(0b10, ALL_UP, 0)
    while (due := endpoint.next_deadline_ns()) is not None:
        endpoint.batches(due)
    assert endpoint.updates_sent == 10


def test_answers_avoid_a_plane_whose_probes_stay_unanswered():
    endpoint = Endpoint(PROFILE, SETTINGS)
    for sent_ns in (100, 200):
        endpoint.probe(6, qpn=9)
        endpoint.batches(sent_ns)
    assert len(endpoint.drain_answers(1200)) == 2
    planes = set()
    for number in range(8):
        endpoint.receive_requests(requests(EndpointOp.EV_PROBE, 0, number))
        (batch,) = endpoint.batches(1300)
        planes |= set(PROFILE.planes[batch.ev_index].tolist())
    assert planes == {0, 1, 2}


def test_answers_go_where_data_gets_through_and_ports_are_up():
    endpoint = Endpoint(PROFILE, SETTINGS)
    up, live = ALL_UP.copy(), ALL_UP.copy()
    up[0], live[3] = False, False
    endpoint.tell_ports(0b11100, up, 0)
    endpoint.follow(live, [3, 5])
    rows = set()
    for number in range(6):
        endpoint.receive_requests(requests(EndpointOp.EV_PROBE, 0, number))
        assert endpoint.owes_answers
        rows |= {row for batch in endpoint.batches(0) for row in batch.ev_index.tolist() if len(batch) == 1}
        assert not endpoint.owes_answers
    assert rows == {3, 5}


def test_a_probe_answered_late_still_proves_its_plane_and_the_next_is_waited_for_longer():
    endpoint = Endpoint(PROFILE, SETTINGS)
    endpoint.probe(6, qpn=9)
    (batch,) = endpoint.batches(0)
    assert endpoint.drain_answers(1000) == [EvProbeAnswer(9, 6, None)]
    endpoint.receive_responses(responses(*batch.request_id.tolist()), 1500)
    assert endpoint.drain_answers(1500) == [EvProbeAnswer(9, 6, 1500)]
    assert endpoint.unasked == 0
    endpoint.probe(7, qpn=9)
    endpoint.batches(2000)
    assert endpoint.next_deadline_ns() == 5000
