"""Decode frames to columns, each dissected by Scapy: readable code for what MRC receives and refuses.

Gives the results of decode.py, also the reasons of refusal, some hundred times slower.
"""

from collections import Counter, defaultdict
from dataclasses import fields
from ipaddress import IPv6Address
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from agent.wire import constants as c
from agent.wire.array.columns import Columns, SackColumns, WriteColumns
from agent.wire.array.control_columns import (
    AckColumns,
    EndpointRequestColumns,
    EndpointResponseColumns,
    NackColumns,
    ProbeColumns,
)
from agent.wire.array.decode import Decoded
from agent.wire.array.icrc import Runs, is_right
from agent.wire.constants import Dscp, Ecn, EcnVerdict, EndpointOp, NackReason, Opcode
from agent.wire.ev import EvCodec
from agent.wire.layers import (
    AETH,
    BTH,
    CC_STATE,
    CONTROL_LAYERS,
    EETH,
    ERTH,
    NETH,
    PETH,
    RETH,
    SETH,
    SYNDROMES,
    ImmDt,
    PortMask,
)
from agent.wire.validate.rules import RejectReason

_ETHERNET_END = c.ETHERNET_BYTES
_OUTER_END = _ETHERNET_END + c.IPV6_BYTES
_INNER_END = _OUTER_END + c.IPV6_BYTES
_UDP_END = _INNER_END + c.UDP_BYTES
_BTH_END = _UDP_END + c.BTH_BYTES
_TRIMMED = (Dscp.TRIMMED, Dscp.TRIMMED_LASTHOP)
_PORTS = (c.UDP_PORT_MRC, c.UDP_PORT_MRC_ALT)

Values = dict[str, Any]
"""Numbers of one packet, by name of the column."""


def decode(
    frames: NDArray[np.uint8],
    lengths: NDArray[np.uint32],
    own_address: bytes,
    plane: int,
    *,
    check_icrc: bool = True,
    codec: EvCodec | None = None,
    runs: Runs | None = None,
) -> Decoded:
    """Decode frames as `agent.wire.array.decode.decode`."""
    own, codec = str(IPv6Address(own_address)), codec or EvCodec()
    found: defaultdict[str, list[Values]] = defaultdict(list)
    reasons = np.zeros(len(frames), np.uint8)
    for row, length in enumerate(lengths.tolist()):
        if length > frames.shape[1]:
            reasons[row] = RejectReason.TRUNCATED
            continue
        frame = frames[row, :length].tobytes()
        reasons[row] = reason_of(frame, own, check_icrc=check_icrc)
        if reasons[row] == RejectReason.ACCEPTED:
            name, values = values_of(dissected(frame), codec)
            found[name].append(values)
    rejected = Counter(RejectReason(reason) for reason in reasons.tolist() if reason)
    columns = {name: _columns(name, rows, plane) for name, rows in found.items()}
    return Decoded(rejected=dict(rejected), reasons=reasons, **columns)


def reason_of(frame: bytes, own: str, *, check_icrc: bool = True) -> RejectReason:
    """Return why a frame is not delivered to the host of inner address `own`, from outside in; ACCEPTED if it is."""
    return (
        _reason_in_outer(frame)
        or _reason_in_inner(frame, own)
        or _reason_in_bth(frame)
        or _reason_in_lengths(frame)
        or _reason_in_headers(dissected(frame))
        or (_reason_in_icrc(frame) if check_icrc else RejectReason.ACCEPTED)
    )


def _reason_in_outer(frame: bytes) -> RejectReason:
    """Check Ethernet / IPv6 with IPv6 inside: the tunnel along the path."""
    if len(frame) < _ETHERNET_END:
        return RejectReason.TRUNCATED
    if getattr(Ether(frame[:_ETHERNET_END]), "type", None) != c.ETHERTYPE_IPV6:
        return RejectReason.NOT_IPV6
    if len(frame) < _OUTER_END:
        return RejectReason.TRUNCATED
    outer = IPv6(frame[_ETHERNET_END:_OUTER_END])
    if outer.version != 6:
        return RejectReason.NOT_IPV6
    if outer.nh != c.NEXT_HEADER_IPV6:
        return RejectReason.ROUTING_HEADER if outer.nh == c.NEXT_HEADER_ROUTING else RejectReason.NOT_MRC
    return RejectReason.ACCEPTED


