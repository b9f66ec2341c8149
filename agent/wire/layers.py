"""Every MRC header as a Scapy layer: the readable reference, the tool for captures, and the oracle of the fast codec.

Field names are the specification's. Source: MRC 6.2.2, 7.5, Tables 7-6 to 7-22. Importing binds the layers
to MRC's UDP ports; what is not MRC there goes to scapy.contrib.roce if that is loaded. The only importer of Scapy here.
"""

import sys
from typing import Any

from scapy.fields import (
    BitEnumField,
    BitField,
    ByteEnumField,
    ByteField,
    ConditionalField,
    FCSField,
    FieldListField,
    IntField,
    ShortField,
    SignedShortField,
    ThreeBytesField,
    X3BytesField,
    XByteField,
    XIntField,
    XLongField,
    XShortField,
    XStrFixedLenField,
)
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Packet, Raw, bind_bottom_up, bind_layers, bind_top_down

from agent.wire import constants as c
from agent.wire.constants import AnnounceKind, EcnVerdict, EndpointOp, NackReason, NakCode, Opcode, SprayPolicyCode
from agent.wire.icrc import icrc_of


def _names(enum: Any) -> dict[int, str]:
    return {member.value: member.name for member in enum}


_SYNDROMES = {c.AETH_ACK: "ACK"} | {c.AETH_NAK + code: f"NAK {code.name}" for code in NakCode}


class BTH(Packet):
    """Base transport header as MRC sees it, with the ICRC that ends the packet; `pad`, `ts` and `icrc` fill themselves.

    Dissected payload keeps its pad bytes (`pad` tells how many), so that rebuilding gives the same frame.
    """

    name = "MRC BTH"
    fields_desc = (
        ByteEnumField("opcode", Opcode.WRITE_ONLY, _names(Opcode)),
        BitField("se", 0, 1),
        BitField("m", 0, 1),
        BitField("pad", None, 2),
        BitField("tver", 0, 4),
        XShortField("pkey", c.PKEY),
        XByteField("var_res", 0),
        X3BytesField("dqp", 0),
        BitField("a", 0, 1),
        BitField("r", 0, 1),
        BitField("rtx", 0, 1),
        BitField("ts", None, 1),
        BitField("inv_res", 0, 4),
        ThreeBytesField("psn", 0),
        FCSField("icrc", None, fmt="<I"),
    )

    def post_build(self, p: bytes, pay: bytes) -> bytes:
        """Pad the payload, tell of a TSETH, compute the ICRC: each only where left None."""
        header, body, icrc = bytearray(p), pay[: -c.ICRC_BYTES], pay[-c.ICRC_BYTES :]
        if self.pad is None:
            pad = -len(body) % 4
            header[1] |= pad << 4
            body += bytes(pad)
        if self.ts is None and self.haslayer(TSETH):
            header[8] |= c.BTH_TIMESTAMP
        whole = bytes(header) + body
        return whole + (self._icrc(whole) if self.icrc is None else icrc)

    def _icrc(self, whole: bytes) -> bytes:
        """Zero where the layers below are not there to be covered."""
        udp = self.underlayer
        ip = udp.underlayer if isinstance(udp, UDP) else None
        if not isinstance(ip, IPv6):
            return bytes(c.ICRC_BYTES)
        length = c.UDP_BYTES + len(whole) + c.ICRC_BYTES
        ip_header = ip.copy()
        ip_header.remove_payload()
        ip_header.nh = c.NEXT_HEADER_UDP
        ip_header.plen = length if ip.plen is None else ip.plen
        udp_header = UDP(sport=udp.sport, dport=udp.dport, len=length if udp.len is None else udp.len, chksum=0)
        return icrc_of(bytes(ip_header) + bytes(udp_header) + whole).to_bytes(4, "little")

    def guess_payload_class(self, payload: bytes) -> Any:
        """By opcode (MRC Table 7-5)."""
        return METH if self.opcode in c.WRITE_OPCODES else CONTROL_LAYERS.get(self.opcode, Raw)

    @classmethod
    def dispatch_hook(cls, _pkt: bytes | None = None, *args: Any, **kwargs: Any) -> Any:
        """Leave classic RoCE opcodes (top bits not 110) to Scapy's own layer where somebody loaded it."""
        roce = sys.modules.get("scapy.contrib.roce")
        return cls if roce is None or not _pkt or _pkt[0] >> 5 == Opcode.SACK >> 5 else roce.BTH

    def mysummary(self) -> Any:
        """One line."""
        return self.sprintf("MRC %BTH.opcode% dqp=%BTH.dqp% psn=%BTH.psn%")


