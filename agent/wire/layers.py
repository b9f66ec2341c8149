"""MRC (Multipath Reliable Connection, OCP MRC 1.0): RDMA writes sprayed over many paths, acknowledged selectively.

Every MRC header as a Scapy layer: the readable reference, a tool for captures, the codec of the Scapy engine and the
oracle of the fast codec. Names of fields are the specification's; tables and sections are those of OCP MRC 1.0.

This file needs Scapy alone. Copied to `scapy/contrib/mrc.py` it is loaded by `load_contrib("mrc")`; inside spraylab it
is `agent.wire.layers`. Loading binds the layers to MRC's UDP ports; other packets to these ports go to
`scapy.contrib.roce` if that is loaded.

How the headers follow one another (all behind Ethernet / IPv6 / IPv6 / UDP to port 4791)::

    a write      BTH / METH / TSETH / RETH [/ ImmDt] / payload   moves payload into the peer's memory at RETH.va
    SACK         BTH / SETH / CC_STATE [/ PortMask]              which packets have arrived, which are missing
    NACK         BTH / NETH                                      this packet was refused, and why
    probe        BTH / PETH                                      requests a SACK of this queue pair
    ACK          BTH / AETH                                      whole messages are done, or the peer reports an error
    EV probe     BTH / ERTH, answered by BTH / EETH              does this path work? which ports of mine work?

An entropy value (EV) names one path: its high half is the UDP source port, its low half the flow label.
"""

# scapy.contrib.description = Multipath Reliable Connection (OCP MRC 1.0)
# scapy.contrib.status = loads

import sys
import zlib
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

# RoCEv2's registered port; the specification's text prints 4971, apparently transposed (MRC 7.5.5.2).
MRC_PORTS = (4791, 4971)
# SprayCheck's flow announcements: spraylab's own, not MRC's.
ANNOUNCE_PORT = 54791
ANNOUNCE_MAGIC = 0x53505259  # "SPRY"

# BTH.opcode, Table 7-5: the top three bits are 110.
OPCODES = {
    0xC6: "WRITE_FIRST",  # the first of several packets of a message
    0xC7: "WRITE_MIDDLE",
    0xC8: "WRITE_LAST",
    0xC9: "WRITE_LAST_IMM",  # with immediate data: the peer's program is notified of the message
    0xCA: "WRITE_ONLY",  # a message of one packet
    0xCB: "WRITE_ONLY_IMM",
    0xD1: "ACKNOWLEDGE",
    0xD8: "ENDPOINT_REQUEST",
    0xD9: "ENDPOINT_RESPONSE",
    0xDC: "SACK",
    0xDD: "NACK",
    0xDE: "PROBE_REQUEST",
}
_IMMEDIATE = (0xC9, 0xCB)
_WRITES = range(0xC6, 0xCC)

# AETH.syndrome, IBTA coding.
SYNDROMES = {
    0x1F: "ACK",
    0x61: "NAK INVALID_REQUEST",
    0x62: "NAK REMOTE_ACCESS_ERROR",
    0x63: "NAK REMOTE_OPERATIONAL_ERROR",
}
# NETH.nack_reason, Table 7-3.
NACK_REASONS = {
    0x01: "TRIMMED",  # a switch cut the payload off because its queue was full
    0x02: "TRIMMED_LASTHOP",  # the same at the last switch: no other path would have helped
    0x06: "NO_BITMAP",
    0x07: "NO_PKT_BUFFER",
    0x0A: "NO_RESOURCE",
    0x0B: "PSN_OOR_WINDOW",  # beyond the window that the receiver offered
    0x19: "UNEXP_EVENT",
}
# SETH.m, Table 7-14: what the path of the acknowledged packet looked like (ECN).
ECN_VERDICTS = {0: "NONE", 1: "SKIP_ONCE", 2: "ALWAYS_SKIP"}
# ERTH.op and EETH.op, Tables 7-20 and 7-22.
ENDPOINT_OPS = {0: "PORT_STATUS_UPDATE", 1: "EV_PROBE"}
SPRAY_POLICIES = {0: "ROTATION", 1: "RANDOM"}
ANNOUNCE_KINDS = {0: "OPEN", 1: "CLOSE", 2: "ELSEWHERE"}