def _reason_in_inner(frame: bytes, own: str) -> RejectReason:
    """Check IPv6 to this host / UDP to MRC's port."""
    if len(frame) < _INNER_END:
        return RejectReason.TRUNCATED
    inner = IPv6(frame[_OUTER_END:_INNER_END])
    if inner.version != 6 or inner.nh != c.NEXT_HEADER_UDP:
        return RejectReason.NOT_MRC
    if inner.dst != own:
        return RejectReason.BAD_ADDRESS
    if len(frame) < _UDP_END:
        return RejectReason.TRUNCATED
    udp = UDP(frame[_INNER_END:_UDP_END])
    if udp.dport == c.UDP_PORT_ANNOUNCE:
        return RejectReason.ANNOUNCEMENT
    return RejectReason.ACCEPTED if udp.dport in _PORTS else RejectReason.NOT_MRC


def _reason_in_bth(frame: bytes) -> RejectReason:
    """Check that version, key and opcode are known."""
    if len(frame) < _BTH_END:
        return RejectReason.TRUNCATED
    bth = _bth(frame)
    if bth.tver != 0 or bth.pkey != c.PKEY:
        return RejectReason.BAD_BTH
    is_known = bth.opcode in c.WRITE_OPCODES or bth.opcode in CONTROL_LAYERS
    return RejectReason.ACCEPTED if is_known else RejectReason.UNKNOWN_OPCODE


def _reason_in_lengths(frame: bytes) -> RejectReason:
    """Check that all lengths agree and the bytes are there; a switch that trims rewrites only the outer length."""
    outer = IPv6(frame[_ETHERNET_END:_OUTER_END])
    if outer.plen > len(frame) - _OUTER_END:
        return RejectReason.TRUNCATED
    bth = _bth(frame)
    if outer.tc >> 2 in _TRIMMED:
        kept = _BTH_END + c.METH_BYTES + (c.TSETH_BYTES if bth.ts else 0)
        is_right = bth.opcode in c.WRITE_OPCODES and _OUTER_END + outer.plen >= kept
    else:
        inner, udp = IPv6(frame[_OUTER_END:_INNER_END]), UDP(frame[_INNER_END:_UDP_END])
        least = c.UDP_BYTES + c.BTH_BYTES + c.ICRC_BYTES
        is_right = inner.plen == udp.len == outer.plen - c.IPV6_BYTES and udp.len >= least
    return RejectReason.ACCEPTED if is_right else RejectReason.BAD_LENGTH


def _reason_in_headers(packet: Packet) -> RejectReason:
    """Check that the headers of the opcode are present, and no field holds a reserved value."""
    bth = packet[BTH]
    if outer_class(packet) in _TRIMMED:
        return RejectReason.ACCEPTED
    rest = _rest(packet)
    if bth.opcode in c.WRITE_OPCODES:
        is_whole = RETH in packet and (bth.opcode not in c.IMMEDIATE_OPCODES or ImmDt in packet)
        is_padded = len(rest) % 4 == 0 and len(rest) >= bth.pad
        return RejectReason.ACCEPTED if is_whole and is_padded else RejectReason.BAD_LENGTH
    expected = [CONTROL_LAYERS[bth.opcode]]
    if bth.opcode == Opcode.SACK:
        expected.append(CC_STATE)
        if SETH in packet and packet[SETH].nxt == c.SETH_NXT_PORT_MASK:
            expected.append(PortMask)
    if rest or bth.pad or any(layer not in packet for layer in expected):
        return RejectReason.BAD_LENGTH
    return RejectReason.ACCEPTED if _ALLOWED[bth.opcode](packet) else RejectReason.BAD_FIELD