class _BehindBTH(Packet):
    """A header whose successor depends on the BTH."""

    def bth(self) -> Any:
        """The BTH in front, or None in a fragment built alone."""
        layer = self.underlayer
        while layer is not None and not isinstance(layer, BTH):
            layer = layer.underlayer
        return layer


class METH(_BehindBTH):
    """Message sequence numbers, on every request packet."""

    name = "MRC METH"
    fields_desc = (ShortField("rqmsn", 0), ShortField("msn", 0))

    def guess_payload_class(self, payload: bytes) -> Any:
        """TSETH if the BTH says so."""
        bth = self.bth()
        return TSETH if bth is not None and bth.ts else RETH


class TSETH(Packet):
    """Transmit timestamp; tsr = 1: ticks of our choice, 8192 ns."""

    name = "MRC TSETH"
    fields_desc = (
        ShortField("tx_timestamp", 0),
        BitField("tsr", 1, 1),
        BitField("res", 0, 11),
        BitField("ftype", c.TSETH_FTYPE, 4),
    )


class RETH(_BehindBTH):
    """Where the payload goes, on every request packet; `dmalen` is that of the whole message."""

    name = "MRC RETH"
    fields_desc = (XLongField("va", 0), XIntField("rkey", 0), IntField("dmalen", 0))

    def guess_payload_class(self, payload: bytes) -> Any:
        """ImmDt if the opcode carries one."""
        bth = self.bth()
        return ImmDt if bth is not None and bth.opcode in c.IMMEDIATE_OPCODES else Raw


class ImmDt(Packet):
    """Immediate data, opaque."""

    name = "MRC ImmDt"
    fields_desc = (XIntField("imm", 0),)


class AETH(Packet):
    """Transport acknowledgement: 0x1F, or 0x60 + NakCode."""

    name = "MRC AETH"
    fields_desc = (ByteEnumField("syndrome", c.AETH_ACK, _SYNDROMES), ThreeBytesField("msn", 0))


class SETH(Packet):
    """Selective acknowledgement; with `pr` set, `ack_psn_offset` holds the probe id instead (Table 7-14)."""

    name = "MRC SETH"
    fields_desc = (
        BitField("type", 0, 4),
        BitField("nxt", 0, 5),
        BitEnumField("m", 0, 2, _names(EcnVerdict)),
        BitField("r0", 0, 3),
        BitField("pr", 0, 1),
        BitField("r1", 0, 1),
        SignedShortField("ack_psn_offset", 0),
        XIntField("entropy", 0),
        XShortField("spdcid", 0),
        XShortField("dpdcid", 0),
        ByteField("res", 0),
        ThreeBytesField("cack_psn", 0),
        BitField("cc_type", 0, 4),
        BitField("cc_fl", 0, 4),
        ByteField("mpr", 0),
        SignedShortField("sack_offset", 0),
        XLongField("sack_bitmap", 0),
    )


class CC_STATE(Packet):  # noqa: N801 - the specification's name
    """NSCC congestion control state behind a SETH (Table 7-12)."""

    name = "MRC CC_STATE"
    fields_desc = (
        ShortField("tx_timestamp", 0),
        BitField("r", 0, 1),
        BitField("ooo_count", 0, 15),
        BitField("restore_cwnd", 0, 1),
        BitField("rcv_cwnd_pen", 0, 7),
        ThreeBytesField("rcvd_bytes", 0),
    )

    def guess_payload_class(self, payload: bytes) -> Any:
        """The port mask if the SETH says so."""
        seth = self.underlayer
        return PortMask if isinstance(seth, SETH) and seth.nxt == c.SETH_NXT_PORT_MASK else Raw


class PortMask(Packet):
    """Ports that work at the sender of a SACK whose `nxt` is 0x1F; bit N = port N (our choice, not in OCP MRC)."""

    name = "MRC port mask"
    fields_desc = (XIntField("port_mask", 0),)


class NETH(Packet):
    """Negative acknowledgement of one PSN with its reason (Table 7-16)."""

    name = "MRC NETH"
    fields_desc = (
        XShortField("res0", 0),
        ByteEnumField("nack_reason", NackReason.TRIMMED, _names(NackReason)),
        ByteField("vendor_info", 0),
        XIntField("entropy", 0),
        XShortField("spdcid", 0),
        XShortField("dpdcid", 0),
        ByteField("res", 0),
        ThreeBytesField("nack_psn", 0),
        BitField("cc_type", c.NETH_CC_TYPE, 4),
        BitField("cc_fl", 0, 4),
        ByteField("res17", 0),
        ShortField("tx_timestamp", 0),
    )


