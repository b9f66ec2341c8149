"""Encode columns of header values to frames, each built header by header by Scapy: readable code for what MRC sends.

One function per kind of packet. The bytes are those of encode.py and control.py, made some hundred times slower.
"""

from collections.abc import Callable, Iterable
from ipaddress import IPv6Address
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from agent.wire import constants as c
from agent.wire.array.columns import Announcement, SackBatch, WriteBatch
from agent.wire.array.control_columns import (
    AckBatch,
    ControlBatch,
    EndpointRequestBatch,
    EndpointResponseBatch,
    NackBatch,
    ProbeBatch,
)
from agent.wire.array.icrc import Runs
from agent.wire.array.template import CONTROL_CLASS, FlowEnds, FlowTemplate, HostAddress
from agent.wire.constants import AnnounceKind, EndpointOp, Opcode
from agent.wire.ev import EvCodec
from agent.wire.layers import (
    AETH,
    BTH,
    CC_STATE,
    EETH,
    ERTH,
    METH,
    NETH,
    PETH,
    RETH,
    SETH,
    TSETH,
    Announce,
    ImmDt,
    PortMask,
)

Row = Any
"""One row of a batch: its columns as numbers, by name."""


def encode_writes(
    template: FlowTemplate, batch: WriteBatch, out: NDArray[np.uint8], runs: Runs | None = None
) -> NDArray[np.uint32]:
    """Write frames as `agent.wire.array.encode.encode_writes`."""
    return _written((write_packet(template, row, batch.source) for row in batch.rows()), out, len(batch))


def encode_sacks(
    template: FlowTemplate, batch: SackBatch, out: NDArray[np.uint8], runs: Runs | None = None
) -> NDArray[np.uint32]:
    """Write frames as `agent.wire.array.encode.encode_sacks`."""
    return _written((sack_packet(template, row) for row in batch.rows()), out, len(batch))


def encode_control(
    template: FlowTemplate, batch: ControlBatch, out: NDArray[np.uint8], runs: Runs | None = None
) -> NDArray[np.uint32]:
    """Write frames as `agent.wire.array.control.encode_control`."""
    build = _CONTROL[type(batch)]
    return _written((build(template, row) for row in batch.rows()), out, len(batch))


def encode_announcements(
    source: HostAddress,
    peer: HostAddress,
    evs: NDArray[np.uint32],
    announcement: Announcement,
    shares: NDArray[np.int64] | None = None,
    codec: EvCodec | None = None,
    kind: AnnounceKind = AnnounceKind.CLOSE,
) -> list[bytes]:
    """Build frames as `agent.wire.array.encode.encode_announcements`."""
    ends = FlowEnds(source, peer, c.UDP_PORT_ANNOUNCE, CONTROL_CLASS, codec or EvCodec())
    said = {name: getattr(announcement, name) for name in announcement.__slots__}
    if shares is not None:
        said |= {"kind": kind, "shares": shares.tolist()}
    return [bytes(stacked(*tunnel(ends, ev, CONTROL_CLASS), Announce(**said))) for ev in evs.tolist()]


def write_packet(template: FlowTemplate, row: Row, source: NDArray[np.uint8]) -> Packet:
    """Build a packet of a message, with everything needed to place it in the peer's memory whenever it arrives."""
    again = bool(row.flags & c.BTH_RETRANSMISSION)
    traffic_class = template.ends.data_class
    if again and template.retransmission_class is not None:
        traffic_class = template.retransmission_class
    headers = [
        BTH(
            opcode=row.opcode,
            dqp=template.dqpn,
            a=bool(row.flags & c.BTH_ACK_REQUEST),
            rtx=again,
            ts=1,
            psn=row.psn,
        ),
        METH(rqmsn=row.rqmsn, msn=row.msn),
        TSETH(tx_timestamp=row.tx_timestamp),
        RETH(va=row.va, rkey=row.rkey, dmalen=row.dmalen),
    ]
    if row.opcode in c.IMMEDIATE_OPCODES:
        headers.append(ImmDt(imm=row.imm))
    payload = source[row.source_offset : row.source_offset + row.payload_bytes].tobytes()
    return stacked(*_path(template, row, traffic_class), *headers, Raw(payload))


def sack_packet(template: FlowTemplate, row: Row) -> Packet:
    """Build a SACK: what has arrived, what is missing, congestion of the path, and the bytes received in total."""
    headers = [
        BTH(opcode=Opcode.SACK, dqp=template.dqpn, rtx=row.rtx, psn=row.cack_psn),
        SETH(
            nxt=0 if row.port_mask is None else c.SETH_NXT_PORT_MASK,
            m=row.m,
            pr=row.pr,
            ack_psn_offset=row.ack_psn_offset,
            entropy=row.ev,
            spdcid=row.spdcid,
            dpdcid=row.dpdcid,
            cack_psn=row.cack_psn,
            mpr=row.mpr,
            sack_offset=row.sack_offset,
            sack_bitmap=row.bitmap,
        ),
        CC_STATE(
            tx_timestamp=row.tx_timestamp,
            ooo_count=row.ooo_count,
            restore_cwnd=row.restore_cwnd,
            rcv_cwnd_pen=row.rcv_cwnd_pen,
            rcvd_bytes=row.rcvd_bytes,
        ),
    ]
    if row.port_mask is not None:
        headers.append(PortMask(port_mask=row.port_mask))
    return stacked(*_path(template, row, CONTROL_CLASS), *headers)