# Traffic classes of packets whose payload a switch cut off; spraylab's choice, MRC fixes no values.
_TRIMMED_DSCP = (12, 16)
_PORT_MASK_NEXT = 0x1F  # SETH.nxt, spraylab's choice
_ICRC_BYTES = 4
_HAS_TSETH = 0x10  # BTH byte 8
_TICK_NS = 8192  # of timestamps with tsr = 1, spraylab's choice
_SACK_BITS = 64
_PSN_MASK = 0xFFFFFF


# Values in readable form


def ev_text(ev: int) -> str:
    """Format an EV with its path in spraylab's numbering: `0xc0021105 = plane 1, spine 5, copy 2`."""
    role, plane, index, copy = ev >> 12 & 0xF, ev >> 8 & 0xF, ev & 0xFF, ev >> 16 & 0x3FFF
    turn = {1: "spine", 2: "leaf"}.get(role)
    if turn is None or ev >> 30 != 3:
        return f"{ev:#010x}"
    return f"{ev:#010x} = plane {plane}, {turn} {index}" + (f", copy {copy}" if copy else "")


def ev_of(packet: Packet) -> int | None:
    """Return the EV that a packet travels on.

    UDP source port and low half of the flow label; None outside IPv6 / UDP.
    """
    udp = packet if isinstance(packet, UDP) else packet.getlayer(UDP)
    ip = udp.underlayer if udp is not None else None
    return udp.sport << 16 | ip.fl & 0xFFFF if isinstance(ip, IPv6) else None


def sack_ranges(cack_psn: int, sack_offset: int, bitmap: int) -> list[tuple[int, int]]:
    """Return the PSNs that a SACK acknowledges above `cack_psn`: [(first, last), ...].

    Bit i, least significant first.
    """
    found: list[tuple[int, int]] = []
    for bit in range(_SACK_BITS):
        if bitmap >> bit & 1:
            psn = cack_psn + sack_offset + bit & _PSN_MASK
            if found and found[-1][1] == psn - 1 & _PSN_MASK:
                found[-1] = (found[-1][0], psn)
            else:
                found.append((psn, psn))
    return found


def ranges_text(ranges: list[tuple[int, int]]) -> str:
    """Format ranges as `7-9, 12`."""
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def ports_text(mask: int) -> str:
    """Format the ports of a mask, bit N = port N: `ports 1, 2`."""
    ports = [str(port) for port in range(1, 32) if mask >> port & 1]
    return f"ports {', '.join(ports)}" if ports else "no port"


def is_trimmed(packet: Packet) -> bool:
    """Report whether a switch cut the payload off, by the DSCP of the outermost IPv6 header."""
    outer, layer = None, packet
    while layer is not None:
        outer, layer = layer if isinstance(layer, IPv6) else outer, layer.underlayer
    return outer is not None and outer.tc >> 2 in _TRIMMED_DSCP


class EvField(XIntField):
    """An entropy value, shown with its path."""

    def i2repr(self, pkt: Any, x: int) -> str:
        """Show the value with its path."""
        return ev_text(x)


class SackBitmapField(XLongField):
    """64 bits, least significant first, shown with the PSNs they stand for."""

    def i2repr(self, pkt: Any, x: int) -> str:
        """Show the PSNs that have arrived."""
        arrived = ranges_text(sack_ranges(pkt.cack_psn, pkt.sack_offset, x))
        return f"{x:#x} = {'PSN ' + arrived if arrived else 'none above cack_psn'}"


class PortMaskField(XIntField):
    """Bit N = port N, counted from 1."""

    def i2repr(self, pkt: Any, x: int) -> str:
        """Show the ports by number."""
        return f"{x:#x} = {ports_text(x)}"


class TimestampField(ShortField):
    """16 bits that wrap; the unit is 8192 ns in spraylab (tsr = 1)."""

    def i2repr(self, pkt: Any, x: int) -> str:
        """Show the time in milliseconds."""
        return f"{x} ({x * _TICK_NS / 1e6:.1f} ms)"