def _reason_in_icrc(frame: bytes) -> RejectReason:
    """Check that nothing has changed that no switch may change; a trimmed packet has no ICRC."""
    outer = IPv6(frame[_ETHERNET_END:_OUTER_END])
    whole = frame[_OUTER_END : _OUTER_END + outer.plen]
    if outer.tc >> 2 in _TRIMMED or is_right(whole):
        return RejectReason.ACCEPTED
    return RejectReason.BAD_ICRC


def _sack_is_allowed(packet: Packet) -> bool:
    seth = packet[SETH]
    knows_next = seth.nxt in (0, c.SETH_NXT_PORT_MASK)
    return seth.type == 0 and knows_next and seth.m in tuple(EcnVerdict) and seth.cc_type == 0


def _nack_is_allowed(packet: Packet) -> bool:
    neth = packet[NETH]
    return neth.nack_reason in tuple(NackReason) and neth.res0 >> 7 == 0 and neth.cc_type == c.NETH_CC_TYPE


def _endpoint_is_allowed(packet: Packet, layer: type[Packet]) -> bool:
    return packet[BTH].dqp == c.ENDPOINT_QPN and packet[layer].op in tuple(EndpointOp)


_ALLOWED = {
    Opcode.ACKNOWLEDGE: lambda packet: packet[AETH].syndrome in SYNDROMES,
    Opcode.NACK: _nack_is_allowed,
    Opcode.PROBE_REQUEST: lambda packet: packet[PETH].res0 >> 7 == 0,
    Opcode.ENDPOINT_REQUEST: lambda packet: _endpoint_is_allowed(packet, ERTH),
    Opcode.ENDPOINT_RESPONSE: lambda packet: _endpoint_is_allowed(packet, EETH),
    Opcode.SACK: _sack_is_allowed,
}


def dissected(frame: bytes) -> Packet:
    """Dissect all headers. A trimmed frame has only its outer length right, so the inner ones are adapted to it.

    The tunnel must have been checked.
    """
    outer = IPv6(frame[_ETHERNET_END:_OUTER_END])
    if outer.tc >> 2 in _TRIMMED:
        frame = frame[: _OUTER_END + outer.plen]
        length = (len(frame) - _INNER_END).to_bytes(2)
        frame = (
            frame[: _OUTER_END + 4] + length + frame[_OUTER_END + 6 : _INNER_END + 4] + length + frame[_INNER_END + 6 :]
        )
    return Ether(frame)


def _bth(frame: bytes) -> Packet:
    """Dissect the BTH alone, whatever the lengths in front of it are, and whatever layer Scapy would choose."""
    bth = BTH()  # BTH(frame) would give the layer of scapy.contrib.roce if that is loaded and the opcode is not MRC's
    bth.dissect(frame[_UDP_END:_BTH_END] + bytes(c.ICRC_BYTES))
    return bth


def _rest(packet: Packet) -> bytes:
    """Return the bytes that no header took: payload and pad of a write."""
    last = packet.lastlayer()
    return bytes(last.load) if isinstance(last, Raw) else b""


def outer_class(packet: Packet) -> int:
    """Return the DSCP of the tunnel's header, by which a switch reports that it has trimmed."""
    dscp: int = packet[IPv6].tc >> 2
    return dscp


def values_of(packet: Packet, codec: EvCodec) -> tuple[str, Values]:
    """Return the numbers of an accepted packet, and the columns of `Decoded` they belong to."""
    bth, outer = packet[BTH], packet[IPv6]
    inner = outer.payload
    values = {
        "dqpn": bth.dqp,
        "psn": bth.psn,
        "rtx": bth.rtx,
        "request_id": bth.psn & 0xFFFF,
        "ev": codec.join_one(packet[UDP].sport, inner.fl & 0xFFFF),
        "ce": Ecn.CE in (outer.tc & 3, inner.tc & 3),
        "source": np.frombuffer(IPv6Address(inner.src).packed, ">u4"),
        "source_address": np.frombuffer(IPv6Address(inner.src).packed, np.uint8),
    }
    for layer in bth.iterpayloads():
        values |= {_NAMES.get((type(layer), name), name): value for name, value in layer.fields.items()}
    if bth.opcode in c.WRITE_OPCODES:
        return "writes", values | _write_values(packet)
    return _KINDS[bth.opcode].name, values


