"""ICRC: the table form against the plain one, and both against Scapy's RoCE layer and zlib."""

import subprocess
import sys
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.contrib import roce
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Raw

from agent.wire.array.icrc import HEADER_BYTES, RESIDUE, are_right, carried, icrc_of, icrcs_alike, icrcs_of
from tests.unit.agent.wire.wire_frames import SOURCE_MEMORY, scapy_write

PACKETS = st.binary(min_size=HEADER_BYTES, max_size=600)


def runs_of(packets: list[bytes]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    ends = np.cumsum([len(packet) for packet in packets])
    starts = ends - [len(packet) for packet in packets]
    headers = np.stack([np.frombuffer(packet[:HEADER_BYTES], np.uint8) for packet in packets])
    return np.frombuffer(b"".join(packets), np.uint8), starts, ends, headers


@given(st.lists(PACKETS, min_size=1, max_size=8))
def test_tables_equal_the_plain_form(packets):
    assert icrcs_of(*runs_of(packets)).tolist() == [icrc_of(packet) for packet in packets]


@given(PACKETS, st.data())
def test_only_what_switches_may_change_is_left_out(packet, data):
    place = data.draw(st.integers(0, len(packet) - 1))
    changed = bytearray(packet)
    changed[place] ^= data.draw(st.integers(1, 255))
    masked = place in (1, 2, 3, 7, 46, 47, 52) or (place == 0 and changed[0] & 0xF0 == packet[0] & 0xF0)
    assert (icrc_of(bytes(changed)) == icrc_of(packet)) == masked


@given(PACKETS, st.integers(0, 31))
def test_a_right_icrc_is_known_and_a_wrong_one_refused(packet, bit):
    icrc = icrc_of(packet)
    right, wrong = packet + icrc.to_bytes(4, "little"), packet + (icrc ^ 1 << bit).to_bytes(4, "little")
    assert (icrcs_of(*runs_of([right, wrong])) == RESIDUE).tolist() == [True, False]


@given(st.integers(HEADER_BYTES, 600), st.integers(1, 8), st.integers(0, 2**32))
def test_runs_of_one_length_need_no_places(length, count, seed):
    packets = [np.random.default_rng((seed, row)).bytes(length) for row in range(count)]
    headers = runs_of(packets)[3]
    assert icrcs_alike([memoryview(p) for p in packets], headers).tolist() == [icrc_of(p) for p in packets]


@given(st.integers(HEADER_BYTES, 300), st.integers(1, 9), st.integers(0, 2**32), st.data())
def test_a_block_is_right_if_every_row_is(length, count, seed, data):
    """Also where masked bytes differ from row to row; one changed bit that counts makes it wrong."""
    packets = [np.random.default_rng((seed, row)).bytes(length) for row in range(count)]
    block = np.frombuffer(b"".join(p + icrc_of(p).to_bytes(4, "little") for p in packets), np.uint8)
    block = block.reshape(count, length + 4)
    assert are_right(block.copy())
    row, place = data.draw(st.integers(0, count - 1)), data.draw(st.integers(8, 39) | st.integers(length, length + 3))
    wrong = block.copy()
    wrong[row, place] ^= 1 << data.draw(st.integers(0, 7))
    assert not are_right(wrong)


@given(st.integers(0, 2**32 - 1), st.integers(0, 20_000))
def test_carrying_a_difference_is_what_zlib_does_over_zeros(difference, count):
    zeros = bytes(count)
    expected = crc32(zeros, 0xFFFFFFFF) ^ crc32(zeros, 0xFFFFFFFF ^ difference)
    assert carried(np.array([difference], np.uint32), np.array([count]))[0] == expected


def test_carrying_over_many_lengths_at_once():
    effect = np.arange(1, 9, dtype=np.uint32)
    counts = np.array([5, 0, 5, 17, 1, 0, 4000, 17])
    alone = [int(carried(effect[i : i + 1], counts[i : i + 1])[0]) for i in range(8)]
    assert carried(effect, counts).tolist() == alone


@given(payload=st.binary(max_size=300), label=st.integers(0, 0xFFFFF), psn=st.integers(0, 2**24 - 1))
@settings(max_examples=30)
def test_scapys_roce_layer_agrees_on_ipv6(payload, label, psn):
    """An implementation that is not ours, over classic RoCEv2 opcodes."""
    base = IPv6(src="fd5f::1", dst="fd5f::2", fl=label, tc=7, hlim=3) / UDP(sport=0xC001, dport=4791)
    raw = bytes(base / roce.BTH(opcode=0x0A, dqpn=5, psn=psn, pkey=0xFFFF) / Raw(bytes(16) + payload))
    assert icrc_of(raw[:-4]).to_bytes(4, "little") == raw[-4:]


@pytest.mark.parametrize("opcode", [0xC6, 0xCB, 0xC8])
def test_scapys_roce_layer_agrees_on_mrc_frames(opcode):
    row = dict.fromkeys(("psn", "msn", "rqmsn", "va", "rkey", "dmalen", "imm", "flags", "ev_index"), 3)
    frame = bytes(scapy_write(row | {"opcode": opcode, "source_offset": 0, "payload_bytes": 61}, SOURCE_MEMORY))
    inner = IPv6(frame[54:])
    bth = roce.BTH(bytes(inner[UDP].payload))
    bth.icrc = None
    inner[UDP].remove_payload()
    assert bytes(inner / bth)[-4:] == frame[-4:]


ROCE_FIRST = "from scapy.contrib import roce; from agent.wire.layers import BTH"
OURS_FIRST = "from agent.wire.layers import BTH; from scapy.contrib import roce"
SIDE_BY_SIDE = """
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
base = IPv6(src="fd5f::1", dst="fd5f::2") / UDP(sport=0xC001, dport=4791)
classic, mrc = IPv6(bytes(base / roce.BTH(opcode=4))), IPv6(bytes(base / BTH(opcode=0xD1)))
assert roce.BTH in classic and BTH not in classic
assert BTH in mrc and roce.BTH not in mrc
"""


@pytest.mark.parametrize("imports", [ROCE_FIRST, OURS_FIRST], ids=["roce first", "ours first"])
def test_both_roce_layers_live_side_by_side(imports):
    """Whichever is imported first, an opcode goes to the layer that knows it."""
    subprocess.run([sys.executable, "-c", imports + SIDE_BY_SIDE], check=True, timeout=60)