class IcrcField(FCSField):
    """The last four bytes of the packet, little-endian; a trimmed packet has lost them."""

    def getfield(self, pkt: Any, s: bytes) -> tuple[bytes, int | None]:
        """Take the value from the end of the packet."""
        return (s, None) if is_trimmed(pkt) else super().getfield(pkt, s)


# Headers


class BTH(Packet):
    """Base transport header, with the ICRC that ends the packet; `pad`, `ts` and `icrc` are computed where None.

    Dissected payload keeps its pad bytes (`pad` is their number), so that rebuilding gives the same frame.
    """

    name = "MRC BTH"
    fields_desc = (
        ByteEnumField("opcode", 0xCA, OPCODES),  # kind of packet, which decides what follows
        BitField("se", 0, 1),  # solicited event, not used
        BitField("m", 0, 1),  # migration state, not used
        BitField("pad", None, 2),  # bytes added so that the payload is a multiple of four
        BitField("tver", 0, 4),  # transport version, 0
        XShortField("pkey", 0xFFFF),  # partition key
        XByteField("var_res", 0),  # lowest bit: SprayCheck's mark, which a switch may set (outside the ICRC)
        X3BytesField("dqp", 0),  # queue pair at the receiver
        BitField("a", 0, 1),  # request an acknowledgement at once
        BitField("r", 0, 1),
        BitField("rtx", 0, 1),  # retransmission; in a SACK the echo of that bit
        BitField("ts", None, 1),  # a TSETH follows the METH
        BitField("inv_res", 0, 4),
        ThreeBytesField("psn", 0),  # packet sequence number, 24 bits; in a SACK all up to it have arrived
        IcrcField("icrc", None, fmt="<I"),  # checksum over everything that no switch may change
    )

    def post_build(self, p: bytes, pay: bytes) -> bytes:
        """Pad the payload, set the TSETH flag and compute the ICRC: each only where left None."""
        header, body, icrc = bytearray(p), pay[:-_ICRC_BYTES], pay[-_ICRC_BYTES:]
        if self.pad is None:
            pad = -len(body) % 4
            header[1] |= pad << 4
            body += bytes(pad)
        if self.ts is None and self.haslayer(TSETH):
            header[8] |= _HAS_TSETH
        whole = bytes(header) + body
        if self.icrc is not None:
            return whole + icrc
        return whole if is_trimmed(self) else whole + self.icrc_of(whole).to_bytes(4, "little")

    def icrc_of(self, whole: bytes) -> int:
        """CRC-32 over eight bytes of ones, the inner IPv6 header, UDP and `whole`, BTH to pad; 0 in a fragment.

        Fields that a switch may change count as ones: traffic class, flow label, hop limit, UDP checksum, BTH byte 4.
        """
        udp = self.underlayer
        ip = udp.underlayer if isinstance(udp, UDP) else None
        if not isinstance(ip, IPv6):
            return 0
        length = 8 + len(whole) + _ICRC_BYTES
        covered = bytearray(ip.self_build() + udp.self_build() + whole)
        if ip.plen is None:
            covered[4:6] = length.to_bytes(2, "big")
        if udp.len is None:
            covered[44:46] = length.to_bytes(2, "big")
        covered[0] |= 0x0F
        covered[1:4] = b"\xff" * 3
        covered[7] = 0xFF
        covered[46:48] = b"\xff" * 2
        covered[52] = 0xFF
        return zlib.crc32(b"\xff" * 8 + covered)

    def guess_payload_class(self, payload: bytes) -> Any:
        """Choose the next header by opcode (Table 7-5)."""
        return METH if self.opcode in _WRITES else CONTROL_LAYERS.get(self.opcode, Raw)

    @classmethod
    def dispatch_hook(cls, _pkt: bytes | None = None, *args: Any, **kwargs: Any) -> Any:
        """Leave classic RoCE opcodes (top bits not 110) to Scapy's own layer if it is loaded."""
        roce = sys.modules.get("scapy.contrib.roce")
        return cls if roce is None or not _pkt or _pkt[0] >> 5 == 0b110 else roce.BTH

    def mysummary(self) -> Any:
        """Summarize in one line: kind, receiver, packet number and path."""
        said = [self.sprintf("MRC %BTH.opcode% dqp=%BTH.dqp% psn=%BTH.psn%")]
        said += ["rtx"] if self.rtx else []
        for layer in self.iterpayloads():
            if isinstance(layer, MrcHeader):
                said += layer.words()
        ev = None if self.underlayer is None else ev_of(self.underlayer)
        said += ["trimmed"] if is_trimmed(self) else []
        return "; ".join(said + ([] if ev is None else [f"on EV {ev_text(ev)}"]))


