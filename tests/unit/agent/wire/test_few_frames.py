"""Few frames are read and written one by one, many column by column: the same bytes and columns either way."""

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.wire import constants as c
from agent.wire.array.columns import FEW_ROWS, Columns, WriteColumns
from agent.wire.array.control import encode_control
from agent.wire.array.control_columns import AckBatch, NackBatch, ProbeBatch
from agent.wire.array.decode import Decoded, decode
from agent.wire.array.encode import encode_sacks, encode_writes
from agent.wire.array.few_frames import read_few
from agent.wire.constants import Dscp, NackReason
from agent.wire.ev import EvCodec, EvOrder
from tests.unit.agent.wire.test_verdicts import FRAMES, HEADER_BITS, frames_of
from tests.unit.agent.wire.wire_frames import (
    EVS,
    PEER,
    SACK_ROW,
    SOURCE_MEMORY,
    WRITE_ROW,
    edges,
    sack_batch,
    template,
    write_batch,
)

MANY = FEW_ROWS + 1
few = {"min_size": 1, "max_size": FEW_ROWS}
ev_index = st.integers(0, len(EVS) - 1)


def repeated(rows: int) -> np.ndarray:
    """Numbers of so many rows again and again, until they are many."""
    return np.tile(np.arange(rows), MANY)


def assert_same_frames(encode, flow, batch: Columns) -> None:
    rows = len(batch)
    one_by_one, together = np.zeros((rows, 4200), np.uint8), np.zeros((rows * MANY, 4200), np.uint8)
    lengths = encode(flow, batch, one_by_one)
    expected = encode(flow, batch.take(repeated(rows)), together)
    np.testing.assert_array_equal(lengths, expected[:rows])
    assert lengths.dtype == expected.dtype
    np.testing.assert_array_equal(one_by_one, together[:rows])


@given(rows=st.lists(WRITE_ROW, **few), has_imm=st.booleans(), class_of_its_own=st.booleans())
def test_writes_are_written_alike(rows, has_imm, class_of_its_own):
    batch = write_batch(rows, SOURCE_MEMORY)
    if not has_imm:
        plain = np.isin(batch.opcode, c.IMMEDIATE_OPCODES)
        batch = replace(batch, opcode=np.where(plain, c.Opcode.WRITE_ONLY, batch.opcode).astype(np.uint8), imm=None)
    retransmission = Dscp.TRIMMABLE_RETX if class_of_its_own else None
    assert_same_frames(encode_writes, template(retransmission_dscp=retransmission), batch)


@given(rows=st.lists(SACK_ROW, **few), masks=st.none() | st.lists(edges(32), min_size=FEW_ROWS, max_size=FEW_ROWS))
def test_sacks_are_written_alike(rows, masks):
    assert_same_frames(encode_sacks, template(), sack_batch(rows, masks and masks[: len(rows)]))


def column(data: st.DataObject, values: st.SearchStrategy[int], rows: int, dtype: type) -> np.ndarray:
    return np.array(data.draw(st.lists(values, min_size=rows, max_size=rows)), dtype)


@given(data=st.data(), rows=st.integers(1, FEW_ROWS))
def test_acks_nacks_and_probes_are_written_alike(data, rows):
    def draw(bits: int, dtype: type) -> np.ndarray:
        return column(data, edges(bits), rows, dtype)

    evs = column(data, ev_index, rows, np.uint16)
    ids = {name: draw(16, np.uint16) for name in ("spdcid", "dpdcid", "tx_timestamp")}
    reasons = column(data, st.sampled_from([int(reason) for reason in NackReason]), rows, np.uint8)
    psn, ev = draw(24, np.uint32), draw(32, np.uint32)
    for batch in (
        AckBatch(psn=psn, syndrome=np.full(rows, c.AETH_ACK, np.uint8), msn=draw(24, np.uint32), ev_index=evs),
        NackBatch(nack_psn=psn, nack_reason=reasons, vendor_info=draw(8, np.uint8), ev=ev, **ids, ev_index=evs),
        ProbeBatch(probe_id=draw(16, np.uint16), **ids, ev_index=evs, in_control=data.draw(st.booleans())),
    ):
        assert_same_frames(encode_control, template(), batch)


