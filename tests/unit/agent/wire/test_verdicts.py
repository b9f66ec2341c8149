"""Blocks judged at once: every row gets what it would get alone, whatever is wrong with it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.wire.constants import Dscp, Opcode
from agent.wire.encode import encode_sacks, encode_writes
from agent.wire.judge import headers_of, judge_headers
from agent.wire.rules import RejectReason
from agent.wire.verdicts import judge
from tests.unit.agent.wire.wire_frames import PEER, SACK_TYPES, SOURCE_MEMORY, sack_batch, template, write_batch

FIELDS = (
    "words",
    "row_offset",
    "lengths",
    "kinds",
    "trimmed",
    "trimmed_lasthop",
    "payload_start",
    "payload_end",
    "reasons",
)
WRITE = dict.fromkeys(("flags", "ev_index", "msn", "rqmsn", "va", "rkey", "dmalen", "imm", "source_offset"), 0)
HEADER_BITS = 154 * 8


def frames_of(opcodes: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Whole frames of 64 bytes of payload, or SACKs, in the given order."""
    rows = np.zeros((len(opcodes), 300), np.uint8)
    lengths = np.zeros(len(opcodes), np.uint32)
    for number, opcode in enumerate(opcodes):
        row = rows[number : number + 1]
        if opcode == Opcode.SACK:
            lengths[number] = encode_sacks(template(), sack_batch([dict.fromkeys(SACK_TYPES, 0)]), row)[0]
        else:
            batch = write_batch([WRITE | {"opcode": opcode, "psn": number, "payload_bytes": 64}], SOURCE_MEMORY)
            lengths[number] = encode_writes(template(), batch, row)[0]
    return rows, lengths


OPCODES = [int(op) for op in (Opcode.WRITE_FIRST, Opcode.WRITE_MIDDLE, Opcode.WRITE_ONLY_IMM, Opcode.SACK)]


def assert_as_alone(rows: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    block = judge(rows, lengths, PEER.address, check_icrc=False)
    alone = judge_headers(rows, lengths, headers_of(rows), PEER.address)
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(block, name), getattr(alone, name), err_msg=name)
        assert getattr(block, name).dtype == getattr(alone, name).dtype
    return block.reasons


@pytest.mark.parametrize("opcodes", [OPCODES[:1], OPCODES[:2] * 20, OPCODES[3:] * 3, OPCODES * 5], ids=str)
def test_usual_blocks_are_accepted(opcodes):
    assert not assert_as_alone(*frames_of(opcodes)).any()


@settings(max_examples=300, deadline=None)
@given(
    opcodes=st.lists(st.sampled_from(OPCODES), min_size=1, max_size=8),
    bits=st.lists(st.integers(0, HEADER_BITS - 1), max_size=3),
    victims=st.integers(0, 255),
    cut=st.integers(0, 40),
)
def test_any_header_bit_flipped_in_some_rows_or_in_all(opcodes, bits, victims, cut):
    rows, lengths = frames_of(opcodes)
    hit = [row for row in range(len(opcodes)) if victims >> row & 1]
    for bit in bits:
        rows[hit, bit // 8] ^= 1 << bit % 8
    lengths[hit] -= np.uint32(cut)
    assert_as_alone(rows, lengths)


@pytest.mark.parametrize("dscp", [Dscp.TRIMMED, Dscp.TRIMMED_LASTHOP])
def test_trimmed_rows_among_whole_ones(dscp):
    rows, lengths = frames_of(OPCODES[:2] * 4)
    rows[::2, 14:16] = np.frombuffer((6 << 12 | dscp << 6).to_bytes(2), np.uint8)
    assert_as_alone(rows, lengths)
    rows[:, 14:16] = rows[0, 14:16]
    assert_as_alone(rows, lengths)


def test_a_remembered_verdict_is_not_given_to_another_length_or_host():
    rows, lengths = frames_of(OPCODES[:1] * 3)
    assert not assert_as_alone(rows, lengths).any()
    assert (assert_as_alone(rows, lengths - 1) == RejectReason.TRUNCATED).all()
    other = judge(rows, lengths, bytes(16), check_icrc=False)
    assert (other.reasons == RejectReason.BAD_ADDRESS).all()