class MrcHeader(Packet):
    """Base of the headers after the BTH."""

    show_summary = False

    def bth(self) -> Any:
        """Return the BTH in front, or None in a fragment built alone."""
        layer = self.underlayer
        while layer is not None and not isinstance(layer, BTH):
            layer = layer.underlayer
        return layer

    def words(self) -> list[str]:
        """Return the phrases that this header adds to the summary."""
        return []


class METH(MrcHeader):
    """Message sequence numbers, on every packet of a write."""

    name = "MRC METH"
    fields_desc = (
        ShortField("rqmsn", 0),  # messages before this one that consume a receive
        ShortField("msn", 0),  # which message of the queue pair, modulo 2^16
    )

    def guess_payload_class(self, payload: bytes) -> Any:
        """Choose TSETH if the BTH announces it."""
        bth = self.bth()
        return TSETH if bth is not None and bth.ts else RETH

    def words(self) -> list[str]:
        """Name the message."""
        return [f"message {self.msn}"]


class TSETH(MrcHeader):
    """Time at which the packet left, for round trip times: a SACK returns it."""

    name = "MRC TSETH"
    fields_desc = (
        TimestampField("tx_timestamp", 0),
        BitField("tsr", 1, 1),  # 1: ticks are the sender's choice, 0: 128 ns
        BitField("res", 0, 11),
        BitField("ftype", 1, 4),
    )


class RETH(MrcHeader):
    """Place of the payload in the peer's memory.

    On every packet, so that each can be placed whatever arrived before.
    """

    name = "MRC RETH"
    fields_desc = (
        XLongField("va", 0),  # address of this packet's first payload byte
        XIntField("rkey", 0),  # key of the memory region, from its owner
        IntField("dmalen", 0),  # bytes of the whole message
    )

    def guess_payload_class(self, payload: bytes) -> Any:
        """Choose ImmDt if the opcode carries one."""
        bth = self.bth()
        return ImmDt if bth is not None and bth.opcode in _IMMEDIATE else Raw

    def words(self) -> list[str]:
        """Name the address and the length."""
        return [f"to {self.va:#x} of {self.dmalen} bytes"]


class ImmDt(MrcHeader):
    """Immediate data: 32 bits for the peer's program, delivered in the order of sending."""

    name = "MRC ImmDt"
    fields_desc = (XIntField("imm", 0),)

    def words(self) -> list[str]:
        """Name the value."""
        return [f"imm {self.imm:#x}"]


class AETH(MrcHeader):
    """Transport acknowledgement: how many messages of the queue pair are done (`msn`), or an error."""

    name = "MRC AETH"
    fields_desc = (ByteEnumField("syndrome", 0x1F, SYNDROMES), ThreeBytesField("msn", 0))

    def words(self) -> list[str]:
        """Name the outcome."""
        return [self.sprintf("%AETH.syndrome%"), f"messages done: {self.msn}"]


