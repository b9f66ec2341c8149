"""Trim at a fabric hop: SKIP; at the last hop: no EV change; the payload is never written. All NACK reasons."""

import pytest

from agent.core.ev.state import EvState
from agent.core.events import PacketsNacked, QpErrorReason, QpFailed, QpState
from agent.io.memory_fabric import PathRule
from agent.wire.constants import Dscp, NackReason
from tests.unit.agent.conformance.agents import PAPER, retired, states_of, step_for, trimmer
from tests.unit.agent.io.memory_lab import build

SIZE = 1000 * 256


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("dscp", [Dscp.TRIMMED, Dscp.TRIMMED_LASTHOP])
def test_trimmed_packets_are_sent_again_and_no_ev_is_retired(seed, dscp):
    lab = build(rules=(PathRule(source=0, alter=trimmer(0.05, seed, dscp)),), seed=seed)
    flow = lab.flow(0, 1, SIZE, ev=PAPER)
    lab.run(flow)
    sent, received = flow.source.qp.progress().requester, flow.target.qp.progress().responder
    assert flow.is_right(), "a trimmed payload was written"
    assert received.trimmed > 20
    assert sent.nacked + sent.nacks_stale == received.nacks == received.trimmed
    assert sent.packets_rtx == sent.nacked
    assert not retired(lab)
    skips = flow.source.qp._requester.ev_set.skips
    assert bool(skips.any()) is (dscp is Dscp.TRIMMED)


def test_a_trim_inside_the_fabric_skips_that_ev_only():
    lab = build(rules=(PathRule(source=0, spine=1, plane=1, alter=trimmer(1.0, 0)),))
    flow = lab.flow(0, 1, 64 * 256, ev=PAPER)
    lab.run(flow)
    skips = flow.source.qp._requester.ev_set.skips
    assert skips.nonzero()[0].tolist() == [5]


@pytest.mark.parametrize(
    "reason", [NackReason.NO_BITMAP, NackReason.NO_PKT_BUFFER, NackReason.NO_RESOURCE, NackReason.PSN_OOR_WINDOW]
)
def test_what_the_responder_is_short_of_is_retried_without_blame(reason):
    lab = build()
    flow = lab.flow(0, 1, SIZE, ev=PAPER)
    flow.target.qp.refuse(reason, 30)
    lab.run(flow)
    sent = flow.source.qp.progress().requester
    told = [item.event for item in lab.events if isinstance(item.event, PacketsNacked)]
    assert flow.is_right()
    assert sent.nacked == sent.packets_rtx == sum(sum(event.counts) for event in told) == 30
    assert {event.reason for event in told} == {reason}
    assert set(states_of(flow)) == {EvState.GOOD}


def test_an_unexpected_event_is_fatal():
    lab = build()
    flow = lab.flow(0, 1, SIZE)
    flow.target.qp.refuse(NackReason.UNEXP_EVENT, 1)
    step_for(lab, 2_000_000)
    (failed,) = [item.event for item in lab.events if isinstance(item.event, QpFailed)]
    assert failed.reason is QpErrorReason.REMOTE_OPERATION_ERROR
    assert flow.source.qp.state is QpState.ERROR


def test_a_responder_that_refuses_for_ever_exhausts_the_retries():
    lab = build()
    flow = lab.flow(0, 1, SIZE)
    flow.target.qp.refuse(NackReason.NO_RESOURCE, 1 << 30)
    step_for(lab, 3_000_000_000)
    (failed,) = [item.event for item in lab.events if isinstance(item.event, QpFailed)]
    assert failed.reason is QpErrorReason.RETRY_EXCEEDED
