"""The whole transport over the fabric in memory: real bytes, virtual time, trouble by seed. All data must be right."""

from dataclasses import replace

import numpy as np
import pytest

from agent.core.config import EvConfig, LossPolicy
from agent.core.events import MessagesCompleted, PacketsTimedOut
from agent.io.engine import TURN_FRAMES, batch_limit
from agent.io.host_runtime import HostRuntime, by_hand_qpn
from agent.io.memory_fabric import PathRule
from agent.wire.array.decode import RejectReason
from agent.wire.array.encode import encode_writes
from agent.wire.array.template import FlowTemplate
from agent.wire.constants import WRITE_OPCODES, Opcode
from tests.unit.agent.io.memory_lab import build

DATA = tuple(WRITE_OPCODES)
SIZE = 2000 * 256


def totals(lab, flow):
    return flow.source.qp.progress().requester, flow.target.qp.progress().responder


def test_two_hosts_two_planes_without_trouble_send_every_packet_once():
    lab = build()
    flow = lab.flow(0, 1, SIZE)
    lab.run(flow)
    sent, received = totals(lab, flow)
    assert flow.is_right()
    assert (sent.packets_tx, sent.packets_rtx, received.received, received.duplicates) == (2000, 0, 2000, 0)
    completed = [item.event for item in lab.events if isinstance(item.event, MessagesCompleted)]
    assert [event.length_bytes for event in completed] == [SIZE]
    assert all(not runtime.rejected and not runtime.unknown_qp for runtime in lab.engine.hosts.values())


@pytest.mark.parametrize("per_leaf", [1, 2])
def test_four_hosts_write_to_each_other_at_once(per_leaf):
    lab = build(4, per_leaf=per_leaf)
    pairs = [(source, (source + stride) % 4) for source in range(4) for stride in (1, 3)]
    flows = [lab.flow(*pair, 300 * 256, message_bytes=7000) for pair in pairs]
    lab.run(*flows)
    assert all(flow.is_right() for flow in flows)
    assert sum(totals(lab, flow)[0].packets_rtx for flow in flows) == 0


@pytest.mark.parametrize("size", [1, 255, 256, 257, 100_003])
@pytest.mark.parametrize("message_bytes", [1000, 1 << 20])
def test_any_length_arrives(size, message_bytes):
    lab = build()
    flow = lab.flow(0, 1, size, message_bytes=message_bytes)
    lab.run(flow)
    assert flow.is_right()


def ask_what_is_not_due(channel, now_ns: int) -> bool:
    """Whether a queue pair that is not due was asked; it must have nothing to say."""
    qp = channel.qp
    if qp.is_due(now_ns):
        return False
    deadline_ns = qp.next_deadline_ns()
    assert deadline_ns is None or deadline_ns > now_ns
    assert (qp.control(now_ns), qp.acknowledge(now_ns), qp.wanted_ev_probe(now_ns)) == ([], None, None)
    return True


@pytest.mark.parametrize("seed", range(10))
def test_who_is_not_due_has_nothing_to_say(seed, monkeypatch):
    """Queue pairs and neighbours are passed over until something happens: whoever is asked all the same is silent."""
    asked = {"queue pairs": 0, "neighbours": 0}
    serve = HostRuntime.serve

    def serve_and_ask(runtime, now_ns):
        sent = serve(runtime, now_ns)
        asked["queue pairs"] += sum(ask_what_is_not_due(channel, now_ns) for channel in runtime.channels.values())
        if not runtime.neighbours.are_due(now_ns):
            asked["neighbours"] += 1
            assert ([*runtime.neighbours.batches(now_ns)], [*runtime.neighbours.answers(now_ns)]) == ([], [])
        return sent

    monkeypatch.setattr(HostRuntime, "serve", serve_and_ask)
    lab = build(rules=(PathRule(loss=0.1), PathRule(plane=0, spine=1, first_ns=300_000, loss=1.0)), seed=seed)
    ev = EvConfig(loss_policy=LossPolicy.THRESHOLD, tail_probe_ns=500_000, reverse_probe_ns=300_000, port_mask=True)
    flows = [lab.flow(*hosts, 500 * 256, message_bytes=5000, ev=ev) for hosts in ((0, 1), (1, 0), (0, 1))]
    lab.run(*flows)
    assert all(flow.is_right() for flow in flows)
    assert min(asked.values()) > 100


