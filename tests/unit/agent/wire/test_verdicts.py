"""Blocks judged at once: every row gets what it would get alone, whatever is wrong with it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.wire import constants as c
from agent.wire.array.control import encode_control
from agent.wire.array.control_columns import (
    AckBatch,
    ControlBatch,
    EndpointRequestBatch,
    EndpointResponseBatch,
    NackBatch,
    ProbeBatch,
)
from agent.wire.array.encode import encode_sacks, encode_writes
from agent.wire.array.template import FlowTemplate
from agent.wire.constants import Dscp, EndpointOp, NackReason, Opcode
from agent.wire.validate.frames import headers_of, judge_headers
from agent.wire.validate.rules import FIELD_RULES, KIND_OF_OPCODE, FieldRule, Kind, RejectReason
from agent.wire.validate.verdict_cache import judge
from tests.unit.agent.wire.wire_frames import (
    EVS,
    PEER,
    SACK_TYPES,
    SOURCE,
    SOURCE_MEMORY,
    sack_batch,
    template,
    write_batch,
)

FIELDS = (
    "words",
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
TO_ENDPOINT = FlowTemplate.for_peer(SOURCE, PEER, c.ENDPOINT_QPN, EVS)
ONE = {name: np.zeros(1, np.uint16) for name in ("ev_index", "tx_timestamp", "spdcid", "dpdcid")}
ENDPOINT = {name: ONE[name] for name in ("ev_index", "tx_timestamp")} | {"request_id": np.ones(1, np.uint16)}
OP = np.array([EndpointOp.EV_PROBE], np.uint8)
WORD = np.array([5], np.uint32)


def write_frame(opcode: Opcode) -> bytes:
    row = np.zeros((1, 300), np.uint8)
    batch = write_batch([WRITE | {"opcode": opcode, "psn": 77, "payload_bytes": 64}], SOURCE_MEMORY)
    return row[0, : encode_writes(template(), batch, row)[0]].tobytes()


def sack_frame(port_masks: list[int] | None = None) -> bytes:
    row = np.zeros((1, 300), np.uint8)
    batch = sack_batch([dict.fromkeys(SACK_TYPES, 0)], port_masks)
    return row[0, : encode_sacks(template(), batch, row)[0]].tobytes()


def control_frame(flow: FlowTemplate, batch: ControlBatch) -> bytes:
    row = np.zeros((1, 300), np.uint8)
    return row[0, : encode_control(flow, batch, row)[0]].tobytes()


def unknown_frame() -> bytes:
    frame = bytearray(write_frame(Opcode.WRITE_ONLY))
    frame[102] = 0xC0
    return bytes(frame)


NACK = NackBatch(
    **ONE,
    nack_psn=WORD,
    nack_reason=np.array([NackReason.TRIMMED], np.uint8),
    vendor_info=np.zeros(1, np.uint8),
    ev=WORD,
)
ACK = AckBatch(psn=WORD, syndrome=np.array([c.AETH_ACK], np.uint8), msn=WORD, ev_index=ONE["ev_index"])
REQUEST = EndpointRequestBatch(**ENDPOINT, op=OP, port_status_mask=WORD)
FRAMES = {
    "first": write_frame(Opcode.WRITE_FIRST),
    "middle": write_frame(Opcode.WRITE_MIDDLE),
    "imm": write_frame(Opcode.WRITE_ONLY_IMM),
    "sack": sack_frame(),
    "masked_sack": sack_frame([6]),
    "ack": control_frame(template(), ACK),
    "nack": control_frame(template(), NACK),
    "probe": control_frame(template(), ProbeBatch(**ONE, probe_id=np.ones(1, np.uint16))),
    "request": control_frame(TO_ENDPOINT, REQUEST),
    "response": control_frame(TO_ENDPOINT, EndpointResponseBatch(**ENDPOINT, op=OP)),
    "unknown": unknown_frame(),
}
"""A usual frame of every kind; SACKs with and without a port mask are one kind."""
each_frame = pytest.mark.parametrize("name", FRAMES)


def frames_of(names: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """These frames in the given order."""
    rows = np.zeros((len(names), 300), np.uint8)
    for row, name in zip(rows, names, strict=True):
        row[: len(FRAMES[name])] = np.frombuffer(FRAMES[name], np.uint8)
    return rows, np.array([len(FRAMES[name]) for name in names], np.uint32)


def assert_as_alone(rows: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    block = judge(rows, lengths, PEER.address, check_icrc=False)
    alone = judge_headers(rows, lengths, headers_of(rows), PEER.address)
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(block, name), getattr(alone, name), err_msg=name)
        assert getattr(block, name).dtype == getattr(alone, name).dtype
    assert block.lowest_kind == alone.lowest_kind
    return block.reasons


def test_the_frames_are_of_every_kind():
    assert {int(KIND_OF_OPCODE[frame[102]]) for frame in FRAMES.values()} == set(Kind)


@pytest.mark.parametrize(
    "names",
    [["first"], ["first", "middle"] * 20, ["sack"] * 3, ["masked_sack"] * 3, [*FRAMES][:-1] * 5],
    ids=lambda names: f"{len(names)} from {names[0]}",
)
def test_usual_blocks_are_accepted(names):
    assert not assert_as_alone(*frames_of(names)).any()


@settings(max_examples=500)
@given(
    names=st.lists(st.sampled_from([*FRAMES]), min_size=1, max_size=8),
    bits=st.lists(st.integers(0, HEADER_BITS - 1), max_size=3),
    victims=st.integers(0, 255),
    cut=st.integers(0, 40),
)
def test_any_header_bit_flipped_in_some_rows_or_in_all(names, bits, victims, cut):
    rows, lengths = frames_of(names)
    hit = [row for row in range(len(names)) if victims >> row & 1]
    for bit in bits:
        rows[hit, bit // 8] ^= 1 << bit % 8
    lengths[hit] -= np.uint32(cut)
    assert_as_alone(rows, lengths)


@settings(max_examples=300)
@given(
    names=st.lists(st.sampled_from([*FRAMES]), min_size=1, max_size=8),
    rule=st.sampled_from(FIELD_RULES),
    values=st.lists(st.integers(0, 255), min_size=8, max_size=8),
)
def test_any_values_in_a_field_that_some_kind_judges(names, rule: FieldRule, values):
    rows, lengths = frames_of(names)
    word = rows[:, 2 + 4 * rule.bits.word :][:, :4]
    mask = (1 << rule.bits.width) - 1 << rule.bits.shift
    for place, value in zip(word, values, strict=False):
        old = int.from_bytes(place.tobytes()) & ~mask
        place[:] = np.frombuffer((old | value << rule.bits.shift & mask).to_bytes(4), np.uint8)
    assert_as_alone(rows, lengths)


@each_frame
@pytest.mark.parametrize("base", [0, 0xFF], ids=["usual", "header inverted"])
def test_every_single_header_bit_behind_a_usual_row_and_remembered(name, base):
    """All bits, one by one: a flipped row neither shares the usual row's verdict unduly nor another's memory of it."""
    usual, lengths = frames_of([name])
    usual[0, 106:154] ^= base  # behind the opcode and P_Key: what lies there must not decide which bits are looked at
    flipped = np.repeat(usual, HEADER_BITS, axis=0)
    bits = np.arange(HEADER_BITS)
    flipped[bits, bits // 8] ^= (1 << bits % 8).astype(np.uint8)
    alone = judge_headers(flipped, lengths.repeat(HEADER_BITS), headers_of(flipped), PEER.address)
    judge(usual, lengths, PEER.address, check_icrc=False)
    pair, two = np.concatenate((usual, usual)), lengths.repeat(2)
    for bit in range(HEADER_BITS):
        pair[1] = flipped[bit]
        shared, own = (
            judge(rows, two[: len(rows)], PEER.address, check_icrc=False) for rows in (pair, flipped[bit : bit + 1])
        )
        for field in FIELDS[3:]:
            expected = getattr(alone, field)[bit]
            assert (getattr(shared, field)[1], getattr(own, field)[0]) == (expected, expected), (bit, field)


@pytest.mark.parametrize("dscp", [Dscp.TRIMMED, Dscp.TRIMMED_LASTHOP])
def test_trimmed_rows_among_whole_ones(dscp):
    rows, lengths = frames_of(["first", "middle"] * 4)
    rows[::2, 14:16] = np.frombuffer((6 << 12 | dscp << 6).to_bytes(2), np.uint8)
    assert_as_alone(rows, lengths)
    rows[:, 14:16] = rows[0, 14:16]
    assert_as_alone(rows, lengths)


def test_a_remembered_verdict_is_not_given_to_another_length_or_host():
    rows, lengths = frames_of(["first"] * 3)
    assert not assert_as_alone(rows, lengths).any()
    assert (assert_as_alone(rows, lengths - 1) == RejectReason.TRUNCATED).all()
    other = judge(rows, lengths, bytes(16), check_icrc=False)
    assert (other.reasons == RejectReason.BAD_ADDRESS).all()
