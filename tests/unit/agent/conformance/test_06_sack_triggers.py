"""SACK on each of five triggers; LSB-first bitmap; probe answer with probe_id."""

import numpy as np

from agent.core.config import QpConfig
from agent.io.memory_fabric import PathRule
from agent.wire.constants import EcnVerdict, Opcode
from tests.unit.agent.conformance.agents import Wiretap, mark_congestion, step_for
from tests.unit.agent.core.qp_pair import REMOTE_VA, RKEY, QpPair, control_columns, write_columns
from tests.unit.agent.io.memory_lab import build

NEVER_BY_ITSELF = {"sack_gen_threshold_bytes": 1 << 30, "sack_delay_ns": 10**10}


def answer_to(rows, *, ce=False, resent=False, ask=False, threshold=False, probe=None):
    """The SACKs that answer the given packets of a batch of 100."""
    settings = {**NEVER_BY_ITSELF, "sack_gen_threshold_bytes": 9 * 1024 if threshold else 1 << 30}
    pair = QpPair(1, QpConfig(pmtu=16, window_pkts=256, **settings))
    one, two = pair.ends
    one.qp.post_writes(one.source, 0, 1600, REMOTE_VA, RKEY, 1600)
    columns = write_columns(one.qp.transmit(100, 0), pair.profile, two.qp.qpn).take(np.array(rows))
    columns.flags[:] = (0x80 if ask else 0) | (0x20 if resent else 0)
    columns.ce[:] = ce
    two.qp.receive_writes(columns, 0)
    if probe is not None:
        one.qp.probe(np.array([probe], np.uint16))
        (batch,) = one.qp.control(0)
        two.qp.receive_probes(control_columns(batch, pair.profile, two.qp.qpn), 0)
        return batch, two.qp.acknowledge(0)
    return two.qp.acknowledge(0)


def test_without_a_trigger_there_is_none():
    assert answer_to(range(9)) is None


def test_trigger_1_enough_bytes_since_the_last_one():
    assert answer_to(range(9), threshold=True) is None
    assert answer_to(range(10), threshold=True) is not None


def test_trigger_2_ack_request():
    assert answer_to([0], ask=True) is not None


def test_trigger_3_a_marked_packet():
    assert answer_to([0], ce=True).m.tolist() == [EcnVerdict.SKIP_ONCE]


def test_trigger_4_a_retransmission_and_its_echo():
    assert answer_to([0], resent=True).rtx.tolist() == [True]


def test_trigger_5_a_reliability_probe_and_its_id():
    probe, answer = answer_to([1, 3, 4], probe=5)
    assert answer.pr.tolist() == [True]
    assert answer.ack_psn_offset.view(np.uint16).tolist() == probe.probe_id.tolist()
    assert answer.ev.tolist() == [0xC0001000 + 5]


def test_bit_i_is_psn_base_plus_i_least_significant_first():
    _, answer = answer_to([1, 3, 4], probe=0)
    first = int(answer.sack_offset[0]) - 1
    assert first == 0
    assert bin(int(answer.bitmap[0]))[::-1].startswith("01011")


def test_the_probe_id_survives_the_wire():
    tap = Wiretap()
    lab = build(rules=(PathRule(source=1, opcodes=(Opcode.SACK,), alter=tap),))
    flow = lab.flow(0, 1, 256)
    flow.source.qp._requester.prober._next_id = 0xFFFE
    flow.source.qp.probe(np.arange(3, dtype=np.uint16))
    step_for(lab, 1_000_000)
    sacks = tap.decoded(lab.engine.hosts[0].address.address).sacks
    assert sacks.ack_psn_offset[sacks.pr].view(np.uint16).tolist() == [0xFFFE, 0xFFFF, 0]
    assert flow.source.qp.progress().requester.probes_answered == 3


def test_a_mark_on_the_outer_header_is_reflected():
    tap = Wiretap()
    rules = (
        PathRule(source=0, spine=2, plane=0, alter=mark_congestion),
        PathRule(source=1, opcodes=(Opcode.SACK,), alter=tap),
    )
    lab = build(rules=rules)
    flow = lab.flow(0, 1, 100 * 256)
    lab.run(flow)
    sacks = tap.decoded(lab.engine.hosts[0].address.address).sacks
    marked = sacks.m == EcnVerdict.SKIP_ONCE
    assert set(sacks.ev[marked].tolist()) == {0xC0001002}
