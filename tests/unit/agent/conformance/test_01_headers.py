"""Every header round-trips between Scapy and numpy; the two reference vectors match at both."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.wire import constants as c
from agent.wire.array.decode import decode
from agent.wire.array.encode import encode_sacks, encode_writes, write_frame_bytes
from agent.wire.constants import Opcode
from agent.wire.dtypes import BTH_OFFSET
from agent.wire.layers import BTH
from tests.unit.agent.wire.test_control import KINDS, each_kind, encoded, plain_row
from tests.unit.agent.wire.wire_frames import (
    EVS,
    PEER,
    SACK_ROW,
    SACK_TYPES,
    SOURCE_MEMORY,
    WRITE_ROW,
    block_of,
    sack_batch,
    scapy_sack,
    scapy_tunnel,
    scapy_write,
    template,
    write_batch,
)

WRITE_ONLY = bytes.fromhex("ca00ffff0000abcd9000010200000007123400010000100000002000deadbeef00000400")
SACK = bytes.fromhex("dc00ffff00001234000001000020000552000001abcd1234000001000008000100000000000000161234000300000421")


def rebuilt(frame: bytes) -> bytes:
    """Dissected by Scapy, and built again from the values alone, without the checksum that came with them."""
    layer = BTH(frame)
    layer.icrc = None
    for part in layer.iterpayloads():
        part.raw_packet_cache = None
    return bytes(layer)[:-4]


def received(vector: bytes):
    """A vector behind the tunnel, with its checksum, as numpy reads it."""
    frame = bytes(scapy_tunnel(int(EVS[0]), 0) / BTH(vector + bytes(4)))
    rows, lengths = block_of([frame])
    return decode(rows, lengths, PEER.address, 0, check_icrc=False)


@pytest.mark.parametrize("vector", [WRITE_ONLY, SACK], ids=["write", "sack"])
def test_the_vectors_are_dissected_and_built_again(vector):
    assert rebuilt(vector + bytes(4)) == vector


def test_the_write_vector_is_read():
    writes = received(WRITE_ONLY + bytes(1024)).writes
    told = {name: int(getattr(writes, name)[0]) for name in ("psn", "opcode", "dqpn", "msn", "va", "rkey", "dmalen")}
    assert told == {
        "psn": 0x102, "opcode": Opcode.WRITE_ONLY, "dqpn": 0xABCD, "msn": 7, "va": 0x100000002000,
        "rkey": 0xDEADBEEF, "dmalen": 1024,
    }  # fmt: skip
    assert int(writes.flags[0]) & c.BTH_ACK_REQUEST
    assert (int(writes.tx_timestamp[0]), int(writes.payload_bytes[0])) == (0x1234, 1024)


def test_the_sack_vector_is_read():
    sacks = received(SACK).sacks
    expected = {
        "cack_psn": 0x100, "ack_psn_offset": 5, "m": c.EcnVerdict.SKIP_ONCE, "pr": 0, "ev": 0x52000001, "mpr": 8,
        "sack_offset": 1, "tx_timestamp": 0x1234, "ooo_count": 3, "rcvd_bytes": 0x421,
    }  # fmt: skip
    assert {name: int(getattr(sacks, name)[0]) for name in expected} == expected
    base, bitmap = 0x100 + 1, int(sacks.bitmap[0])
    assert [base + bit for bit in range(64) if bitmap >> bit & 1] == [0x102, 0x103, 0x105]


@given(st.lists(WRITE_ROW, min_size=1, max_size=8))
def test_writes_round_trip(rows):
    """Scapy's frames, read by numpy, written by numpy: the same frames."""
    frames = [bytes(scapy_write(row)) for row in rows]
    writes = decode(*block_of(frames), PEER.address, 0).writes
    batch = write_batch([row | {"source_offset": int(o)} for row, o in zip(rows, writes.payload_offset, strict=True)],
                        writes.memory)  # fmt: skip
    for name in ("psn", "opcode", "msn", "rqmsn", "va", "rkey", "dmalen", "payload_bytes"):
        assert getattr(writes, name).tolist() == [row[name] for row in rows], name
    out = np.zeros((len(rows), write_frame_bytes(len(SOURCE_MEMORY), with_imm=True)), np.uint8)
    lengths = encode_writes(template(), batch, out)
    assert [out[i, :n].tobytes() for i, n in enumerate(lengths.tolist())] == frames


@given(st.lists(SACK_ROW, min_size=1, max_size=8))
def test_sacks_round_trip(rows):
    frames = [bytes(scapy_sack(row)) for row in rows]
    sacks = decode(*block_of(frames), PEER.address, 0).sacks
    told = [
        {name: int(getattr(sacks, name)[i]) for name in SACK_TYPES if name != "ev_index"}
        | {"ev_index": row["ev_index"]}
        for i, row in enumerate(rows)
    ]
    out = np.zeros((len(rows), 256), np.uint8)
    lengths = encode_sacks(template(), sack_batch(told), out)
    assert [out[i, :n].tobytes() for i, n in enumerate(lengths.tolist())] == frames


@each_kind
@given(data=st.data())
@settings(max_examples=40)
def test_control_packets_round_trip(kind, data):
    rows = data.draw(st.lists(kind.rows(), min_size=1, max_size=6))
    frames = [kind.frame(row) for row in rows]
    columns = getattr(decode(*block_of(frames), PEER.address, 0), kind.name)
    told = [
        {name: int(getattr(columns, name)[i]) for name in kind.fields} | {"ev_index": row["ev_index"]}
        for i, row in enumerate(rows)
    ]
    assert encoded(kind, kind.batch_of(told)) == frames


def test_every_opcode_of_the_table_is_among_them():
    control = {kind.frame(plain_row(kind))[BTH_OFFSET] for kind in KINDS}
    assert {*Opcode} == {*c.WRITE_OPCODES, Opcode.SACK, *control}
