"""The Scapy codec says what the fast one says: the same bytes out, the same columns and reasons in."""

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.wire import constants as c
from agent.wire.array import control, decode, encode
from agent.wire.array.columns import Announcement
from agent.wire.array.decode import Decoded
from agent.wire.constants import AnnounceKind, Dscp
from agent.wire.layers import BTH
from agent.wire.scapy import build as scapy_build
from agent.wire.scapy import read as scapy_read
from agent.wire.validate.rules import RejectReason
from tests.unit.agent.wire.test_control import KINDS
from tests.unit.agent.wire.test_decode import (
    BAD_FRAMES,
    CONTROL_FRAMES,
    MUTATIONS,
    OWN,
    PLAIN_WRITE,
    SACK_FRAME,
    WRITE_FRAME,
    trim,
)
from tests.unit.agent.wire.wire_frames import (
    EVS,
    PEER,
    SACK_ROW,
    SOURCE,
    SOURCE_MEMORY,
    WRITE_ROW,
    block_of,
    edges,
    sack_batch,
    scapy_write,
    template,
    write_batch,
)

KEPT = ("writes", "sacks", "acks", "nacks", "probes", "endpoint_requests", "endpoint_responses")
TRIMMING = template(dscp=Dscp.TRIMMABLE, retransmission_dscp=Dscp.TRIMMABLE_RETX)


def frames_of(encoder, flow, batch) -> list[bytes]:
    out = np.zeros((len(batch), 2048), np.uint8)
    lengths = encoder(flow, batch, out)
    return [out[row, :length].tobytes() for row, length in enumerate(lengths.tolist())]


@given(rows=st.lists(WRITE_ROW, min_size=1, max_size=6), flow=st.sampled_from([template(), TRIMMING]))
@settings(max_examples=25)
def test_writes_are_built_alike(rows, flow):
    batch = write_batch(rows, SOURCE_MEMORY)
    assert frames_of(scapy_build.encode_writes, flow, batch) == frames_of(encode.encode_writes, flow, batch)


@given(rows=st.lists(SACK_ROW, min_size=1, max_size=6), mask=st.none() | edges(32))
@settings(max_examples=25)
def test_sacks_are_built_alike(rows, mask):
    batch = sack_batch(rows, None if mask is None else [mask] * len(rows))
    flow = template()
    assert frames_of(scapy_build.encode_sacks, flow, batch) == frames_of(encode.encode_sacks, flow, batch)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@given(data=st.data())
@settings(max_examples=10)
def test_control_packets_are_built_alike(kind, data):
    batch = kind.batch_of(data.draw(st.lists(kind.rows(), min_size=1, max_size=6)))
    assert frames_of(scapy_build.encode_control, TRIMMING, batch) == frames_of(control.encode_control, TRIMMING, batch)


@pytest.mark.parametrize("kind", AnnounceKind)
def test_announcements_are_built_alike(kind):
    said = Announcement(**{name: place for place, name in enumerate(Announcement.__slots__)} | {"spines": 4})
    shares = None if kind is AnnounceKind.OPEN else np.arange(4)
    asked = (SOURCE, PEER, EVS, said, shares, None, kind)
    assert scapy_build.encode_announcements(*asked) == encode.encode_announcements(*asked)


def assert_read_alike(frames: list[bytes], check_icrc: bool = True) -> None:
    block = block_of(frames, stride=max(len(frame) for frame in frames) or 1)
    theirs = scapy_read.decode(*block, OWN, 1, check_icrc=check_icrc)
    ours = decode.decode(*block, OWN, 1, check_icrc=check_icrc)
    assert [RejectReason(reason) for reason in theirs.reasons] == [RejectReason(reason) for reason in ours.reasons]
    assert theirs.rejected == ours.rejected
    for name in KEPT:
        assert_alike(getattr(theirs, name), getattr(ours, name), name)