@pytest.mark.parametrize("seed", range(5))
def test_lost_packets_and_only_those_are_sent_again(seed):
    lab = build(rules=(PathRule(opcodes=DATA, loss=0.01),), seed=seed)
    flow = lab.flow(0, 1, SIZE)
    lab.run(flow)
    sent, received = totals(lab, flow)
    assert flow.is_right()
    assert lab.fabric.counts[0].dropped > 5
    assert sent.packets_rtx == lab.fabric.counts[0].dropped
    assert received.duplicates == 0


@pytest.mark.parametrize("seed", range(3))
def test_heavy_loss_of_data_and_sacks_is_survived(seed):
    lab = build(rules=(PathRule(loss=0.2),), seed=seed)
    flow = lab.flow(0, 1, 500 * 256)
    lab.run(flow)
    assert flow.is_right()


@pytest.mark.parametrize("seed", range(3))
def test_lost_sacks_cost_no_retransmission_while_data_flows(seed):
    lab = build(rules=(PathRule(opcodes=(Opcode.SACK,), loss=0.3),), seed=seed)
    flow = lab.flow(0, 1, SIZE)
    lab.run(flow)
    sent, received = totals(lab, flow)
    assert flow.is_right()
    assert sent.lost == 0, "a lost SACK is no evidence of lost data"
    assert received.duplicates == sent.packets_rtx == sent.timed_out


def test_one_lossy_path_is_the_only_one_with_losses():
    lab = build(rules=(PathRule(plane=1, spine=2, source=0, loss=0.5),))
    flow = lab.flow(0, 1, SIZE)
    lab.run(flow)
    counters = flow.source.qp.ev_counters()
    bad = flow.source.profile.evs == 0xC0001102
    assert flow.is_right()
    assert counters.lost[bad].sum() + counters.timed_out[bad].sum() == lab.fabric.counts[0].dropped
    assert (counters.lost[~bad] + counters.timed_out[~bad]).sum() == 0


def test_a_path_that_dies_for_a_while_is_survived():
    lab = build(rules=(PathRule(plane=0, spine=1, first_ns=50_000, end_ns=20_000_000, loss=1.0),))
    flow = lab.flow(0, 1, SIZE)
    lab.run(flow)
    assert flow.is_right()
    assert any(isinstance(item.event, PacketsTimedOut) for item in lab.events)


def test_a_plane_that_dies_for_a_while_is_survived():
    lab = build(rules=(PathRule(plane=0, first_ns=50_000, end_ns=12_000_000, loss=1.0),))
    flow = lab.flow(0, 1, SIZE)
    lab.run(flow)
    assert flow.is_right()


def test_a_plane_that_stays_dead_is_survived():
    """Nothing retires it, yet resends leave a plane in which nothing is heard."""
    lab = build(rules=(PathRule(plane=0, loss=1.0),))
    flow = lab.flow(0, 1, SIZE)
    lab.run(flow, until_ns=200_000_000)
    assert flow.is_right()


def test_duplicates_are_placed_once():
    lab = build(rules=(PathRule(duplicate=0.1),))
    flow = lab.flow(0, 1, SIZE)
    lab.run(flow)
    sent, received = totals(lab, flow)
    assert flow.is_right()
    assert received.received == 2000
    assert received.duplicates > 100
    assert sent.packets_rtx == 0


def test_reordering_between_paths_is_no_loss():
    rules = tuple(PathRule(spine=spine, delay_ns=spine * 200_000) for spine in range(4))
    lab = build(rules=rules)
    flow = lab.flow(0, 1, SIZE)
    lab.run(flow)
    assert flow.is_right()
    assert totals(lab, flow)[0].packets_rtx == 0


