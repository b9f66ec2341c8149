"""Out-of-order arrival, gaps of more than 64, duplicates, window edge."""

import pytest

from agent.core.config import LossRule
from agent.io.memory_fabric import PathRule
from tests.unit.agent.conformance.agents import DATA
from tests.unit.agent.io.memory_lab import build

SIZE = 1500 * 256


def test_packets_that_overtake_each_other_between_paths_are_no_loss():
    lab = build(rules=tuple(PathRule(spine=spine, delay_ns=spine * 300_000) for spine in range(4)))
    flow = lab.flow(0, 1, SIZE)
    lab.run(flow)
    assert flow.is_right()
    assert flow.source.qp.progress().requester.packets_rtx == 0


@pytest.mark.parametrize("seed", range(5))
def test_packets_that_overtake_each_other_within_a_path_are_tolerated(seed):
    """The generic rule: late is not lost."""
    lab = build(rules=(PathRule(opcodes=DATA, jitter_ns=60_000),), seed=seed)
    flow = lab.flow(0, 1, SIZE, loss_rule=LossRule.GENERIC, reorder_floor_ns=150_000)
    lab.run(flow)
    assert flow.is_right()
    assert flow.source.qp.progress().requester.packets_rtx <= 5


@pytest.mark.parametrize("seed", range(5))
def test_losses_are_found_where_paths_reorder(seed):
    lab = build(rules=(PathRule(opcodes=DATA, jitter_ns=60_000, loss=0.02),), seed=seed)
    flow = lab.flow(0, 1, SIZE, loss_rule=LossRule.GENERIC, reorder_floor_ns=150_000)
    lab.run(flow)
    sent = flow.source.qp.progress().requester
    assert flow.is_right()
    assert sent.packets_rtx <= lab.fabric.counts[0].dropped + 5
    assert sent.lost > 0


def test_more_than_64_packets_are_held_behind_a_gap():
    held = 0
    lab = build(planes=1, spines=1, rules=(PathRule(opcodes=(0xC6,), end_ns=1, loss=1.0),))
    flow = lab.flow(0, 1, 400 * 256)
    while not flow.is_complete():
        lab.engine.step(lab.fabric.now_ns)
        held = max(held, flow.target.qp.progress().held_pkts)
        lab.fabric.advance(lab.fabric.now_ns + 5_000)
    assert held == 399
    assert flow.is_right()
    assert flow.source.qp.progress().requester.packets_rtx == 1


def test_duplicates_are_placed_once_and_answered():
    lab = build(rules=(PathRule(duplicate=0.2),))
    flow = lab.flow(0, 1, SIZE)
    lab.run(flow)
    received = flow.target.qp.progress().responder
    assert flow.is_right()
    assert (received.received, received.received_bytes) == (1500, SIZE)
    assert received.duplicates > 200


@pytest.mark.parametrize("nack", [False, True])
def test_what_lies_beyond_the_window_is_dropped_or_nacked(nack):
    """The requester believes in a wider window than the responder has."""
    lab = build(rules=(PathRule(spine=1, delay_ns=400_000),))
    flow = lab.flow(0, 1, 3000 * 256, window_pkts=1024, nack_out_of_window=nack, mpr_dest=8)
    flow.target.qp._responder._window_psns = 128
    lab.run(flow)
    received = flow.target.qp.progress().responder
    assert flow.is_right()
    assert received.out_of_window > 0
    assert (received.nacks > 0) is nack
