"""Wireshark's RoCE dissector reads our frames, tunnel included.

MRC's opcodes (0xC6...) lie in InfiniBand's manufacturer range: tshark has no name for them, so of an MRC frame it reads
the BTH (opcode number, destination QP, ack request, the rtx and ts bits as "reserved", PSN) and shows the rest as
unknown data. Of a classic RoCEv2 write built from the same BTH and RETH layers it reads every header and the ICRC.
"""

from pathlib import Path
from shutil import which

import numpy as np
import pytest
from scapy.contrib import roce
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.utils import wrpcap

from agent.wire import constants as c
from agent.wire.array.encode import encode_sacks, encode_writes
from agent.wire.layers import BTH, RETH
from tests.support.tshark import number, run_tshark
from tests.unit.agent.wire.wire_frames import (
    DQPN,
    EVS,
    SACK_TYPES,
    SOURCE_MEMORY,
    sack_batch,
    scapy_tunnel,
    template,
    write_batch,
)

pytestmark = pytest.mark.skipif(which("tshark") is None, reason="tshark is not installed (apt install tshark)")

WRITE_ROW = {
    "psn": 0x102,
    "opcode": 0xCA,
    "flags": c.BTH_ACK_REQUEST | c.BTH_RETRANSMISSION,
    "ev_index": 5,
    "msn": 7,
    "rqmsn": 0,
    "va": 0x100000002000,
    "rkey": 0xDEADBEEF,
    "dmalen": 62,
    "imm": 0,
    "source_offset": 0,
    "payload_bytes": 62,
}


BTH_FIELDS = tuple(
    f"infiniband.bth.{name}" for name in ("opcode", "padcnt", "p_key", "destqp", "a", "reserved7", "psn")
)
RETH_FIELDS = ("infiniband.reth.va", "infiniband.reth.r_key", "infiniband.reth.dmalen")
ICRC = "infiniband.invariant.crc"


def dissected(frame: bytes, folder: Path, *options: str) -> dict[str, str]:
    """What tshark reads of a frame; fields it does not find are left out."""
    pcap = folder / "frame.pcap"
    wrpcap(str(pcap), [frame])
    names = ("frame.protocols", "udp.srcport", *BTH_FIELDS, *RETH_FIELDS, ICRC)
    wanted = [word for name in names for word in ("-e", name)]
    output = run_tshark(pcap, ("-T", "fields", *wanted, *options)).stdout
    return {name: value for name, value in zip(names, output.rstrip("\n").split("\t"), strict=True) if value}


def encoded_write(udp_port: int = c.UDP_PORT_MRC) -> bytes:
    out = np.zeros((1, 256), np.uint8)
    lengths = encode_writes(template(udp_port=udp_port), write_batch([WRITE_ROW], SOURCE_MEMORY), out)
    return out[0, : lengths[0]].tobytes()


def numbers(read: dict[str, str], fields: tuple[str, ...]) -> dict[str, int]:
    return {name.rsplit(".", 1)[1]: number(read[name]) for name in fields}


EXPECTED_BTH = {
    "opcode": 0xCA,
    "padcnt": 2,
    "p_key": 0xFFFF,
    "destqp": DQPN,
    "a": 1,
    "reserved7": c.BTH_RETRANSMISSION | c.BTH_TIMESTAMP,
    "psn": 0x102,
}


def test_a_write_in_its_tunnel(tmp_path):
    read = dissected(encoded_write(), tmp_path)
    assert read["frame.protocols"] == "eth:ethertype:ipv6:ipv6:udp:infiniband"
    assert numbers(read, BTH_FIELDS) == EXPECTED_BTH
    assert int(read["udp.srcport"]) == int(EVS[5]) >> 16


def test_a_write_behind_its_tunnel(tmp_path):
    frame = encoded_write()
    read = dissected(frame[:14] + frame[54:], tmp_path)
    assert read["frame.protocols"] == "eth:ethertype:ipv6:udp:infiniband"
    assert numbers(read, BTH_FIELDS) == EXPECTED_BTH


def test_of_mrc_opcodes_only_the_bth_is_read(tmp_path):
    """Fails when Wireshark learns MRC: then look at what more it can check."""
    read = dissected(encoded_write(), tmp_path)
    assert not any(name in read for name in (*RETH_FIELDS, ICRC))


def test_a_sack(tmp_path):
    out = np.zeros((1, 154), np.uint8)
    encode_sacks(template(), sack_batch([dict.fromkeys(SACK_TYPES, 0) | {"cack_psn": 0xFFFFFF}]), out)
    bth = numbers(dissected(out[0].tobytes(), tmp_path), BTH_FIELDS)
    assert (bth["opcode"], bth["destqp"], bth["psn"]) == (0xDC, DQPN, 0xFFFFFF)


def test_the_second_port_needs_a_preference(tmp_path):
    frame = encoded_write(c.UDP_PORT_MRC_ALT)
    told = dissected(frame, tmp_path, "-o", f"infiniband.rroce.port:{c.UDP_PORT_MRC_ALT}")
    assert "infiniband" not in dissected(frame, tmp_path)["frame.protocols"]
    assert numbers(told, BTH_FIELDS) == EXPECTED_BTH


def test_a_classic_write_of_our_layers_is_read_to_the_icrc(tmp_path):
    """tshark shows the ICRC but does not compute it; that it is right, Scapy's own RoCE layer says."""
    frame = scapy_tunnel(int(EVS[5]), 0)
    frame /= BTH(opcode=0x0A, dqp=DQPN, psn=0x102, a=1) / RETH(va=0x100000002000, rkey=0xDEADBEEF, dmalen=62)
    raw = bytes(frame / Raw(SOURCE_MEMORY[:62].tobytes()))
    read = dissected(raw, tmp_path)
    assert numbers(read, BTH_FIELDS) == EXPECTED_BTH | {"opcode": 0x0A, "reserved7": 0}
    assert numbers(read, RETH_FIELDS) == {"va": 0x100000002000, "r_key": 0xDEADBEEF, "dmalen": 62}
    assert bytes.fromhex(read[ICRC][2:]) == raw[-4:] == independent_icrc(raw)


def independent_icrc(raw: bytes) -> bytes:
    inner = IPv6(bytes(Ether(raw)[IPv6].payload))
    bth = roce.BTH(bytes(inner[UDP].payload))
    bth.icrc = None
    inner[UDP].remove_payload()
    return bytes(inner / bth)[-4:]
