"""RETH on each packet; DMALen constant; VA advances by PMTU; First/Middle/Last/Only and immediate opcodes."""

import numpy as np
import pytest

from agent.io.memory_fabric import PathRule
from agent.wire.constants import Opcode
from tests.unit.agent.conformance.agents import DATA, Wiretap
from tests.unit.agent.io.memory_lab import build


def sent(size, message_bytes, imm=None):
    tap = Wiretap()
    lab = build(planes=1, rules=(PathRule(source=0, opcodes=DATA, alter=tap),))
    flow = lab.flow(0, 1, size, message_bytes=message_bytes, imm=imm)
    lab.run(flow)
    assert flow.is_right()
    return flow, tap.decoded(lab.engine.hosts[1].address.address).writes


def test_every_packet_carries_a_whole_reth():
    flow, writes = sent(1000, 1000)
    assert writes.opcode.tolist() == [Opcode.WRITE_FIRST, Opcode.WRITE_MIDDLE, Opcode.WRITE_MIDDLE, Opcode.WRITE_LAST]
    assert set(writes.dmalen.tolist()) == {1000}
    assert np.diff(writes.va.astype(np.int64)).tolist() == [256, 256, 256]
    assert set(writes.rkey.tolist()) == {flow.received.rkey}
    assert writes.payload_bytes.tolist() == [256, 256, 256, 232]
    assert set(writes.msn.tolist()) == {0}
    assert set(writes.rqmsn.tolist()) == {0}


def test_short_messages_are_only_packets_with_a_msn_each():
    _, writes = sent(1000, 250)
    assert set(writes.opcode.tolist()) == {Opcode.WRITE_ONLY}
    assert writes.msn.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("message_bytes", "opcodes"),
    [
        (1000, [Opcode.WRITE_FIRST, Opcode.WRITE_MIDDLE, Opcode.WRITE_MIDDLE, Opcode.WRITE_LAST_IMM]),
        (250, [Opcode.WRITE_ONLY_IMM] * 4),
    ],
)
def test_immediates_ride_in_the_last_packet(message_bytes, opcodes):
    flow, writes = sent(1000, message_bytes, imm=0xABCD)
    assert writes.opcode.tolist() == opcodes
    assert writes.imm[-1] == 0xABCD
    expected = [message * message_bytes // message_bytes for message in range(1000 // message_bytes)]
    assert sorted(set(writes.rqmsn.tolist())) == expected
    assert [item.imm for item in flow.target.qp.completions.poll()] == [0xABCD] * (1000 // message_bytes)
