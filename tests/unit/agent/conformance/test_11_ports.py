"""Port down: the plane leaves both ends' rotation; restored promptly."""

from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs

from agent.core.ev.state import EvState
from agent.core.events import QpErrorReason, QpFailed, QpState
from agent.io.memory_fabric import PathRule
from agent.wire.constants import Opcode
from tests.unit.agent.conformance.agents import DATA, PAPER, states_of, step_for
from tests.unit.agent.core.test_requester import sacks_of
from tests.unit.agent.io.memory_lab import build

MASKED = structs.replace(PAPER, port_mask=True)
PLANE = 1


def sent_per_plane(flow):
    return np.bincount(flow.source.profile.planes, weights=flow.source.qp.ev_counters().tx_first)


@pytest.mark.parametrize(
    ("falls", "told_by"), [(0, "mask"), (1, "update"), (1, "mask"), (0, "mask and update")], ids=str
)
def test_the_plane_of_a_fallen_port_is_left_by_both_ends_and_taken_back(falls, told_by):
    rules = () if "update" in told_by else (PathRule(opcodes=(Opcode.ENDPOINT_REQUEST,), loss=1.0),)
    lab = build(planes=4, rules=rules)
    ev = MASKED if "mask" in told_by else PAPER
    flow = lab.flow(0, 1, 200_000 * 256 // 16, ev=ev, ack_timeout_ns=2_000_000, pmtu=16, window_pkts=64)
    back = lab.flow(1, 0, 200_000 * 256 // 16, ev=ev, ack_timeout_ns=2_000_000, pmtu=16, window_pkts=64)
    step_for(lab, 1_000_000)
    port = lab.engine.hosts[falls].ports[PLANE]
    port.is_up = False
    step_for(lab, 13_000_000)
    before = [sent_per_plane(one) for one in (flow, back)]
    step_for(lab, 2_000_000)
    sent = [sent_per_plane(one) - was for one, was in zip((flow, back), before, strict=True)]
    for shares in sent:
        assert shares[PLANE] == 0
        assert shares.sum() > 0
        others = np.delete(shares, PLANE)
        assert np.ptp(others) <= 0.1 * others.mean()
    port.is_up = True
    step_for(lab, 12_000_000)
    before = [sent_per_plane(one) for one in (flow, back)]
    step_for(lab, 2_000_000)
    for one, was in zip((flow, back), before, strict=True):
        shares = sent_per_plane(one) - was
        assert shares[PLANE] > 0.8 * shares.mean(), "the plane did not come back"
        assert set(states_of(one)) == {EvState.GOOD}
    assert flow.source.qp.state is back.source.qp.state is QpState.RTS


def test_all_ports_down_cannot_be_ridden_out():
    lab = build()
    flow = lab.flow(0, 1, 2000 * 256, linear_cnt=1, exp_cnt=2, ev=PAPER)
    for port in lab.engine.hosts[0].ports.values():
        port.is_up = False
    step_for(lab, 400_000_000)
    failed = [item.event.reason for item in lab.events if isinstance(item.event, QpFailed)]
    assert failed == [QpErrorReason.RETRY_EXCEEDED]
    assert flow.source.qp.state is QpState.ERROR


def test_a_lost_update_is_repeated_until_it_is_answered():
    lab = build(rules=(PathRule(opcodes=(Opcode.ENDPOINT_REQUEST,), loss=1.0, end_ns=30_000_000),))
    lab.flow(0, 1, 256)
    step_for(lab, 1_000_000)
    lab.engine.hosts[0].ports[1].is_up = False
    step_for(lab, 60_000_000)
    (neighbour,) = lab.engine.hosts[1].neighbours
    assert neighbour.endpoint.peer_ports.mask == 0b10
    (sender,) = lab.engine.hosts[0].neighbours
    sent = sender.endpoint.updates_sent
    step_for(lab, 20_000_000)
    assert sender.endpoint.updates_sent == sent


@pytest.mark.parametrize("host", [0, 1], ids=["sender", "receiver"])
def test_a_queue_pair_made_while_a_port_is_down_leaves_its_plane(host):
    """Whoever's port it is, at the first packet or later, also for a second queue pair of the two hosts."""
    sent = PathRule(source=0, plane=PLANE, opcodes=DATA)
    lab = build(planes=4, rules=(sent,))
    lab.engine.hosts[host].ports[PLANE].is_up = False
    step_for(lab, 20_000_000)
    for _ in range(2):
        lab.run(lab.flow(0, 1, 2000 * 256))
        assert lab.fabric.counts[0].seen <= (128 if host else 0), "only what left before the news came"
        lab.fabric.counts[0].seen = 0
    second = lab.flow(0, 1, 100 * 256)
    assert not second.source.qp._requester.ev_set.plane_up[PLANE], "what is known of the peer is adopted"
    lab.run(second)
    assert lab.fabric.counts[0].seen == 0


def test_a_late_copy_of_an_old_update_changes_nothing():
    """The port is down for 15 ms; one plane has a queue of 20 ms: its copy of "down" comes after "up"."""
    queue = PathRule(opcodes=(Opcode.ENDPOINT_REQUEST,), source=1, plane=0, delay_ns=20_000_000)
    lab = build(planes=4, rules=(queue,))
    flow = lab.flow(0, 1, 200_000 * 16, pmtu=16, window_pkts=64)
    step_for(lab, 15_000_000)
    (known,) = lab.engine.hosts[0].neighbours
    assert known.endpoint.peer_ports.mask is None
    for is_up, wait_ns in ((False, 15_000_000), (True, 40_000_000)):
        lab.engine.hosts[1].hold_port(3, is_up, lab.fabric.now_ns)
        step_for(lab, wait_ns)
    assert lab.fabric.counts[0].seen == 1, "the last copy of the first change"
    assert known.endpoint.peer_ports.mask == 0b11110
    assert flow.source.qp._requester.ev_set.plane_up[3]


@pytest.mark.parametrize("mask", [0, 1 << 20], ids=["none", "none of ours"])
def test_a_peer_that_says_no_port_works_is_heard_and_does_not_stop_the_flow(mask):
    lab = build(planes=2)
    flow = lab.flow(0, 1, 500 * 256)
    flow.source.qp.on_peer_ports(0b010, lab.fabric.now_ns)
    flow.source.qp.on_peer_ports(mask, lab.fabric.now_ns)
    assert flow.source.qp._requester.ev_set.remote_up[:2].tolist() == [True, False], "as it was"
    lab.run(flow)
    assert flow.is_right()


def test_a_stale_sack_does_not_bring_back_what_an_update_has_overruled():
    lab = build(planes=2)
    flow = lab.flow(0, 1, 500 * 256, ev=MASKED)
    lab.run(flow)
    qp = flow.source.qp
    qp.on_peer_ports(0b010, lab.fabric.now_ns)
    old = replace(sacks_of(set()), port_mask=np.array([0b110], np.uint32))
    qp.receive_sacks(replace(old, cack_psn=np.array([qp.start_psn - 1 & 0xFFFFFF], np.uint32)), lab.fabric.now_ns)
    assert qp._requester.ev_set.remote_up[:2].tolist() == [True, False]


def test_ev_probes_find_a_reverse_path_when_only_receiving():
    """The first EV of each plane is dead towards the sender: SACKs get through once a probe has found another."""
    rules = (PathRule(source=1, spine=0, loss=1.0),)
    lab = build(rules=rules)
    flow = lab.flow(0, 1, 4000 * 256, ev=structs.replace(PAPER, reverse_probe_ns=100_000), window_pkts=64)
    lab.run(flow)
    assert flow.is_right()
    (neighbour,) = lab.engine.hosts[1].neighbours
    assert neighbour.endpoint.probes_answered > 0
    assert int(flow.target.profile.evs[flow.target.qp._responder.reverse.row]) & 0xFF != 0


def packets_acked_in_20_ms(*rules):
    """By a sender whose window is small, once start and detection are over."""
    lab = build(planes=4, spines=2, rules=rules)
    ev = structs.replace(PAPER, reverse_probe_ns=300_000)
    flow = lab.flow(0, 1, 40_000 * 16, ev=ev, window_pkts=32, pmtu=16, ack_timeout_ns=10_000_000)
    step_for(lab, 40_000_000)
    before = flow.source.qp.ev_counters().acked.sum()
    step_for(lab, 20_000_000)
    assert not flow.is_complete()
    return flow.source.qp.ev_counters().acked.sum() - before, flow


def test_a_plane_dead_from_the_start_does_not_slow_the_rest():
    """The receiver only receives: probes tell it which planes bring its SACKs back."""
    healthy, _ = packets_acked_in_20_ms()
    with_dead_plane, flow = packets_acked_in_20_ms(PathRule(plane=3, loss=1.0))
    planes = flow.target.profile.planes[flow.target.qp.reverse_rows()]
    assert planes.tolist() == [0, 1, 2]
    assert with_dead_plane > 0.9 * healthy


def test_a_silent_plane_carries_sacks_again_once_it_is_mended():
    lab = build(planes=4, spines=2, rules=(PathRule(plane=3, loss=1.0, end_ns=50_000_000),))
    ev = structs.replace(PAPER, reverse_probe_ns=300_000)
    flow = lab.flow(0, 1, 80_000 * 16, ev=ev, window_pkts=32, pmtu=16, ack_timeout_ns=10_000_000)
    step_for(lab, 50_000_000)
    assert len(flow.target.qp.reverse_rows()) == 3
    step_for(lab, 20_000_000)
    assert not flow.is_complete()
    assert len(flow.target.qp.reverse_rows()) == 4


def test_a_queue_pair_that_sends_too_leaves_the_planes_its_own_data_cannot_cross():
    lab = build(planes=4, spines=2, rules=(PathRule(plane=3, loss=1.0),))
    flow = lab.flow(0, 1, 20_000 * 16, ev=PAPER, window_pkts=32, pmtu=16, ack_timeout_ns=10_000_000)
    step_for(lab, 25_000_000)
    planes = flow.source.profile.planes[flow.source.qp.reverse_rows()]
    assert planes.tolist() == [0, 1, 2]


def test_who_only_sends_answers_probes_where_its_data_gets_through():
    """It asks nobody itself: a dead plane and a dead spine it knows by its own losses only."""
    answers = PathRule(opcodes=(Opcode.ENDPOINT_RESPONSE,), source=0, first_ns=25_000_000)
    watched = (replace(answers, plane=3), replace(answers, plane=1, spine=0), answers)
    dead = (PathRule(plane=3, loss=1.0), PathRule(plane=1, spine=0, source=0, loss=1.0))
    lab = build(planes=4, spines=2, rules=(*watched, *dead))
    ev = structs.replace(PAPER, reverse_probe_ns=300_000)
    flow = lab.flow(0, 1, 60_000 * 16, ev=ev, window_pkts=32, pmtu=16, ack_timeout_ns=10_000_000)
    step_for(lab, 40_000_000)
    assert not flow.is_complete()
    (neighbour,) = lab.engine.hosts[0].neighbours
    assert neighbour.endpoint.probes_sent == 0
    in_dead_plane, over_dead_spine, in_all = (count.seen for count in lab.fabric.counts[:3])
    assert (in_dead_plane, over_dead_spine) == (0, 0)
    assert in_all > 20