def assert_alike(theirs: Decoded, ours: Decoded, name: str) -> None:
    assert (theirs is None) is (ours is None), name
    for field in fields(ours) if ours is not None else ():
        mine, yours = getattr(theirs, field.name), getattr(ours, field.name)
        if field.name in ("memory", "payload_offset"):
            continue
        if isinstance(yours, np.ndarray):
            assert mine.tolist() == yours.tolist(), (name, field.name)
            assert mine.dtype == yours.dtype, (name, field.name)
        else:
            assert mine == yours, (name, field.name)
    for row in range(len(ours)) if name == "writes" and ours is not None else ():
        width = int(ours.payload_bytes[row])
        assert (theirs.payload(np.array([row]), width) == ours.payload(np.array([row]), width)).all()


def test_all_bad_frames_have_the_same_reasons():
    assert_read_alike([frame for frame, _ in BAD_FRAMES.values()])


@pytest.mark.parametrize("tx_timestamp", [0x1234, None])
@pytest.mark.parametrize("payload_kept", [-30, -16, -4, 0, 5])
def test_trimmed_packets_are_read_alike(payload_kept, tx_timestamp):
    whole = bytes(scapy_write(PLAIN_WRITE, tx_timestamp=tx_timestamp))
    headers = 138 if tx_timestamp is not None else 134
    assert_read_alike([trim(whole, headers + payload_kept, dscp) for dscp in (Dscp.TRIMMED, Dscp.TRIMMED_LASTHOP)])


GOOD_FRAMES = [WRITE_FRAME, SACK_FRAME, *CONTROL_FRAMES, trim(WRITE_FRAME, 140, Dscp.TRIMMED)]
ANY_FRAME = st.sampled_from([frame for frame, _ in BAD_FRAMES.values()] + GOOD_FRAMES)


@given(st.lists(st.tuples(ANY_FRAME, MUTATIONS), min_size=1, max_size=6), st.integers(0, 220), st.booleans())
@settings(max_examples=150)
def test_mutated_and_cut_frames_are_read_alike(drawn, cut, check_icrc):
    frames = []
    for frame, mutations in drawn:
        octets = bytearray(frame)
        for place, value in mutations:
            if place < len(octets):
                octets[place] = value
        frames.append(bytes(octets))
    frames[-1] = frames[-1][:cut]
    assert_read_alike(frames, check_icrc)


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=8))
@settings(max_examples=30)
def test_random_bytes_are_read_alike(frames):
    assert_read_alike(frames)


def test_an_empty_block_holds_nothing():
    result = scapy_read.decode(np.empty((0, 200), np.uint8), np.empty(0, np.uint32), OWN, 0)
    assert (result.writes, result.sacks, result.rejected) == (None, None, {})


def test_the_tables_of_the_layers_are_those_of_the_constants():
    from agent.wire import layers

    assert {each.value: each.name for each in c.Opcode} == layers.OPCODES
    assert {each.value: each.name for each in c.NackReason} == layers.NACK_REASONS
    assert {each.value: each.name for each in c.EcnVerdict} == layers.ECN_VERDICTS
    assert {each.value: each.name for each in c.EndpointOp} == layers.ENDPOINT_OPS
    assert {each.value: each.name for each in c.SprayPolicyCode} == layers.SPRAY_POLICIES
    assert {each.value: each.name for each in c.AnnounceKind} == layers.ANNOUNCE_KINDS
    named = {c.AETH_NAK + each: f"NAK {each.name}" for each in c.NakCode}
    assert {c.AETH_ACK: "ACK"} | named == layers.SYNDROMES
    assert layers.MRC_PORTS == (c.UDP_PORT_MRC, c.UDP_PORT_MRC_ALT)
    assert (layers.ANNOUNCE_PORT, layers.ANNOUNCE_MAGIC) == (c.UDP_PORT_ANNOUNCE, c.ANNOUNCE_MAGIC)
    assert layers.Announce().version == c.ANNOUNCE_VERSION
    assert set(layers.CONTROL_LAYERS) | set(c.WRITE_OPCODES) == set(c.Opcode)


def test_opcodes_of_classic_roce_are_refused_alike_where_scapys_own_layer_is_loaded():
    from scapy.contrib import roce

    classic = [bytes([opcode]) for opcode in (0x04, 0x0A, 0x11, 0x81)]
    assert all(BTH(opcode + bytes(15)).__class__ is roce.BTH for opcode in classic)
    plain = WRITE_FRAME
    assert_read_alike([plain[:102] + opcode + plain[103:] for opcode in classic])
