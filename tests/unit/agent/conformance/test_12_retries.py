"""Retry exhaustion: queue pair error; the infinite setting survives a long outage; the tail ends in bounded time."""

import numpy as np
import pytest

from agent.core.completion import CompletionStatus
from agent.core.config import QpConfig
from agent.core.events import QpErrorReason, QpFailed, QpState
from agent.io.memory_fabric import PathRule
from agent.wire.constants import Opcode
from tests.unit.agent.conformance.agents import DATA, PAPER, step_for
from tests.unit.agent.core.qp_pair import QpPair, Weather
from tests.unit.agent.io.memory_lab import build


def test_exhausted_retries_end_the_queue_pair_and_flush_it():
    config = QpConfig(pmtu=16, ack_timeout_ns=1_000_000, linear_cnt=2, exp_cnt=2)
    pair = QpPair(1, config, writes=Weather(dead_evs=frozenset(range(16))), completions=True)
    pair.post(0, 1000, 100)
    pair.run(10**9)
    this = pair.ends[0]
    assert this.qp.state is QpState.ERROR
    assert [e.reason for e in this.events if isinstance(e, QpFailed)] == [QpErrorReason.RETRY_EXCEEDED]
    statuses = [(done.count, done.status) for done in this.qp.completions.poll()]
    assert statuses == [(1, CompletionStatus.RETRY_EXCEEDED), (9, CompletionStatus.FLUSHED)]


@pytest.mark.parametrize("outage_ns", [20_000_000, 600_000_000])
def test_the_infinite_setting_survives_an_outage(outage_ns):
    lab = build(rules=(PathRule(loss=1.0, first_ns=50_000, end_ns=outage_ns),))
    flow = lab.flow(0, 1, 2000 * 256, exp_cnt=25, ev=PAPER)
    lab.run(flow, until_ns=outage_ns + 2_000_000_000)
    assert flow.is_right()


@pytest.mark.parametrize("exp_cnt", [8, 25])
def test_infinite_is_more_than_a_number_of_retries(exp_cnt):
    """Waits of 4 ms, then 2 to 256 ms: used up after 514 ms. Infinite ones stop growing at 128 ms."""
    lab = build(rules=(PathRule(loss=1.0, first_ns=50_000, end_ns=5_000_000_000),))
    flow = lab.flow(0, 1, 2000 * 256, exp_cnt=exp_cnt, ack_timeout_ns=1_000_000)
    if exp_cnt == 25:
        lab.run(flow, until_ns=6_000_000_000)
        assert flow.is_right()
    else:
        step_for(lab, 513_000_000)
        assert flow.source.qp.state is QpState.RTS
        step_for(lab, 3_000_000)
        assert flow.source.qp.state is QpState.ERROR


@pytest.mark.parametrize("tail_probes", [False, True])
@pytest.mark.parametrize("silence_ns", [100_000, 400_000])
def test_the_last_packets_and_their_first_resends_lost(tail_probes, silence_ns):
    """The responder stays silent: it has nothing new to tell and is not asked again."""
    rule = PathRule(opcodes=(Opcode.WRITE_LAST,), loss=1.0, end_ns=silence_ns)
    lab = build(planes=1, spines=4, rules=(rule,))
    config = {"ev": PAPER} if tail_probes else {}
    flow = lab.flow(0, 1, 200 * 256, **config)
    lab.run(flow)
    assert flow.is_right()
    limit_ns = 2_500_000 if tail_probes else 11_000_000
    assert lab.fabric.now_ns <= limit_ns


@pytest.mark.parametrize("seed", range(5))
def test_lost_transport_acks_are_asked_for(seed):
    lab = build(rules=(PathRule(opcodes=(Opcode.ACKNOWLEDGE,), loss=0.7),), seed=seed)
    flow = lab.flow(0, 1, 100 * 256, message_bytes=256)
    lab.run(flow)
    assert flow.source.qp.progress().completed_messages == 100
    assert flow.source.qp.progress().requester.packets_rtx == 0


def test_without_any_transport_ack_the_queue_pair_fails_in_the_end():
    lab = build(rules=(PathRule(opcodes=(Opcode.ACKNOWLEDGE,), loss=1.0),))
    flow = lab.flow(0, 1, 100 * 256, linear_cnt=1, exp_cnt=1)
    step_for(lab, 100_000_000)
    assert flow.is_right()
    assert flow.source.qp.state is QpState.ERROR


def test_a_dead_peer_costs_each_ev_little():
    lab = build(rules=(PathRule(source=0, loss=1.0),))
    flow = lab.flow(0, 1, 2000 * 256, linear_cnt=1, exp_cnt=2, ev=PAPER)
    step_for(lab, 200_000_000)
    assert flow.source.qp.state is QpState.ERROR
    assert np.sum(flow.source.qp.ev_counters().tx_rtx) <= 4 * 4


def test_paths_that_carry_probes_but_no_data_are_not_tried_for_ever():
    lab = build(rules=(PathRule(source=0, opcodes=DATA, loss=1.0),))
    flow = lab.flow(0, 1, 20 * 256, linear_cnt=1, exp_cnt=2, ev=PAPER)
    step_for(lab, 200_000_000)
    assert flow.source.qp.state is QpState.ERROR
