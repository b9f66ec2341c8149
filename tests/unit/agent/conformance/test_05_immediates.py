"""Write-with-Immediate: completion order with shuffled packets; the limits end in an error."""

import numpy as np
import pytest

from agent.core.completion import CompletionStatus
from agent.core.config import PeerQp, QpConfig
from agent.core.events import QpErrorReason, QpFailed, QpState
from agent.io.memory_fabric import PathRule
from tests.unit.agent.core.qp_pair import REMOTE_VA, RKEY, QpPair, Weather, write_columns
from tests.unit.agent.io.memory_lab import build


@pytest.mark.parametrize("seed", range(10))
def test_immediates_come_in_the_order_sent_whatever_the_packets_do(seed):
    rules = tuple(PathRule(spine=spine, delay_ns=spine * 150_000, loss=0.03) for spine in range(4))
    lab = build(rules=rules, seed=seed)
    flow = lab.flow(0, 1, 1, imm=0)
    rng = np.random.default_rng(seed)
    expected, offset = [0], 1
    for number in range(1, 60):
        size = int(rng.integers(1, 3000))
        imm = number if rng.random() < 0.7 else None
        region = lab.engine.hosts[0].regions.lookup(flow.sent.rkey)
        flow.source.qp.post_writes(region, 0, 1, flow.received.va, flow.received.rkey, size, imm)
        offset += size
        expected += [imm] if imm is not None else []
    flow.target.qp.post_receives(1000, len(expected))
    lab.run(flow)
    arrived = flow.target.qp.completions.poll()
    assert [item.imm for item in arrived] == expected
    assert [item.wr_id for item in arrived] == sorted(item.wr_id for item in arrived)


def test_an_immediate_says_that_all_before_it_is_in_memory():
    pair = QpPair(3, QpConfig(pmtu=16, ack_timeout_ns=5_000_000), writes=Weather(loss=0.1, spread_ns=300_000))
    one, two = pair.ends
    two.qp.post_receives(0, 1)
    one.qp.post_writes(one.source, 0, 4000, REMOTE_VA, RKEY, 100)
    one.qp.post_write(one.source, 4000, 1, REMOTE_VA + 4000, RKEY, imm=7)
    while not len(two.qp.completions):
        pair.step()
    assert np.array_equal(two.sink.data[:4001], one.source.data[:4001])


def test_the_requester_keeps_to_the_limit():
    pair = QpPair(1, QpConfig(pmtu=16, max_wimm=4))
    one, two = pair.ends
    two.qp.post_receives(0, 20)
    one.qp.post_writes(one.source, 0, 320, REMOTE_VA, RKEY, 16, imm=5)
    assert len(one.qp.transmit(100, pair.now_ns)) == 4
    assert one.qp.transmit(100, pair.now_ns) is None


def test_too_many_in_flight_end_in_an_invalid_request():
    pair = QpPair(1, QpConfig(pmtu=16, max_wimm=4), completions=True)
    one, two = pair.ends
    one.qp._requester._max_wimm = 100
    two.qp.post_receives(0, 20)
    one.qp.post_writes(one.source, 0, 320, REMOTE_VA, RKEY, 16, imm=5)
    batch = one.qp.transmit(100, pair.now_ns)
    # The first is lost, so none of the others is delivered.
    rest = batch.take(np.arange(1, len(batch)))
    two.qp.receive_writes(write_columns(rest, pair.profile, two.qp.qpn), pair.now_ns)
    pair.run(10**9)
    assert [end.qp.state for end in pair.ends] == [QpState.ERROR, QpState.ERROR]
    reasons = [[e.reason for e in end.events if isinstance(e, QpFailed)] for end in pair.ends]
    assert reasons == [[QpErrorReason.REMOTE_INVALID_REQUEST], [QpErrorReason.LOCAL_WIMM_OVERFLOW]]
    first, *flushed = one.qp.completions.poll()
    assert (first.first_wr_id, first.status) == (0, CompletionStatus.REMOTE_INVALID_REQUEST)
    assert [(item.count, item.status) for item in flushed] == [(19, CompletionStatus.FLUSHED)]


def test_an_immediate_without_a_receive_ends_in_an_error():
    pair = QpPair(1, QpConfig(pmtu=16))
    one = pair.ends[0]
    one.qp.post_write(one.source, 0, 16, REMOTE_VA, RKEY, imm=5)
    pair.run(10**9)
    reasons = [[e.reason for e in end.events if isinstance(e, QpFailed)] for end in pair.ends]
    assert reasons == [[QpErrorReason.REMOTE_OPERATION_ERROR], [QpErrorReason.LOCAL_NO_RECEIVE]]


def test_an_access_violation_ends_both_ends():
    pair = QpPair(1, QpConfig(pmtu=16), completions=True)
    one, two = pair.ends
    one.qp.post_writes(one.source, 0, 32, REMOTE_VA, RKEY, 16)
    one.qp.post_writes(one.source, 0, 32, REMOTE_VA, RKEY + 1, 16)
    pair.run(10**9)
    reasons = [[e.reason for e in end.events if isinstance(e, QpFailed)] for end in pair.ends]
    assert reasons == [[QpErrorReason.REMOTE_ACCESS_ERROR], [QpErrorReason.LOCAL_ACCESS_ERROR]]
    assert two.sink.data[:32].any()


def test_what_the_peer_offers_bounds_what_we_send():
    pair = QpPair(1, QpConfig(pmtu=16, window_pkts=1000, mpr=8))
    assert pair.ends[0].qp.offer() == PeerQp(100, pair.ends[0].qp.start_psn, 8, 128, False, port_mask=False)