def assert_same_columns(found: Decoded, expected: Decoded, rows: int, total: int) -> None:
    for field in fields(Decoded):
        ours, theirs = getattr(found, field.name), getattr(expected, field.name)
        if not isinstance(theirs, Columns):
            continue
        count = len(theirs) * rows // total
        assert len(ours) == count, field.name
        for name in (each.name for each in fields(theirs)):
            one, many = getattr(ours, name), getattr(theirs, name)
            if name in ("memory", "plane") or many is None:
                assert type(one) is type(many), name
                continue
            np.testing.assert_array_equal(one, many[:count], err_msg=name)
            assert one.dtype == many.dtype, name
            assert one.flags.c_contiguous or not many.flags.c_contiguous, name


def assert_read_alike(rows: np.ndarray, lengths: np.ndarray, codec: EvCodec, *, check_icrc: bool) -> None:
    again = repeated(len(rows))
    found = decode(rows, lengths, PEER.address, 1, codec=codec, check_icrc=check_icrc)
    expected = decode(rows[again], lengths[again], PEER.address, 1, codec=codec, check_icrc=check_icrc)
    np.testing.assert_array_equal(found.reasons, expected.reasons[: len(rows)])
    assert {reason: count * MANY for reason, count in found.rejected.items()} == expected.rejected
    assert_same_columns(found, expected, len(rows), len(again))


@settings(max_examples=500)
@given(
    names=st.lists(st.sampled_from([*FRAMES]), **few),
    bits=st.lists(st.integers(0, HEADER_BITS - 1), max_size=3),
    victims=st.integers(0, 255),
    cut=st.integers(0, 40),
    order=st.sampled_from(EvOrder),
    check_icrc=st.booleans(),
)
def test_frames_are_read_alike_whatever_bits_are_flipped(names, bits, victims, cut, order, check_icrc):
    rows, lengths = frames_of(names)
    hit = [row for row in range(len(names)) if victims >> row & 1]
    for bit in bits:
        rows[hit, bit // 8] ^= 1 << bit % 8
    lengths[hit] -= np.uint32(cut)
    assert_read_alike(rows, lengths, EvCodec(order), check_icrc=check_icrc)


@given(
    writes=st.lists(WRITE_ROW, min_size=1, max_size=2),
    sacks=st.lists(SACK_ROW, min_size=1, max_size=2),
    masks=st.none() | st.just([0, 0]) | st.lists(edges(32), min_size=2, max_size=2),
)
def test_values_are_read_alike(writes, sacks, masks):
    rows = np.zeros((len(writes) + len(sacks), 4200), np.uint8)
    lengths = encode_writes(template(), write_batch(writes, SOURCE_MEMORY), rows)
    more = encode_sacks(template(), sack_batch(sacks, masks and masks[: len(sacks)]), rows[len(writes) :])
    assert_read_alike(rows, np.concatenate((lengths, more)), EvCodec(), check_icrc=True)


@pytest.mark.parametrize("name", ["first", "imm", "sack", "masked_sack", "ack"])
def test_what_comes_often_is_read_one_by_one(name):
    rows, lengths = frames_of([name])
    assert read_few(rows, [0], lengths, PEER.address, 0, EvCodec(), check_icrc=True) is not None
    rows[0, lengths[0] - 1] ^= 1
    assert read_few(rows, [0], lengths, PEER.address, 0, EvCodec(), check_icrc=True) is None


def test_payloads_of_few_are_where_they_were_written():
    rows = np.zeros((3, 700), np.uint8)
    row = {"psn": 1, "opcode": c.Opcode.WRITE_MIDDLE, "payload_bytes": 301, "source_offset": 99}
    row |= dict.fromkeys(("flags", "ev_index", "msn", "rqmsn", "va", "rkey", "dmalen", "imm"), 0)
    lengths = encode_writes(template(), write_batch([row, row], SOURCE_MEMORY), rows)
    writes = decode(rows[:2], lengths, PEER.address, 0).writes
    assert isinstance(writes, WriteColumns)
    assert (writes.payload(slice(None), 301) == SOURCE_MEMORY[99:400]).all()