class PETH(Packet):
    """Reliability probe of one QP (Table 7-18)."""

    name = "MRC PETH"
    fields_desc = (
        XShortField("res0", 0),
        ByteField("res2", 0),
        ByteField("vendor_info", 0),
        XShortField("probe_id", 0),
        XShortField("res6", 0),
        XShortField("spdcid", 0),
        XShortField("dpdcid", 0),
        ShortField("tx_timestamp", 0),
        BitField("tsr", 1, 1),
        BitField("res14", 0, 11),
        BitField("ftype", c.TSETH_FTYPE, 4),
    )


class ERTH(Packet):
    """Endpoint request: EV probe or port status update; mask bit N = port N, bit 0 unused (Table 7-20)."""

    name = "MRC ERTH"
    fields_desc = (
        BitField("res0", 0, 14),
        BitEnumField("op", EndpointOp.EV_PROBE, 2, _names(EndpointOp)),
        ByteField("res2", 0),
        ByteField("vendor_info", 0),
        XIntField("port_status_mask", 0),
        XIntField("res8", 0),
        ShortField("tx_timestamp", 0),
        BitField("tsr", 1, 1),
        BitField("res14", 0, 11),
        BitField("ftype", c.TSETH_FTYPE, 4),
    )


class EETH(Packet):
    """Endpoint response; `op` at bits 3:2, where sources disagree (Table 7-22)."""

    name = "MRC EETH"
    fields_desc = (
        BitField("res0", 0, 12),
        BitEnumField("op", EndpointOp.EV_PROBE, 2, _names(EndpointOp)),
        BitField("r0", 0, 2),
        XStrFixedLenField("res2", bytes(26), 26),
        ShortField("tx_timestamp", 0),
        XStrFixedLenField("res30", bytes(6), 6),
    )


class Announce(Packet):
    """Flow announcement to the SprayCheck leaves (SprayCheck F1, D1); our own, on its own UDP port.

    One that closes a flow, in its own plane or another, ends with `shares`: first transmissions over spine 0 to k - 1.
    """

    name = "SprayCheck Announce"
    fields_desc = (
        XIntField("magic", c.ANNOUNCE_MAGIC),
        ByteField("version", c.ANNOUNCE_VERSION),
        ByteEnumField("policy", SprayPolicyCode.ROTATION, _names(SprayPolicyCode)),
        ByteField("plane", 0),
        ByteEnumField("kind", AnnounceKind.OPEN, _names(AnnounceKind)),
        ShortField("epoch", 0),
        ShortField("spines", 0),
        ShortField("src_leaf", 0),
        ShortField("dst_leaf", 0),
        ShortField("src_host", 0),
        ShortField("dst_host", 0),
        XIntField("dqpn", 0),
        IntField("start_psn", 0),
        IntField("packets", 0),
        IntField("last_psn", 0),
        IntField("end_psn", 0),
        ByteField("measured", 0),
        XStrFixedLenField("res41", bytes(3), 3),
        ConditionalField(
            FieldListField("shares", [], IntField("share", 0), count_from=lambda packet: packet.spines),
            lambda packet: packet.kind != AnnounceKind.OPEN,
        ),
    )


CONTROL_LAYERS = {
    Opcode.ACKNOWLEDGE: AETH,
    Opcode.ENDPOINT_REQUEST: ERTH,
    Opcode.ENDPOINT_RESPONSE: EETH,
    Opcode.SACK: SETH,
    Opcode.NACK: NETH,
    Opcode.PROBE_REQUEST: PETH,
}

bind_layers(TSETH, RETH)
bind_layers(SETH, CC_STATE)
# Zero UDP checksum is RoCEv2's practice; the ICRC covers the packet.
bind_top_down(UDP, BTH, dport=c.UDP_PORT_MRC, chksum=0)
bind_top_down(UDP, Announce, dport=c.UDP_PORT_ANNOUNCE, chksum=0)
for _port, _layer in ((c.UDP_PORT_MRC, BTH), (c.UDP_PORT_MRC_ALT, BTH), (c.UDP_PORT_ANNOUNCE, Announce)):
    bind_bottom_up(UDP, _layer, dport=_port)
# First come, first served: ours must be asked before scapy.contrib.roce, which cannot tell MRC from RoCE.
UDP.payload_guess.sort(key=lambda guess: guess[1] is not BTH)
