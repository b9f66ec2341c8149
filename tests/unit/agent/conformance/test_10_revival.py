"""Reviving by probes; the ev_min_active floor; when all are bad one is kept."""

import numpy as np
import pytest
from msgspec.structs import replace

from agent.core.config import LossPolicy, LossRule
from agent.core.ev.state import EvSignal, EvState
from agent.core.events import EvStatesChanged
from agent.io.memory_fabric import PathRule
from agent.wire.constants import Opcode
from tests.unit.agent.conformance.agents import DATA, PAPER, retired, states_of, step_for
from tests.unit.agent.io.memory_lab import build


def test_a_path_that_heals_is_revived_only_after_enough_answers():
    rule = PathRule(plane=0, spine=1, source=0, end_ns=4_000_000, loss=1.0)
    lab = build(rules=(rule,))
    flow = lab.flow(0, 1, 1000 * 256, ev=PAPER)
    lab.run(flow)
    assert states_of(flow)[1] is EvState.ASSUMED_BAD
    step_for(lab, 20_000_000)
    assert states_of(flow)[1] is EvState.GOOD
    (back,) = [
        item.event
        for item in lab.events
        if isinstance(item.event, EvStatesChanged) and item.event.signal is EvSignal.REVIVED
    ]
    assert back.now_ns >= 4_000_000 + PAPER.revive_ns
    assert flow.source.qp.ev_counters().probes[1] >= PAPER.revive_after


def test_a_path_whose_answers_come_later_than_a_probe_is_patient_is_revived_all_the_same():
    """A queue may stand there alone: the round trips of the other paths say nothing of it."""
    slow_ns = 2 * PAPER.probe_timeout_ns
    rules = (
        PathRule(plane=0, spine=1, source=0, end_ns=4_000_000, loss=1.0),
        PathRule(plane=0, spine=1, source=0, delay_ns=slow_ns, opcodes=(Opcode.PROBE_REQUEST,)),
    )
    lab = build(rules=rules)
    flow = lab.flow(0, 1, 1000 * 256, ev=PAPER)
    lab.run(flow)
    assert states_of(flow)[1] is EvState.ASSUMED_BAD
    step_for(lab, 40_000_000)
    assert states_of(flow)[1] is EvState.GOOD


def test_a_lossy_path_is_not_revived():
    lab = build(rules=(PathRule(plane=0, spine=1, source=0, loss=0.5),), seed=3)
    flow = lab.flow(0, 1, 1000 * 256, ev=replace(PAPER, revive_after=32))
    lab.run(flow)
    assert 1 in retired(lab)
    step_for(lab, 100_000_000)
    assert states_of(flow)[1] is EvState.ASSUMED_BAD


def test_the_floor_holds_when_every_path_is_lossy():
    lab = build(rules=(PathRule(source=0, opcodes=DATA, loss=0.2),), seed=1)
    flow = lab.flow(0, 1, 2000 * 256, ev=replace(PAPER, min_active=5, revive_after=1000))
    lab.run(flow)
    assert flow.is_right()
    good = np.array([state is EvState.GOOD for state in states_of(flow)])
    assert good.sum() == 5
    assert np.bincount(flow.source.profile.planes[good]).min() >= 1


def test_all_bad_keeps_one_a_plane():
    lab = build(rules=(PathRule(source=0, opcodes=DATA, loss=0.2),), seed=1)
    flow = lab.flow(0, 1, 3000 * 256, ev=replace(PAPER, min_active=1, revive_after=1000))
    lab.run(flow)
    good = np.array([state is EvState.GOOD for state in states_of(flow)])
    assert np.bincount(flow.source.profile.planes[good], minlength=2).tolist() == [1, 1]
    assert flow.is_right()


@pytest.mark.parametrize("seed", range(8))
def test_a_dead_plane_holds_nothing_up_until_a_timeout(seed):
    """Of the first packets into it the last ones have nothing behind them but probes that could prove them late."""
    lab = build(planes=4, spines=2, rules=(PathRule(plane=seed % 4, loss=1.0),), seed=seed)
    ev = replace(PAPER, loss_policy=LossPolicy.THRESHOLD, tail_probe_ns=5_000_000, reverse_probe_ns=300_000)
    flow = lab.flow(0, 1, 2000 * 256, ev=ev, loss_rule=LossRule.BOTH, ack_timeout_ns=500_000_000, seed=seed)
    lab.run(flow, until_ns=100_000_000)
    assert flow.is_right()
    assert flow.source.qp.progress().requester.timed_out == 0
    assert retired(lab), "the plane was left"


def test_a_dead_plane_is_mapped_out_and_costs_few_packets():
    """A plane dead from the start: all its EVs leave, the flow ends, and the plane returns when it lives."""
    lab = build(planes=4, rules=(PathRule(plane=2, loss=1.0, end_ns=100_000_000),))
    flow = lab.flow(0, 1, 5000 * 256, ev=PAPER)
    lab.run(flow, until_ns=90_000_000)
    assert flow.is_right()
    dead = flow.source.profile.planes == 2
    counters = flow.source.qp.ev_counters()
    per_path = (counters.lost + counters.timed_out)[dead]
    assert set(np.array(states_of(flow))[dead]) == {EvState.ASSUMED_BAD}
    assert per_path.max() < 5
    step_for(lab, 120_000_000)
    assert EvState.GOOD in np.array(states_of(flow))[dead]
