"""Encoding: the frames are Scapy's, byte for byte."""

from dataclasses import asdict, replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.l2 import Ether

from agent.io.packet_ring import RowRuns
from agent.wire import constants as c
from agent.wire.array.columns import Announcement
from agent.wire.array.encode import encode_announcements, encode_sacks, encode_writes, write_frame_bytes
from agent.wire.array.template import FlowTemplate
from agent.wire.constants import Dscp, Opcode
from agent.wire.dtypes import SACK_FRAME, SACK_MASK_FRAME
from agent.wire.ev import EvCodec, EvError, EvOrder
from agent.wire.layers import Announce
from tests.unit.agent.wire.wire_frames import (
    CODEC,
    DQPN,
    EVS,
    PEER,
    SACK_ROW,
    SOURCE,
    SOURCE_BYTES,
    SOURCE_MEMORY,
    WRITE_ROW,
    edges,
    sack_batch,
    scapy_sack,
    scapy_tunnel,
    scapy_write,
    template,
    write_batch,
)

PLAIN_ROW = {
    "psn": 5,
    "opcode": int(Opcode.WRITE_MIDDLE),
    "flags": 0,
    "ev_index": 0,
    "msn": 1,
    "rqmsn": 0,
    "va": 4096,
    "rkey": 9,
    "dmalen": 8192,
    "imm": 0,
    "source_offset": 0,
    "payload_bytes": 64,
}
LONGEST = write_frame_bytes(SOURCE_BYTES, with_imm=True)


def frames_of(out: np.ndarray, lengths: np.ndarray) -> list[bytes]:
    return [row[:length].tobytes() for row, length in zip(out, lengths.tolist(), strict=False)]


@given(st.lists(WRITE_ROW, min_size=1, max_size=6), st.integers(0, 0xFFFF))
@settings(max_examples=60)
def test_writes_are_scapys(rows, tx_timestamp):
    out = np.full((len(rows) + 1, LONGEST), 0xEE, np.uint8)
    lengths = encode_writes(template(), write_batch(rows, SOURCE_MEMORY, tx_timestamp), out)
    assert frames_of(out, lengths) == [bytes(scapy_write(row, tx_timestamp=tx_timestamp)) for row in rows]


@given(st.lists(SACK_ROW, min_size=1, max_size=6))
@settings(max_examples=60)
def test_sacks_are_scapys(rows):
    out = np.full((len(rows), SACK_FRAME.itemsize), 0xEE, np.uint8)
    lengths = encode_sacks(template(), sack_batch(rows), out)
    assert frames_of(out, lengths) == [bytes(scapy_sack(row)) for row in rows]


@given(st.lists(st.tuples(SACK_ROW, edges(32)), min_size=1, max_size=6))
@settings(max_examples=60)
def test_sacks_with_a_port_mask_are_scapys(drawn):
    rows, masks = map(list, zip(*drawn, strict=True))
    out = np.full((len(rows), SACK_MASK_FRAME.itemsize), 0xEE, np.uint8)
    lengths = encode_sacks(template(), sack_batch(rows, masks), out)
    expected = [bytes(scapy_sack(row, port_mask=mask)) for row, mask in zip(rows, masks, strict=True)]
    assert frames_of(out, lengths) == expected
    assert lengths.tolist() == [158] * len(rows)


@pytest.mark.parametrize("payload_bytes", [0, 1, 2, 3, 4, 24, 256, 1024])
@pytest.mark.parametrize("opcode", c.WRITE_OPCODES)
def test_every_opcode_and_pad(opcode, payload_bytes):
    row = PLAIN_ROW | {"opcode": int(opcode), "payload_bytes": payload_bytes}
    out = np.full((1, LONGEST), 0xEE, np.uint8)
    lengths = encode_writes(template(), write_batch([row], SOURCE_MEMORY), out)
    assert frames_of(out, lengths) == [bytes(scapy_write(row))]
    assert lengths[0] == write_frame_bytes(payload_bytes, opcode in c.IMMEDIATE_OPCODES)


@pytest.mark.parametrize("payload_bytes", [0, 1, 24, 600])
@pytest.mark.parametrize("count", [1, 5, 65])
def test_rows_alike_are_the_same_frames_as_rows_that_differ(payload_bytes, count):
    """Frames of one length are built another way; one odd row makes the batch mixed."""
    rng = np.random.default_rng(payload_bytes + count)
    rows = [
        PLAIN_ROW
        | {"psn": i, "ev_index": int(rng.integers(len(EVS))), "va": 7 * i, "flags": 0x80 * (i == count - 1)}
        | {"payload_bytes": payload_bytes, "source_offset": int(rng.integers(SOURCE_BYTES - 600))}
        for i in range(count)
    ]
    odd = PLAIN_ROW | {"payload_bytes": 61}
    alike, mixed = (replace(write_batch(each, SOURCE_MEMORY), imm=None) for each in (rows, [*rows, odd]))
    out, expected = (np.full((count + 1, LONGEST), 0xEE, np.uint8) for _ in range(2))
    runs = partial(RowRuns(memoryview(out.ravel()), LONGEST, 0, len(out)).of, 0, count + 1)
    lengths = encode_writes(template(), mixed, expected)
    assert encode_writes(template(), alike, out, runs).tolist() == lengths[:-1].tolist()
    assert frames_of(out, lengths[:-1]) == frames_of(expected, lengths[:-1])