def ack_packet(template: FlowTemplate, row: Row) -> Packet:
    """Build a transport ACK of complete messages, or a NAK that fails the queue pair."""
    bth = BTH(opcode=Opcode.ACKNOWLEDGE, dqp=template.dqpn, psn=row.psn)
    return stacked(*_path(template, row, CONTROL_CLASS), bth, AETH(syndrome=row.syndrome, msn=row.msn))


def nack_packet(template: FlowTemplate, row: Row) -> Packet:
    """Build a NACK of a packet that arrived and does not count, with the reason."""
    neth = NETH(
        nack_reason=row.nack_reason,
        vendor_info=row.vendor_info,
        entropy=row.ev,
        spdcid=row.spdcid,
        dpdcid=row.dpdcid,
        nack_psn=row.nack_psn,
        tx_timestamp=row.tx_timestamp,
    )
    bth = BTH(opcode=Opcode.NACK, dqp=template.dqpn, psn=row.nack_psn)
    return stacked(*_path(template, row, CONTROL_CLASS), bth, neth)


def probe_packet(template: FlowTemplate, row: Row) -> Packet:
    """Build a probe that requests a SACK. It uses the class of data, to meet the same queues."""
    traffic_class = CONTROL_CLASS if row.in_control else template.ends.data_class
    peth = PETH(probe_id=row.probe_id, spdcid=row.spdcid, dpdcid=row.dpdcid, tx_timestamp=row.tx_timestamp)
    bth = BTH(opcode=Opcode.PROBE_REQUEST, dqp=template.dqpn)
    return stacked(*_path(template, row, traffic_class), bth, peth)


def endpoint_request_packet(template: FlowTemplate, row: Row) -> Packet:
    """Build a request that probes a path (in the class of data), or reports which of our ports work."""
    traffic_class = template.ends.data_class if row.op == EndpointOp.EV_PROBE else CONTROL_CLASS
    erth = ERTH(op=row.op, port_status_mask=row.port_status_mask, tx_timestamp=row.tx_timestamp)
    bth = BTH(opcode=Opcode.ENDPOINT_REQUEST, dqp=template.dqpn, psn=row.request_id)
    return stacked(*_path(template, row, traffic_class), bth, erth)


def endpoint_response_packet(template: FlowTemplate, row: Row) -> Packet:
    """Build the answer to an endpoint request."""
    bth = BTH(opcode=Opcode.ENDPOINT_RESPONSE, dqp=template.dqpn, psn=row.request_id)
    eeth = EETH(op=row.op, tx_timestamp=row.tx_timestamp)
    return stacked(*_path(template, row, CONTROL_CLASS), bth, eeth)


_CONTROL: dict[type[ControlBatch], Callable[[FlowTemplate, Row], Packet]] = {
    AckBatch: ack_packet,
    NackBatch: nack_packet,
    ProbeBatch: probe_packet,
    EndpointRequestBatch: endpoint_request_packet,
    EndpointResponseBatch: endpoint_response_packet,
}


def tunnel(ends: FlowEnds, ev: int, traffic_class: int) -> list[Packet]:
    """Build Ethernet to UDP.

    The outer destination is the path, switch by switch; source port and flow label are the EV.
    """
    path = ends.codec.path_of(ev)
    label, port = ends.codec.halves_of(ev)
    wire = ends.source.ports[path.plane]
    own, peer = IPv6Address(ends.source.address), IPv6Address(ends.peer.address)
    carrier = IPv6Address(ends.codec.carrier_of(ev, ends.source.leaf, ends.peer.leaf, ends.peer.slot))
    return [
        Ether(src=wire.mac.hex(":"), dst=wire.leaf_mac.hex(":")),
        IPv6(src=str(own), dst=str(carrier), tc=traffic_class, fl=label, hlim=c.HOP_LIMIT),
        IPv6(src=str(own), dst=str(peer), tc=traffic_class, fl=label, hlim=c.HOP_LIMIT),
        UDP(sport=port, dport=ends.udp_port, chksum=0),
    ]


def stacked(*layers: Packet) -> Packet:
    """Stack the layers themselves. `a / b / c` copies each once per slash: half of the time of a frame."""
    for below, above in pairwise(layers):
        below.add_payload(above)
    for layer in layers:
        layer.explicit = 1  # no field stands for several values: Scapy need not copy all to check
    return layers[0]


def _path(template: FlowTemplate, row: Row, traffic_class: int) -> list[Packet]:
    return tunnel(template.ends, int(template.evs[row.ev_index]), traffic_class)


def _written(packets: Iterable[Packet], out: NDArray[np.uint8], count: int) -> NDArray[np.uint32]:
    """Write each packet's bytes into its row; return their lengths."""
    lengths = np.zeros(count, np.uint32)
    for row, packet in enumerate(packets):
        frame = bytes(packet)
        out[row, : len(frame)] = np.frombuffer(frame, np.uint8)
        lengths[row] = len(frame)
    return lengths
