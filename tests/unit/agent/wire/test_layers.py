"""Scapy layers: the reference vectors, and agreement with the dtypes header by header."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers import inet, inet6
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from agent.wire import constants as c
from agent.wire import dtypes, layers
from agent.wire.constants import Opcode
from agent.wire.layers import BTH, CC_STATE, EETH, ERTH, METH, NETH, PETH, RETH, SETH, TSETH, ImmDt


def without_icrc(packet: Packet) -> str:
    return bytes(packet)[:-4].hex()


def test_vector_write_only():
    """Bytes worked out by hand from Tables 7-6 to 7-14."""
    packet = BTH(opcode=Opcode.WRITE_ONLY, dqp=0x00ABCD, a=1, psn=0x000102) / METH(msn=7)
    packet /= TSETH(tx_timestamp=0x1234, tsr=0) / RETH(va=0x100000002000, rkey=0xDEADBEEF, dmalen=1024)
    assert without_icrc(packet) == "ca00ffff0000abcd9000010200000007123400010000100000002000deadbeef00000400"


def test_vector_sack():
    """By hand from Table 7-14: received {0x102, 0x103, 0x105} from base 0x101, least significant bit first."""
    base, received = 0x101, (0x102, 0x103, 0x105)
    bitmap = sum(1 << psn - base for psn in received)
    seth = SETH(m=1, ack_psn_offset=5, entropy=0x52000001, spdcid=0xABCD, dpdcid=0x1234, cack_psn=0x100, mpr=8)
    seth.sack_offset, seth.sack_bitmap = 1, bitmap
    packet = BTH(opcode=Opcode.SACK, dqp=0x1234, psn=0x100) / seth
    packet /= CC_STATE(tx_timestamp=0x1234, ooo_count=3, rcvd_bytes=0x421)
    assert without_icrc(packet) == (
        "dc00ffff00001234000001000020000552000001abcd1234000001000008000100000000000000161234000300000421"
    )


@dataclass(frozen=True)
class Header:
    layer: type[Packet]
    dtype: np.dtype
    words: dict[str, str]
    """Words of the dtype that mix fields: names in wire order with their bits."""
    trailer: int = 0
    always: tuple[int, int, int] = (0, 0xFF, 0)
    """Place, bits kept and bits set in any bytes tried, for Scapy to take them for this header."""


HEADERS = {
    "ethernet": Header(Ether, dtypes.ETHERNET, {}, always=(12, 0xFF, 0x80)),
    "ipv6": Header(inet6.IPv6, dtypes.IPV6, {"class_word": "version:4 tc:8 fl:20"}),
    "udp": Header(inet.UDP, dtypes.UDP, {}),
    "bth": Header(
        BTH,
        dtypes.BTH,
        {
            "pad_tver": "se:1 m:1 pad:2 tver:4",
            "dqp_word": "var_res:8 dqp:24",
            "flags": "a:1 r:1 rtx:1 ts:1 inv_res:4",
            "psn_word": "a:1 r:1 rtx:1 ts:1 inv_res:4 psn:24",
        },
        trailer=4,
        always=(0, 0x1F, 0xC0),
    ),
    "meth": Header(METH, dtypes.METH, {}),
    "tseth": Header(TSETH, dtypes.TSETH, {"tsr_ftype": "tsr:1 res:11 ftype:4"}),
    "reth": Header(RETH, dtypes.RETH, {}),
    "immdt": Header(ImmDt, dtypes.IMMDT, {}),
    "aeth": Header(layers.AETH, dtypes.AETH, {"msn_word": "syndrome:8 msn:24"}),
    "seth": Header(
        SETH,
        dtypes.SETH,
        {
            "m_pr": "type:4 nxt:5 m:2 r0:3 pr:1 r1:1",
            "cack_word": "res:8 cack_psn:24",
            "cc": "cc_type:4 cc_fl:4",
        },
    ),
    "cc_state": Header(
        CC_STATE,
        dtypes.CC_STATE,
        {"ooo_count": "r:1 ooo_count:15", "rcvd_word": "restore_cwnd:1 rcv_cwnd_pen:7 rcvd_bytes:24"},
    ),
    "port_mask": Header(layers.PortMask, dtypes.PORT_MASK, {}),
    "neth": Header(NETH, dtypes.NETH, {"nack_word": "res:8 nack_psn:24", "cc": "cc_type:4 cc_fl:4"}),
    "peth": Header(PETH, dtypes.PETH, {"tsr_ftype": "tsr:1 res14:11 ftype:4"}),
    "erth": Header(ERTH, dtypes.ERTH, {"op_word": "res0:14 op:2", "tsr_ftype": "tsr:1 res14:11 ftype:4"}),
    "eeth": Header(EETH, dtypes.EETH, {"op_word": "res0:12 op:2 r0:2"}),
    "announce": Header(layers.Announce, dtypes.ANNOUNCE, {}, always=(7, 0xFE, 0)),  # opens: nothing follows
}


def spoken(value: object) -> object:
    """Values as both readings can compare them."""
    if isinstance(value, np.ndarray):
        return value.tobytes()
    return int(value) if not isinstance(value, bytes) else value


def scapy_value(packet: Packet, header: Header, name: str) -> object:
    if name in header.words:
        word = 0
        for part in header.words[name].split():
            field, bits = part.split(":")
            word = word << int(bits) | packet.getfieldval(field)
        return word
    field = packet.get_field(name)
    value = packet.getfieldval(name)
    return field.i2m(packet, value) if isinstance(value, str) else value


@pytest.mark.parametrize("name", HEADERS)
@given(data=st.data())
@settings(max_examples=40)
def test_scapy_and_numpy_read_the_same(name, data):
    """Any bytes: every field of the dtype says what Scapy says, and Scapy rebuilds the bytes."""
    header = HEADERS[name]
    drawn = bytearray(data.draw(st.binary(min_size=header.dtype.itemsize, max_size=header.dtype.itemsize)))
    place, kept, ones = header.always
    drawn[place] = drawn[place] & kept | ones
    raw = bytes(drawn)
    packet = header.layer(raw + bytes(header.trailer))
    record = np.frombuffer(raw, header.dtype)[0]
    for field in header.dtype.names:
        assert spoken(record[field]) == spoken(scapy_value(packet, header, field)), field
    assert bytes(packet)[: len(raw)] == raw
    rewritten = np.zeros(1, header.dtype)
    for field in header.dtype.names:
        rewritten[field] = record[field]
    assert rewritten.tobytes() == raw


@pytest.mark.parametrize("name", HEADERS)
def test_lengths_are_those_of_the_constants(name):
    names = {"ethernet": "ETHERNET_BYTES", "ipv6": "IPV6_BYTES"}
    expected = getattr(c, names.get(name, f"{name.upper()}_BYTES"), HEADERS[name].dtype.itemsize)
    assert HEADERS[name].dtype.itemsize == expected
    assert len(bytes(HEADERS[name].layer())) - HEADERS[name].trailer == expected


CONTROL = [
    (Opcode.ACKNOWLEDGE, layers.AETH(syndrome=0x61, msn=5)),
    (Opcode.ENDPOINT_REQUEST, ERTH(op=0, port_status_mask=0b110, tx_timestamp=9)),
    (Opcode.ENDPOINT_RESPONSE, EETH(op=1, tx_timestamp=9)),
    (Opcode.SACK, SETH(pr=1, ack_psn_offset=-3) / CC_STATE(rcv_cwnd_pen=64)),
    (Opcode.SACK, SETH(nxt=c.SETH_NXT_PORT_MASK) / CC_STATE() / layers.PortMask(port_mask=0b110)),
    (Opcode.NACK, NETH(nack_reason=0x0B, nack_psn=0xFFFFFF)),
    (Opcode.PROBE_REQUEST, PETH(probe_id=0xBEEF)),
]


@pytest.mark.parametrize(("opcode", "header"), CONTROL, ids=lambda value: getattr(value, "name", ""))
@pytest.mark.parametrize("port", [c.UDP_PORT_MRC, c.UDP_PORT_MRC_ALT])
def test_an_opcode_leads_to_its_headers_on_both_ports(opcode, header, port):
    base = inet6.IPv6(src="fd5f::1", dst="fd5f::2") / inet.UDP(sport=0xC000, dport=port)
    frame = bytes(base / BTH(opcode=opcode, dqp=2) / header)
    packet = inet6.IPv6(frame)
    assert type(packet[BTH].payload) is type(header)
    assert bytes(packet[BTH].payload) == bytes(header)
    packet[BTH].icrc = None
    assert bytes(packet) == frame


def test_op_bits_of_the_endpoint_headers():
    """ERTH has op in bits 1:0, EETH in bits 3:2 of the first word."""
    assert bytes(ERTH(op=1))[:2] == b"\x00\x01"
    assert bytes(EETH(op=1))[:2] == b"\x00\x04"


def test_a_fragment_without_ip_gets_no_icrc():
    assert bytes(BTH() / METH() / RETH())[-4:] == bytes(4)


def test_given_pad_and_icrc_are_kept():
    raw = bytes(BTH(pad=1, icrc=0x01020304) / METH() / RETH() / Raw(b"abc"))
    assert raw[1] == 0x10
    assert raw[-7:] == b"abc\x04\x03\x02\x01"


def test_one_line_names_the_packet():
    assert BTH(opcode=Opcode.SACK, dqp=5, psn=9).summary() == "MRC SACK dqp=0x5 psn=9"