class SETH(MrcHeader):
    """Selective acknowledgement: every PSN up to `cack_psn` has arrived, above it those in the bitmap (Table 7-14)."""

    name = "MRC SETH"
    fields_desc = (
        BitField("type", 0, 4),
        BitField("nxt", 0, 5),  # what follows the CC_STATE; 0x1F: a port mask
        BitEnumField("m", 0, 2, ECN_VERDICTS),  # congestion on the path of the packet that is answered
        BitField("r0", 0, 3),
        BitField("pr", 0, 1),  # answers a probe, whose id then stands in ack_psn_offset
        BitField("r1", 0, 1),
        SignedShortField("ack_psn_offset", 0),  # cack_psn + this = the packet that is answered
        EvField("entropy", 0),  # EV which that packet took
        XShortField("spdcid", 0),
        XShortField("dpdcid", 0),
        ByteField("res", 0),
        ThreeBytesField("cack_psn", 0),  # the last PSN before the first that is missing
        BitField("cc_type", 0, 4),
        BitField("cc_fl", 0, 4),
        ByteField("mpr", 0),  # window the receiver offers, in units of 128 packets; 0: the initial one
        SignedShortField("sack_offset", 0),  # bit 0 of the bitmap = PSN cack_psn + this
        SackBitmapField("sack_bitmap", 0),
    )

    def words(self) -> list[str]:
        """List what has arrived."""
        arrived = ranges_text(sack_ranges(self.cack_psn, self.sack_offset, self.sack_bitmap))
        answers = f"probe {self.ack_psn_offset & 0xFFFF}" if self.pr else ""
        said = [f"answers {answers}"] if answers else []
        said += [f"cack={self.cack_psn}"] + ([f"arrived {arrived}"] if arrived else [])
        return said + [f"of EV {ev_text(self.entropy)}"] + ([self.sprintf("%SETH.m%")] if self.m else [])


class CC_STATE(MrcHeader):  # noqa: N801 - the specification's name
    """Congestion control state of NSCC behind a SETH (Table 7-12)."""

    name = "MRC CC_STATE"
    fields_desc = (
        TimestampField("tx_timestamp", 0),  # of the packet that is answered, reflected
        BitField("r", 0, 1),
        BitField("ooo_count", 0, 15),  # packets held above cack_psn
        BitField("restore_cwnd", 0, 1),
        BitField("rcv_cwnd_pen", 0, 7),  # asks the sender to send less: the receiver is slow
        ThreeBytesField("rcvd_bytes", 0),  # bytes that have arrived, in units of 256 bytes, modulo 2^24
    )

    def guess_payload_class(self, payload: bytes) -> Any:
        """Choose the port mask if the SETH announces it."""
        seth = self.underlayer
        return PortMask if isinstance(seth, SETH) and seth.nxt == _PORT_MASK_NEXT else Raw


class PortMask(MrcHeader):
    """Working ports at the sender of a SACK whose `nxt` is 0x1F (spraylab's choice, not in OCP MRC)."""

    name = "MRC port mask"
    fields_desc = (PortMaskField("port_mask", 0),)

    def words(self) -> list[str]:
        """List the ports."""
        return [ports_text(self.port_mask)]


class NETH(MrcHeader):
    """One packet that the receiver does not count as arrived, and the reason (Table 7-16)."""

    name = "MRC NETH"
    fields_desc = (
        XShortField("res0", 0),
        ByteEnumField("nack_reason", 0x01, NACK_REASONS),
        ByteField("vendor_info", 0),
        EvField("entropy", 0),  # EV which that packet took
        XShortField("spdcid", 0),
        XShortField("dpdcid", 0),
        ByteField("res", 0),
        ThreeBytesField("nack_psn", 0),
        BitField("cc_type", 2, 4),
        BitField("cc_fl", 0, 4),
        ByteField("res17", 0),
        TimestampField("tx_timestamp", 0),  # of that packet, reflected
    )

    def words(self) -> list[str]:
        """Name the reason and the path."""
        return [self.sprintf("%NETH.nack_reason%"), f"of EV {ev_text(self.entropy)}"]


class PETH(MrcHeader):
    """Reliability probe of one queue pair: requests a SACK (Table 7-18)."""

    name = "MRC PETH"
    fields_desc = (
        XShortField("res0", 0),
        ByteField("res2", 0),
        ByteField("vendor_info", 0),
        XShortField("probe_id", 0),  # returned in the SACK
        XShortField("res6", 0),
        XShortField("spdcid", 0),
        XShortField("dpdcid", 0),
        TimestampField("tx_timestamp", 0),
        BitField("tsr", 1, 1),
        BitField("res14", 0, 11),
        BitField("ftype", 1, 4),
    )

    def words(self) -> list[str]:
        """Name its id."""
        return [f"probe {self.probe_id}"]


