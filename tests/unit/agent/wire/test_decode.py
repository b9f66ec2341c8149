"""Decoding: Scapy's frames come back as the values they were built from; anything else is counted, never raised."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet import UDP
from scapy.layers.inet6 import ICMPv6EchoRequest, IPv6, IPv6ExtHdrSegmentRouting
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Packet, Raw

from agent.wire import constants as c
from agent.wire.array.columns import Announcement
from agent.wire.array.decode import Decoded, RejectReason, decode
from agent.wire.array.encode import encode_announcements
from agent.wire.constants import Dscp, Opcode
from agent.wire.layers import AETH, BTH, CC_STATE, EETH, ERTH, METH, NETH, PETH, RETH, SETH
from tests.unit.agent.wire.wire_frames import (
    DQPN,
    EVS,
    PEER,
    SACK_ROW,
    SACK_TYPES,
    SOURCE,
    SOURCE_MEMORY,
    WRITE_ROW,
    block_of,
    edges,
    scapy_sack,
    scapy_tunnel,
    scapy_write,
)

OWN = PEER.address
PLAIN_WRITE = {
    "psn": 0xFFFFFF,
    "opcode": int(Opcode.WRITE_LAST),
    "flags": 0x80,
    "ev_index": 5,
    "msn": 0xFFFF,
    "rqmsn": 0,
    "va": 0x100000002000,
    "rkey": 0xDEADBEEF,
    "dmalen": 4096,
    "imm": 0x01020304,
    "source_offset": 100,
    "payload_bytes": 61,
}
PLAIN_SACK = dict.fromkeys(SACK_TYPES, 0) | {"cack_psn": 0xFFFFFF, "ev": int(EVS[2]), "ev_index": 1}


def decoded(frames: list[bytes], **options) -> Decoded:
    return decode(*block_of(frames), OWN, plane=1, **options)


def assert_consistent(result: Decoded, rows: np.ndarray, lengths: np.ndarray) -> None:
    """Every row is delivered once or counted once, and no payload reaches past its frame."""
    names = ("writes", "sacks", "acks", "nacks", "probes", "endpoint_requests", "endpoint_responses")
    delivered = sum(len(getattr(result, name) or ()) for name in names)
    assert delivered + sum(result.rejected.values()) == len(rows)
    for reason, count in result.rejected.items():
        assert count == (result.reasons == reason).sum() > 0
    assert delivered == (result.reasons == RejectReason.ACCEPTED).sum()
    if result.writes is not None:
        accepted = np.flatnonzero(result.reasons == RejectReason.ACCEPTED)
        row = result.writes.payload_offset // rows.shape[1]
        end = result.writes.payload_offset % rows.shape[1] + result.writes.payload_bytes
        assert np.isin(row, accepted).all()
        assert (end <= lengths[row])[~result.writes.trimmed].all()


@given(
    rows=st.lists(WRITE_ROW, min_size=1, max_size=6),
    timestamps=st.lists(st.none() | st.integers(0, 0xFFFF), min_size=6, max_size=6),
    port=st.sampled_from([c.UDP_PORT_MRC, c.UDP_PORT_MRC_ALT]),
    check_icrc=st.booleans(),
)
@settings(max_examples=60)
def test_writes_come_back(rows, timestamps, port, check_icrc):
    """With and without TSETH and ImmDt mixed in one block."""
    frames = [bytes(scapy_write(r, tx_timestamp=t, dport=port)) for r, t in zip(rows, timestamps, strict=False)]
    result = decoded(frames, check_icrc=check_icrc)
    writes = result.writes
    assert result.sacks is None
    assert result.rejected == {}
    for name in ("psn", "opcode", "msn", "rqmsn", "va", "rkey", "dmalen", "payload_bytes"):
        assert getattr(writes, name).tolist() == [row[name] for row in rows], name
    stamps = timestamps[: len(rows)]
    assert writes.flags.tolist() == [r["flags"] | 0x10 * (t is not None) for r, t in zip(rows, stamps, strict=True)]
    assert writes.tx_timestamp.tolist() == [t or 0 for t in stamps]
    assert writes.imm.tolist() == [r["imm"] if r["opcode"] in c.IMMEDIATE_OPCODES else 0 for r in rows]
    assert writes.ev.tolist() == [int(EVS[r["ev_index"]]) for r in rows]
    assert writes.dqpn.tolist() == [DQPN] * len(rows)
    assert not np.any([writes.ce, writes.trimmed, writes.trimmed_lasthop])
    for i, row in enumerate(rows):
        expected = SOURCE_MEMORY[row["source_offset"] :][: row["payload_bytes"]]
        assert (writes.payload(np.array([i]), row["payload_bytes"])[0] == expected).all()


@given(
    drawn=st.lists(st.tuples(SACK_ROW, st.none() | edges(32)), min_size=1, max_size=6),
    port=st.sampled_from([c.UDP_PORT_MRC, c.UDP_PORT_MRC_ALT]),
)
@settings(max_examples=60)
def test_sacks_come_back(drawn, port):
    """With and without a port mask mixed in one block."""
    rows, masks = map(list, zip(*drawn, strict=True))
    result = decoded([bytes(scapy_sack(row, dport=port, port_mask=mask)) for row, mask in drawn])
    assert result.writes is None
    assert result.rejected == {}
    for name, dtype in SACK_TYPES.items():
        if name != "ev_index":
            column = getattr(result.sacks, name)
            assert column.tolist() == [row[name] for row in rows], name
            assert column.dtype == dtype
    assert result.sacks.dqpn.tolist() == [DQPN] * len(rows)
    if set(masks) == {None}:
        assert result.sacks.port_mask is None
    else:
        assert result.sacks.port_mask.tolist() == [mask or 0 for mask in masks]
        assert result.sacks.port_mask.dtype == np.uint32


def test_columns_have_the_declared_types():
    writes = decoded([bytes(scapy_write(PLAIN_WRITE))]).writes
    types = {
        name: getattr(writes, name).dtype.str for name in ("psn", "opcode", "msn", "va", "ev", "payload_bytes", "imm")
    }
    assert types == {
        "psn": "<u4",
        "opcode": "|u1",
        "msn": "<u2",
        "va": "<u8",
        "ev": "<u4",
        "payload_bytes": "<u4",
        "imm": "<u4",
    }
    assert writes.payload_offset.dtype == np.int64


def test_writes_and_sacks_of_one_block_are_told_apart():
    frames = [bytes(scapy_write(PLAIN_WRITE | {"psn": 1})), bytes(scapy_sack(PLAIN_SACK)), b"\0" * 60]
    frames.append(bytes(scapy_write(PLAIN_WRITE | {"psn": 2, "payload_bytes": 8})))
    result = decoded(frames)
    assert result.writes.psn.tolist() == [1, 2]
    assert result.sacks.cack_psn.tolist() == [0xFFFFFF]
    assert result.rejected == {RejectReason.NOT_IPV6: 1}
    assert result.reasons.tolist() == [0, 0, RejectReason.NOT_IPV6, 0]
    assert (result.writes.payload(slice(1, 2), 8)[0] == SOURCE_MEMORY[100:108]).all()
    assert result.writes.plane == result.sacks.plane == 1


def test_rows_of_a_ring_are_read_in_place():
    frames = [bytes(scapy_write(PLAIN_WRITE | {"psn": i})) for i in range(3)]
    rows, lengths = block_of(frames, stride=400)
    ring = np.full((9, 512), 0xEE, np.uint8)
    ring[2:5, 66:466] = rows
    block = ring[2:5, 66:466]
    writes = decode(block, lengths, OWN, 0).writes
    assert np.shares_memory(writes.memory, ring)
    assert (writes.payload(slice(None), 61) == SOURCE_MEMORY[100:161]).all()


def test_a_read_only_block_is_read():
    rows, lengths = block_of([bytes(scapy_write(PLAIN_WRITE))])
    rows.flags.writeable = False
    assert decode(rows, lengths, OWN, 0).rejected == {}


def test_bytes_in_columns_not_in_rows_are_read_too():
    rows, lengths = block_of([bytes(scapy_write(PLAIN_WRITE | {"psn": i})) for i in range(3)])
    assert decode(np.asfortranarray(rows), lengths, OWN, 0).writes.psn.tolist() == [0, 1, 2]


def test_ethernet_padding_behind_a_frame_is_ignored():
    assert decoded([bytes(scapy_write(PLAIN_WRITE)) + b"\xee" * 9]).rejected == {}


def test_the_spraycheck_mark_needs_no_new_icrc():
    frame = bytearray(bytes(scapy_write(PLAIN_WRITE)))
    frame[106] |= c.SPRAYCHECK_MARK
    assert decoded([bytes(frame)]).rejected == {}


@pytest.mark.parametrize("offset", [15, 55], ids=["outer", "inner"])
def test_congestion_experienced_in_either_header(offset):
    frame = bytearray(bytes(scapy_write(PLAIN_WRITE)))
    frame[offset] |= 0x30
    assert decoded([bytes(frame)]).writes.ce.tolist() == [True]


def trim(frame: bytes, kept: int, dscp: Dscp) -> bytes:
    """What a trimming switch does: cut, rewrite the outer DSCP and length, leave the rest."""
    cut = bytearray(frame[:kept])
    cut[14] = 0x60 | dscp >> 2
    cut[15] = (dscp & 3) << 6 | cut[15] & 0x3F
    cut[18:20] = (kept - 54).to_bytes(2, "big")
    return bytes(cut)


@pytest.mark.parametrize("tx_timestamp", [0x1234, None])
@pytest.mark.parametrize("dscp", [Dscp.TRIMMED, Dscp.TRIMMED_LASTHOP])
@pytest.mark.parametrize("payload_kept", [-16, -4, 0, 5])
def test_trimmed_packets_are_known_by_their_class(dscp, payload_kept, tx_timestamp):
    headers = 138 if tx_timestamp is not None else 134
    whole = bytes(scapy_write(PLAIN_WRITE, tx_timestamp=tx_timestamp))
    frame = trim(whole, headers + payload_kept, dscp)
    result = decoded([frame + b"\xee" * 40, whole])
    assert result.rejected == {}
    writes = result.writes
    assert writes.trimmed.tolist() == [True, False]
    assert writes.trimmed_lasthop.tolist() == [dscp is Dscp.TRIMMED_LASTHOP, False]
    assert writes.payload_bytes.tolist() == [0, 61]
    assert writes.psn.tolist() == [0xFFFFFF] * 2
    assert writes.tx_timestamp.tolist() == [tx_timestamp or 0] * 2
    reth_kept = payload_kept >= 0
    assert writes.va.tolist() == [PLAIN_WRITE["va"] * reth_kept, PLAIN_WRITE["va"]]
    assert writes.rkey.tolist() == [PLAIN_WRITE["rkey"] * reth_kept, PLAIN_WRITE["rkey"]]


def test_a_trimmed_packet_that_lost_its_timestamp_is_refused():
    assert decoded([trim(bytes(scapy_write(PLAIN_WRITE)), 120, Dscp.TRIMMED)]).rejected == {RejectReason.BAD_LENGTH: 1}


def changed(frame: bytes, **places: int) -> bytes:
    """The frame with bytes `b<offset>` set."""
    octets = bytearray(frame)
    for name, value in places.items():
        octets[int(name[1:])] = value
    return bytes(octets)


def rebuilt(**fields: int) -> bytes:
    """A good frame but for these BTH fields, ICRC right."""
    frame = scapy_write(PLAIN_WRITE)
    for name, value in fields.items():
        setattr(frame[BTH], name, value)
    return bytes(frame)


def echo_request() -> bytes:
    return bytes(Ether(type=0x86DD) / IPv6(src="fd5f::1", dst="fd5f::7") / ICMPv6EchoRequest())


def with_segment_list() -> bytes:
    frame = scapy_write(PLAIN_WRITE)
    inner = frame[IPv6].payload.copy()
    frame[IPv6].remove_payload()
    return bytes(frame / IPv6ExtHdrSegmentRouting(addresses=["5f00::1"]) / inner)


def bare(opcode: Opcode, header: Packet, **bth: int) -> Packet:
    """A control packet to DQPN."""
    return scapy_tunnel(int(EVS[0]), 0) / BTH(**{"opcode": opcode, "dqp": DQPN, **bth}) / header


def sack_without_mask() -> Packet:
    frame = scapy_sack(PLAIN_SACK)
    frame[SETH].nxt = c.SETH_NXT_PORT_MASK
    return frame


WRITE_FRAME = bytes(scapy_write(PLAIN_WRITE))
SACK_FRAME = bytes(scapy_sack(PLAIN_SACK))
OTHERS_UDP = bytes(scapy_tunnel(int(EVS[0]), 0, dport=53) / Raw(b"x" * 40))
NOTHING = Announcement(**dict.fromkeys(Announcement.__slots__, 0))
(ANNOUNCED,) = encode_announcements(SOURCE, PEER, EVS[:1], NOTHING)
(CLOSED,) = encode_announcements(SOURCE, PEER, EVS[:1], NOTHING, np.arange(256))
BAD_FRAMES = {
    "empty": (b"", RejectReason.TRUNCATED),
    "half an Ethernet header": (WRITE_FRAME[:13], RejectReason.TRUNCATED),
    "ARP": (bytes(Ether(type=0x0806) / ARP()), RejectReason.NOT_IPV6),
    "version 4": (changed(WRITE_FRAME, b14=0x40), RejectReason.NOT_IPV6),
    "half an outer header": (WRITE_FRAME[:40], RejectReason.TRUNCATED),
    "ping": (echo_request(), RejectReason.NOT_MRC),
    "half an inner header": (WRITE_FRAME[:80], RejectReason.TRUNCATED),
    "routing header": (with_segment_list(), RejectReason.ROUTING_HEADER),
    "inner version 4": (changed(WRITE_FRAME, b54=0x45), RejectReason.NOT_MRC),
    "inner TCP": (changed(WRITE_FRAME, b60=6), RejectReason.NOT_MRC),
    "another host": (changed(WRITE_FRAME, b93=0x08), RejectReason.BAD_ADDRESS),
    "another UDP port": (OTHERS_UDP, RejectReason.NOT_MRC),
    "announcement": (ANNOUNCED, RejectReason.ANNOUNCEMENT),
    "closing announcement": (CLOSED, RejectReason.ANNOUNCEMENT),
    "half a BTH": (WRITE_FRAME[:110], RejectReason.TRUNCATED),
    "transport version": (rebuilt(tver=1), RejectReason.BAD_BTH),
    "partition key": (rebuilt(pkey=0x7FFF), RejectReason.BAD_BTH),
    "classic RoCE write": (rebuilt(opcode=0x0A), RejectReason.UNKNOWN_OPCODE),
    "unassigned opcode": (rebuilt(opcode=0xC5), RejectReason.UNKNOWN_OPCODE),
    "cut payload": (WRITE_FRAME[:-1], RejectReason.TRUNCATED),
    "inner length": (changed(WRITE_FRAME, b59=WRITE_FRAME[59] - 4), RejectReason.BAD_LENGTH),
    "UDP length": (changed(WRITE_FRAME, b99=WRITE_FRAME[99] - 4), RejectReason.BAD_LENGTH),
    "outer length": (changed(WRITE_FRAME, b19=WRITE_FRAME[19] - 4), RejectReason.BAD_LENGTH),
    "no room for a RETH": (
        bytes(scapy_tunnel(int(EVS[0]), 0) / BTH(opcode=Opcode.WRITE_ONLY, dqp=DQPN, ts=1) / METH()),
        RejectReason.BAD_LENGTH,
    ),
    "pad without payload": (
        bytes(scapy_tunnel(int(EVS[0]), 0) / BTH(opcode=Opcode.WRITE_ONLY, dqp=DQPN, pad=3) / METH() / RETH()),
        RejectReason.BAD_LENGTH,
    ),
    "unpadded payload": (
        bytes(scapy_tunnel(int(EVS[0]), 0) / BTH(opcode=Opcode.WRITE_ONLY, pad=0) / METH() / RETH() / Raw(b"x")),
        RejectReason.BAD_LENGTH,
    ),
    "long SACK": (bytes(scapy_sack(PLAIN_SACK) / Raw(b"more")), RejectReason.BAD_LENGTH),
    "SACK without the mask it speaks of": (bytes(sack_without_mask()), RejectReason.BAD_LENGTH),
    "long probe": (bytes(bare(Opcode.PROBE_REQUEST, PETH()) / Raw(b"more")), RejectReason.BAD_LENGTH),
    "padded probe": (bytes(bare(Opcode.PROBE_REQUEST, PETH(), pad=1)), RejectReason.BAD_LENGTH),
    "short NACK": (bytes(bare(Opcode.NACK, AETH())), RejectReason.BAD_LENGTH),
    "trimmed NACK": (trim(bytes(bare(Opcode.NACK, NETH())), 138, Dscp.TRIMMED), RejectReason.BAD_LENGTH),
    "ACK with credits": (bytes(bare(Opcode.ACKNOWLEDGE, AETH(syndrome=0x05))), RejectReason.BAD_FIELD),
    "RNR NAK": (bytes(bare(Opcode.ACKNOWLEDGE, AETH(syndrome=0x21))), RejectReason.BAD_FIELD),
    "NACK for no known reason": (bytes(bare(Opcode.NACK, NETH(nack_reason=3))), RejectReason.BAD_FIELD),
    "NACK of another congestion control": (bytes(bare(Opcode.NACK, NETH(cc_type=0))), RejectReason.BAD_FIELD),
    "endpoint request to a QP": (bytes(bare(Opcode.ENDPOINT_REQUEST, ERTH())), RejectReason.BAD_FIELD),
    "endpoint response to a QP": (bytes(bare(Opcode.ENDPOINT_RESPONSE, EETH())), RejectReason.BAD_FIELD),
    "reserved request": (bytes(bare(Opcode.ENDPOINT_REQUEST, ERTH(op=2), dqp=2)), RejectReason.BAD_FIELD),
    "reserved response": (bytes(bare(Opcode.ENDPOINT_RESPONSE, EETH(op=3), dqp=2)), RejectReason.BAD_FIELD),
    "trimmed SACK": (trim(SACK_FRAME, 130, Dscp.TRIMMED), RejectReason.BAD_LENGTH),
    "reserved verdict": (bytes(scapy_sack(PLAIN_SACK | {"m": 3})), RejectReason.BAD_FIELD),
    "SACK of a reserved type": (bytes(bare(Opcode.SACK, SETH(type=1) / CC_STATE())), RejectReason.BAD_FIELD),
    "SACK with an unknown header behind": (bytes(bare(Opcode.SACK, SETH(nxt=5) / CC_STATE())), RejectReason.BAD_FIELD),
    "NACK of a reserved type": (bytes(bare(Opcode.NACK, NETH(res0=0x1000))), RejectReason.BAD_FIELD),
    "NACK with a header behind": (bytes(bare(Opcode.NACK, NETH(res0=0x0080))), RejectReason.BAD_FIELD),
    "probe of a reserved type": (bytes(bare(Opcode.PROBE_REQUEST, PETH(res0=0x1000))), RejectReason.BAD_FIELD),
    "payload bit": (changed(WRITE_FRAME, b150=WRITE_FRAME[150] ^ 1), RejectReason.BAD_ICRC),
    "source port": (changed(WRITE_FRAME, b95=WRITE_FRAME[95] ^ 1), RejectReason.BAD_ICRC),
    "SACK bitmap bit": (changed(SACK_FRAME, b136=SACK_FRAME[136] ^ 1), RejectReason.BAD_ICRC),
}


@pytest.mark.parametrize("case", BAD_FRAMES)
def test_each_bad_frame_has_its_reason(case):
    frame, reason = BAD_FRAMES[case]
    good = bytes(scapy_write(PLAIN_WRITE | {"psn": 9}))
    result = decoded([good, frame, good])
    assert result.rejected == {reason: 1}
    assert result.reasons.tolist() == [0, reason, 0]
    assert result.writes.psn.tolist() == [9, 9]


def test_every_reason_has_a_bad_frame():
    assert {reason for _, reason in BAD_FRAMES.values()} == set(RejectReason) - {RejectReason.ACCEPTED}


def test_all_bad_frames_together_are_counted_one_by_one():
    frames, reasons = zip(*BAD_FRAMES.values(), strict=True)
    result = decoded(list(frames))
    assert result.reasons.tolist() == list(reasons)
    assert result.writes is result.sacks is None


@pytest.mark.parametrize("sizes", [[24], [700], [24, 61], [24, 700, 61], [*range(1, 30, 4), 700, 900]], ids=str)
def test_of_any_mixture_of_lengths_just_the_wrong_rows_are_refused(sizes):
    """Short frames are checked all at once, long ones one by one, and many lengths in another way."""
    payloads = [sizes[row % len(sizes)] for row in range(40)]
    frames = [
        bytes(scapy_write(PLAIN_WRITE | {"psn": row, "payload_bytes": size})) for row, size in enumerate(payloads)
    ]
    assert decoded(frames).rejected == {}
    wrong = (3, 4, 17, 39)
    for row in wrong:
        frames[row] = changed(frames[row], b138=frames[row][138] ^ 0x10)
    result = decoded(frames)
    assert result.rejected == {RejectReason.BAD_ICRC: len(wrong)}
    assert np.flatnonzero(result.reasons).tolist() == list(wrong)


def test_without_the_check_a_wrong_icrc_passes():
    frame, _ = BAD_FRAMES["payload bit"]
    assert decoded([frame], check_icrc=False).rejected == {}


def test_a_length_longer_than_the_row_is_truncation():
    rows, lengths = block_of([WRITE_FRAME])
    assert decode(rows, lengths + 1, OWN, 0).rejected == {RejectReason.TRUNCATED: 1}


def test_an_empty_block_holds_nothing():
    result = decode(np.empty((0, 200), np.uint8), np.empty(0, np.uint32), OWN, 0)
    assert (result.writes, result.sacks, result.rejected) == (None, None, {})


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=8), st.booleans())
@settings(max_examples=100)
def test_random_bytes_never_raise(frames, check_icrc):
    rows, lengths = block_of(frames)
    assert_consistent(decode(rows, lengths, OWN, 0, check_icrc=check_icrc), rows, lengths)


CONTROL_FRAMES = [
    bytes(scapy_sack(PLAIN_SACK, port_mask=2)),
    bytes(bare(Opcode.ACKNOWLEDGE, AETH())),
    bytes(bare(Opcode.NACK, NETH())),
    bytes(bare(Opcode.PROBE_REQUEST, PETH())),
    bytes(bare(Opcode.ENDPOINT_REQUEST, ERTH(), dqp=2)),
    bytes(bare(Opcode.ENDPOINT_RESPONSE, EETH(), dqp=2)),
]
HEADER_VALUES = st.sampled_from([0x00, 0x01, 0x03, 0x10, 0x29, 0x2B, 0x60, 0x86, 0xC9, 0xCA, 0xDC, 0xFF])
MUTATIONS = st.lists(st.tuples(st.integers(0, 160), HEADER_VALUES | st.integers(0, 255)), max_size=4)


@given(
    st.lists(
        st.tuples(
            st.sampled_from([frame for frame, _ in BAD_FRAMES.values()] + [WRITE_FRAME, SACK_FRAME, *CONTROL_FRAMES]),
            MUTATIONS,
        ),
        min_size=1,
        max_size=6,
    ),
    st.integers(0, 220),
    st.booleans(),
)
@settings(max_examples=150)
def test_mutated_and_cut_frames_never_raise(frames, cut, check_icrc):
    blocks = []
    for frame, mutations in frames:
        octets = bytearray(frame)
        for place, value in mutations:
            if place < len(octets):
                octets[place] = value
        blocks.append(bytes(octets))
    blocks[0] = blocks[0][:cut]
    rows, lengths = block_of(blocks)
    assert_consistent(decode(rows, lengths, OWN, 0, check_icrc=check_icrc), rows, lengths)


def test_what_is_said_of_a_row_depends_on_no_other_row():
    """All frames of this module alone, together, and together but for the writes."""
    frames = [WRITE_FRAME, SACK_FRAME, *CONTROL_FRAMES, *(frame for frame, _ in BAD_FRAMES.values())]
    frames += [changed(frame, b110=frame[110] ^ 0x10) for frame in frames if len(frame) > 110]
    alone = [decoded([frame], check_icrc=False).reasons[0] for frame in frames]
    assert decoded(frames, check_icrc=False).reasons.tolist() == alone
    others = [(frame, reason) for frame, reason in zip(frames, alone, strict=True) if frame[102:103] >= b"\xd0"]
    assert decoded([frame for frame, _ in others], check_icrc=False).reasons.tolist() == [
        reason for _, reason in others
    ]


@given(st.integers(54, len(WRITE_FRAME) - 1), st.integers(0, 7))
@settings(max_examples=150)
def test_a_flipped_bit_behind_the_tunnel_is_never_delivered_unless_masked(place, bit):
    """Masked: inner class and flow label, hop limit, UDP checksum, BTH byte 4."""
    result = decoded([changed(WRITE_FRAME, **{f"b{place}": WRITE_FRAME[place] ^ 1 << bit})])
    masked = place in (55, 56, 57, 61, 100, 101, 106) or (place == 54 and bit < 4)
    assert (result.rejected == {}) == masked


def test_the_fixtures_are_ipv6_in_ipv6():
    frame = Ether(WRITE_FRAME)
    assert frame[UDP].dport == c.UDP_PORT_MRC
    assert frame[IPv6].nh == c.NEXT_HEADER_IPV6