_NAMES = {
    (SETH, "entropy"): "ev",
    (SETH, "sack_bitmap"): "bitmap",
    (NETH, "entropy"): "ev",
}
"""Fields that have another name in the columns; all others have the specification's."""


def _write_values(packet: Packet) -> Values:
    bth, dscp, rest = packet[BTH], outer_class(packet), _rest(packet)
    is_trimmed = dscp in _TRIMMED
    return {
        "opcode": bth.opcode,
        "flags": bth.a << 7 | bth.r << 6 | bth.rtx << 5 | bth.ts << 4 | bth.inv_res,
        "trimmed": is_trimmed,
        "trimmed_lasthop": dscp == Dscp.TRIMMED_LASTHOP,
        "imm": packet[ImmDt].imm if ImmDt in packet and not is_trimmed else 0,
        "payload": b"" if is_trimmed else rest[: len(rest) - bth.pad],
    }


class _Kind(NamedTuple):
    name: str
    """Name in `Decoded`."""
    columns: type[Columns]


_KINDS = {
    Opcode.ACKNOWLEDGE: _Kind("acks", AckColumns),
    Opcode.NACK: _Kind("nacks", NackColumns),
    Opcode.PROBE_REQUEST: _Kind("probes", ProbeColumns),
    Opcode.ENDPOINT_REQUEST: _Kind("endpoint_requests", EndpointRequestColumns),
    Opcode.ENDPOINT_RESPONSE: _Kind("endpoint_responses", EndpointResponseColumns),
    Opcode.SACK: _Kind("sacks", SackColumns),
}
_COLUMNS = {kind.name: kind.columns for kind in _KINDS.values()} | {"writes": WriteColumns}
_TYPES: dict[str, Any] = (
    dict.fromkeys(("opcode", "flags", "m", "mpr", "rcv_cwnd_pen", "syndrome", "nack_reason", "vendor_info"), np.uint8)
    | dict.fromkeys(("op", "source_address"), np.uint8)
    | dict.fromkeys(("msn", "rqmsn", "tx_timestamp", "spdcid", "dpdcid", "ooo_count"), np.uint16)
    | dict.fromkeys(("probe_id", "request_id"), np.uint16)
    | dict.fromkeys(("ack_psn_offset", "sack_offset"), np.int16)
    | dict.fromkeys(("ce", "trimmed", "trimmed_lasthop", "pr", "rtx", "restore_cwnd", "tsr"), np.bool_)
    | dict.fromkeys(("va", "bitmap"), np.uint64)
)
"""Types of columns that are not uint32."""


def _columns(name: str, rows: list[Values], plane: int) -> Any:
    """Return the packets of one kind as columns; missing values read zero."""
    kind = _COLUMNS[name]
    given: dict[str, Any] = {"plane": plane}
    if kind is WriteColumns:
        given |= _payloads([row["payload"] for row in rows])
    if kind is SackColumns and not any("port_mask" in row for row in rows):
        given["port_mask"] = None
    types = _TYPES | ({"msn": np.uint32} if kind is AckColumns else {})
    for column in fields(kind):
        if column.name not in given:
            given[column.name] = np.array([row.get(column.name, 0) for row in rows], types.get(column.name, np.uint32))
    return kind(**given)


def _payloads(payloads: list[bytes]) -> Values:
    """Join all payloads end to end, as the columns need them."""
    sizes = np.array([len(payload) for payload in payloads], np.uint32)
    offsets = np.cumsum(sizes, dtype=np.int64) - sizes
    memory = np.frombuffer(b"".join(payloads) or bytes(1), np.uint8)
    return {"payload_bytes": sizes, "payload_offset": offsets, "memory": memory}