class ERTH(MrcHeader):
    """Request to a host: test whether this path works, or note which of the sender's ports work (Table 7-20).

    BTH.dqp is 2, the queue pair of all such packets; BTH.psn is the id that the answer repeats.
    """

    name = "MRC ERTH"
    fields_desc = (
        BitField("res0", 0, 14),
        BitEnumField("op", 1, 2, ENDPOINT_OPS),
        ByteField("res2", 0),
        ByteField("vendor_info", 0),
        PortMaskField("port_status_mask", 0),  # bit N: port N works, bit 0 unused; 0 in an EV probe
        XIntField("res8", 0),
        TimestampField("tx_timestamp", 0),
        BitField("tsr", 1, 1),
        BitField("res14", 0, 11),
        BitField("ftype", 1, 4),
    )

    def words(self) -> list[str]:
        """Name the request."""
        return [ENDPOINT_OPS.get(self.op, str(self.op))] + ([ports_text(self.port_status_mask)] if not self.op else [])


class EETH(MrcHeader):
    """Answer to an ERTH; `op` at bits 3:2, where sources disagree (Table 7-22)."""

    name = "MRC EETH"
    fields_desc = (
        BitField("res0", 0, 12),
        BitEnumField("op", 1, 2, ENDPOINT_OPS),
        BitField("r0", 0, 2),
        XStrFixedLenField("res2", bytes(26), 26),
        TimestampField("tx_timestamp", 0),  # of the request, reflected
        XStrFixedLenField("res30", bytes(6), 6),
    )

    def words(self) -> list[str]:
        """Name the request that is answered."""
        return [ENDPOINT_OPS.get(self.op, str(self.op))]


class Announce(Packet):
    """Flow announcement to the SprayCheck leaves (SprayCheck F1, D1); spraylab's own, on its own UDP port.

    An announcement that closes a flow, in its own plane or another, ends with `shares`: first transmissions over spine
    0 to k - 1.
    """

    name = "SprayCheck Announce"
    fields_desc = (
        XIntField("magic", ANNOUNCE_MAGIC),
        ByteField("version", 2),
        ByteEnumField("policy", 0, SPRAY_POLICIES),  # how the sender sprays
        ByteField("plane", 0),
        ByteEnumField("kind", 0, ANNOUNCE_KINDS),  # the flow begins, has ended, or has ended in another plane
        ShortField("epoch", 0),  # measurement round
        ShortField("spines", 0),  # usable spines k of the plane
        ShortField("src_leaf", 0),
        ShortField("dst_leaf", 0),
        ShortField("src_host", 0),
        ShortField("dst_host", 0),
        XIntField("dqpn", 0),  # queue pair at the receiver
        IntField("start_psn", 0),
        IntField("packets", 0),  # first transmissions of the flow in this plane
        IntField("last_psn", 0),  # last PSN of these
        IntField("end_psn", 0),  # last PSN of the flow in any plane
        ByteField("measured", 0),  # set by the source leaf where it marks the flow's packets
        XStrFixedLenField("res41", bytes(3), 3),
        ConditionalField(
            FieldListField("shares", [], IntField("share", 0), count_from=lambda packet: packet.spines),
            lambda packet: packet.kind != 0,
        ),
    )

    def mysummary(self) -> Any:
        """Summarize in one line."""
        return self.sprintf(
            "SprayCheck %Announce.kind% h%Announce.src_host% > h%Announce.dst_host% "
            "plane %Announce.plane% packets %Announce.packets%"
        )


CONTROL_LAYERS = {0xD1: AETH, 0xD8: ERTH, 0xD9: EETH, 0xDC: SETH, 0xDD: NETH, 0xDE: PETH}

bind_layers(TSETH, RETH)
bind_layers(SETH, CC_STATE)
# A UDP checksum of zero is RoCEv2's practice; the ICRC covers the packet.
bind_top_down(UDP, BTH, dport=MRC_PORTS[0], chksum=0)
bind_top_down(UDP, Announce, dport=ANNOUNCE_PORT, chksum=0)
for _port, _layer in ((MRC_PORTS[0], BTH), (MRC_PORTS[1], BTH), (ANNOUNCE_PORT, Announce)):
    bind_bottom_up(UDP, _layer, dport=_port)
# The first match wins: our layer must come before scapy.contrib.roce, which cannot distinguish MRC from RoCE.
UDP.payload_guess.sort(key=lambda guess: guess[1] is not BTH)