def test_the_whole_header_overhead_is_138_bytes():
    assert write_frame_bytes(256) == 138 + 256 + 4


def test_rows_may_lie_apart_and_nothing_else_is_touched():
    rows = [PLAIN_ROW | {"psn": i, "payload_bytes": 61 + i, "ev_index": i} for i in range(4)]
    ring = np.full((8, 512), 0xEE, np.uint8)
    out = ring[2:7, 40:400]
    lengths = encode_writes(template(), write_batch(rows, SOURCE_MEMORY), out)
    assert frames_of(out, lengths) == [bytes(scapy_write(row)) for row in rows]
    for row, length in enumerate(lengths.tolist()):
        ring[2 + row, 40 : 40 + length] = 0xEE
    assert (ring == 0xEE).all()


def test_a_batch_without_immediates_needs_no_imm_column():
    batch = write_batch([PLAIN_ROW], SOURCE_MEMORY)
    out = np.zeros((1, LONGEST), np.uint8)
    lengths = encode_writes(template(), replace(batch, imm=None), out)
    assert frames_of(out, lengths) == [bytes(scapy_write(PLAIN_ROW))]


def test_a_payload_may_end_where_the_source_ends():
    row = PLAIN_ROW | {"source_offset": SOURCE_BYTES - 7, "payload_bytes": 7}
    out = np.zeros((1, LONGEST), np.uint8)
    lengths = encode_writes(template(), write_batch([row], SOURCE_MEMORY), out)
    assert frames_of(out, lengths) == [bytes(scapy_write(row))]


def test_empty_batches_write_nothing():
    out = np.full((1, LONGEST), 0xEE, np.uint8)
    nothing = np.array([], np.intp)
    assert len(encode_writes(template(), write_batch([PLAIN_ROW], SOURCE_MEMORY).take(nothing), out)) == 0
    assert (out == 0xEE).all()


def test_the_second_port_is_a_setting():
    out = np.zeros((1, LONGEST), np.uint8)
    lengths = encode_writes(template(udp_port=c.UDP_PORT_MRC_ALT), write_batch([PLAIN_ROW], SOURCE_MEMORY), out)
    assert frames_of(out, lengths) == [bytes(scapy_write(PLAIN_ROW, dport=c.UDP_PORT_MRC_ALT))]


def test_retransmissions_may_have_a_class_of_their_own():
    rows = [PLAIN_ROW, PLAIN_ROW | {"flags": c.BTH_RETRANSMISSION, "ev_index": 3}]
    classes = [Dscp.TRIMMABLE << 2 | 2, Dscp.TRIMMABLE_RETX << 2 | 2]
    flow = template(dscp=Dscp.TRIMMABLE, retransmission_dscp=Dscp.TRIMMABLE_RETX)
    out = np.zeros((2, LONGEST), np.uint8)
    lengths = encode_writes(flow, write_batch(rows, SOURCE_MEMORY), out)
    expected = [bytes(scapy_write(row, traffic_class=octet)) for row, octet in zip(rows, classes, strict=True)]
    assert frames_of(out, lengths) == expected


def test_a_template_says_by_which_port_each_ev_leaves():
    assert template().planes.tolist() == [0] * 8 + [1] * 8


def test_the_other_half_order_puts_the_same_bytes_on_the_wire():
    swapped = EvCodec(EvOrder.SPORT_LOW)
    evs = swapped.join(CODEC.sport(EVS), CODEC.flow_label(EVS))
    other = FlowTemplate.for_peer(SOURCE, PEER, DQPN, evs, codec=swapped)
    assert (other.write_prefix == template().write_prefix).all()
    assert (other.planes == template().planes).all()


def test_an_ev_of_other_leaves_is_refused():
    local = np.array([CODEC.ev_of(0, None, 3)], np.uint32)
    with pytest.raises(EvError):
        FlowTemplate.for_peer(SOURCE, PEER, DQPN, local)


def test_an_ev_of_a_plane_without_a_port_is_refused():
    with pytest.raises(EvError, match="2 ports"):
        FlowTemplate.for_peer(SOURCE, PEER, DQPN, np.array([CODEC.ev_of(2, 0, 7)], np.uint32))


ANNOUNCEMENT = Announcement(
    epoch=3,
    plane=1,
    policy=0,
    spines=8,
    src_leaf=3,
    dst_leaf=7,
    src_host=3,
    dst_host=7,
    dqpn=DQPN,
    start_psn=0xFFFFF0,
    packets=100_000,
    last_psn=0x00869F,
    end_psn=0x0086A0,
)


@given(shares=st.none() | st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=256))
@settings(max_examples=30)
def test_announcements_that_open_and_close_are_scapys(shares):
    said = replace(ANNOUNCEMENT, spines=8 if shares is None else len(shares))
    rest = {} if shares is None else {"kind": c.AnnounceKind.CLOSE, "shares": shares}
    frames = encode_announcements(SOURCE, PEER, EVS[8:10], said, None if shares is None else np.array(shares))
    for ev, raw in zip(EVS[8:10].tolist(), frames, strict=True):
        tunnel = scapy_tunnel(ev, Dscp.CONTROL << 2, dport=c.UDP_PORT_ANNOUNCE)
        assert raw == bytes(tunnel / Announce(**asdict(said), **rest))
        read = Ether(raw)[Announce]
        assert (read.last_psn, read.end_psn, read.shares) == (0x869F, 0x86A0, shares)