@pytest.mark.parametrize("seed", range(3))
def test_reordering_within_paths_with_loss_and_duplicates_is_survived(seed):
    lab = build(rules=(PathRule(jitter_ns=300_000, loss=0.02, duplicate=0.02),), seed=seed)
    flow = lab.flow(0, 1, SIZE)
    lab.run(flow)
    assert flow.is_right()


def test_broken_frames_are_counted_and_replaced():
    def flip_a_payload_bit(frames, lengths):
        frames[::10, 140] ^= 1

    lab = build(rules=(PathRule(opcodes=DATA, end_ns=30_000, alter=flip_a_payload_bit),))
    flow = lab.flow(0, 1, SIZE)
    lab.run(flow)
    rejected = lab.engine.hosts[1].rejected
    assert flow.is_right()
    assert rejected[RejectReason.BAD_ICRC] == totals(lab, flow)[0].packets_rtx > 0


def test_the_psn_wraps_in_mid_flow():
    lab = build(rules=(PathRule(loss=0.01),))
    flow = lab.flow(0, 1, SIZE, start_psn=(1 << 24) - 700)
    lab.run(flow)
    assert flow.is_right()


def test_the_same_seed_gives_the_same_run():
    def story():
        lab = build(rules=(PathRule(loss=0.05),), seed=7)
        flow = lab.flow(0, 1, SIZE)
        lab.run(flow)
        return lab.fabric.now_ns, flow.source.qp.progress()

    assert story() == story()


def test_packets_for_unknown_queue_pairs_are_counted():
    lab = build()
    flow = lab.flow(0, 1, 10 * 256)
    del lab.engine.hosts[1].channels[flow.target.qpn]
    lab.engine.step(0)
    lab.fabric.advance(100_000)
    lab.engine.step(100_000)
    assert lab.engine.hosts[1].unknown_qp == 10


@pytest.mark.parametrize(("target", "counted"), [(by_hand_qpn(0), 0), (by_hand_qpn(1), 1), (0x77, 1)])
def test_answers_to_packets_built_by_hand_on_this_host_are_not_unknown(target, counted):
    lab = build()
    flow = lab.flow(1, 0, 256)
    there, here = lab.engine.hosts[0], lab.engine.hosts[1]
    elsewhere = FlowTemplate.for_peer(here.address, there.address, target, flow.source.profile.evs)
    here.channels[flow.source.qpn] = replace(flow.source, template=elsewhere)
    lab.engine.step(0)
    lab.fabric.advance(100_000)
    lab.engine.step(100_000)
    assert there.unknown_qp == counted


def test_frames_queued_whole_leave_before_data():
    opcodes = []
    lab = build(planes=1, rules=(PathRule(source=0, alter=lambda frames, _: opcodes.extend(frames[:, 102].tolist())),))
    flow = lab.flow(0, 1, 2 * 256)
    first = np.zeros((1, 400), np.uint8)
    encode_writes(flow.source.template, flow.source.qp.transmit(1, 0), first)
    first[0, 102] = 0xFF
    lab.engine.hosts[0].send_frame(0, first[0].tobytes())
    lab.engine.step(0)
    assert opcodes == [0xFF, Opcode.WRITE_LAST]


def test_a_turn_is_bounded_and_nobody_is_left_out():
    lab = build(4)
    flows = [lab.flow(source, (source + stride) % 4, SIZE) for source in range(4) for stride in (1, 2, 3)]
    batch = batch_limit(len(flows))
    for turn in range(6):
        lab.engine.step(lab.fabric.now_ns)
        sent = [totals(lab, flow)[0].packets_tx for flow in flows]
        assert sum(sent) == TURN_FRAMES * (turn + 1)
        assert max(sent) == batch, "nobody sends twice before all have sent once"
    assert min(sent) == batch


def test_a_process_that_slept_reads_its_sacks_before_it_believes_a_timeout():
    lab = build()
    flow = lab.flow(0, 1, SIZE)
    lab.engine.step(0)
    lab.fabric.advance(100_000)
    lab.engine.step(100_000)
    lab.fabric.advance(60_000_000)
    lab.engine.step(60_000_000)
    assert totals(lab, flow)[0].timed_out == 0
    lab.run(flow)
    assert flow.is_right()
