"""Encode columns of header values to frames, in place, a batch at a time. Decides nothing: every value is given."""

from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from agent.wire import constants as c
from agent.wire.array.columns import (
    FEW_ROWS,
    Announcement,
    Rows,
    SackBatch,
    WriteBatch,
    alike,
    filled,
    gather_rows,
    rows_at,
)
from agent.wire.array.few_frames import write_few_sacks, write_few_writes
from agent.wire.array.icrc import (
    HEADER_BYTES,
    Runs,
    mask_effect,
    stamp_icrc,
    stamp_icrcs,
)
from agent.wire.array.template import (
    CONTROL_CLASS,
    FlowTemplate,
    HostAddress,
    sack_prefixes,
    stamp_lengths,
    tunnel_frames,
    write_prefixes,
)
from agent.wire.dtypes import (
    ANNOUNCE_FRAME,
    INNER_OFFSET,
    PAYLOAD_OFFSET,
    SACK_FRAME,
    SACK_MASK_FRAME,
    SHARE,
    UDP_OFFSET,
    WRITE_FRAME,
    records,
    word,
)
from agent.wire.ev import EvCodec

_RTX = np.array(c.BTH_RETRANSMISSION, np.uint8)
_TIMESTAMP = word(c.BTH_TIMESTAMP)
_FLAGS_SHIFT = word(c.PSN_BITS)
_RETRANSMISSION = word(c.BTH_RETRANSMISSION << c.PSN_BITS)
_VERDICT_SHIFT, _PR_SHIFT = np.array(5, np.uint16), np.array(1, np.uint16)
_NXT_PORT_MASK = np.array(c.SETH_NXT_PORT_MASK << 7, np.uint16)
_RESTORE_SHIFT, _FLOW_CONTROL_SHIFT = word(7), word(24)


def write_frame_bytes(payload_bytes: int, with_imm: bool = False) -> int:
    """Return the length of the frame that carries this payload, pad and ICRC included."""
    return PAYLOAD_OFFSET + with_imm * c.IMMDT_BYTES + payload_bytes + -payload_bytes % 4 + c.ICRC_BYTES


def encode_writes(
    template: FlowTemplate, batch: WriteBatch, out: NDArray[np.uint8], runs: Runs | None = None
) -> NDArray[np.uint32]:
    """Write row i of the batch as a frame into `out[i]`; return the frames' lengths, `(n,)`.

    `out` is `(m >= n, stride)` with contiguous bytes in a row (rows may lie apart, as in a ring), stride at least the
    longest frame (`write_frame_bytes`); `runs` is an optional faster reader of it.
    """
    rows = out[: len(batch)]
    if len(batch) == 0:
        return np.zeros(0, np.uint32)
    if len(batch) <= FEW_ROWS and not _has_class_of_its_own(template, batch):
        return write_few_writes(template, batch, rows)
    widths = batch.payload_bytes
    if batch.imm is None and template.retransmission_class is None and alike(widths):
        return _encode_alike(template, batch, rows, runs)
    starts = _payload_starts(batch)
    pads = -widths & np.uint32(c.MAX_PAD_BYTES)
    ends = starts + widths + pads
    headers = template.write_prefix.take(batch.ev_index, axis=0)
    frames = records(headers, WRITE_FRAME)
    stamp_lengths(frames, ends, pads)
    _stamp_write(frames, batch)
    effect = template.write_icrc_effect[batch.ev_index]
    if template.retransmission_class is not None:
        effect = _stamp_retransmission_class(headers, batch, template.retransmission_class, effect)
    rows[:, :PAYLOAD_OFFSET] = headers
    _stamp_payloads(rows, batch, starts)
    stamp_icrcs(rows, effect, ends)
    return ends + np.uint32(c.ICRC_BYTES)


def _has_class_of_its_own(template: FlowTemplate, batch: WriteBatch) -> bool:
    """Report whether some row leaves in another class than first transmissions."""
    return template.retransmission_class is not None and bool(np.count_nonzero(batch.flags & _RTX))


def _encode_alike(
    template: FlowTemplate, batch: WriteBatch, rows: NDArray[np.uint8], runs: Runs | None
) -> NDArray[np.uint32]:
    """Encode the usual batch: frames of one length without immediates. Values that depend on the length are cached."""
    width = int(batch.payload_bytes[0])
    prefixes = write_prefixes(template, width)
    end = prefixes.end
    headers = prefixes.octets.take(batch.ev_index, axis=0)
    _stamp_write(records(headers, WRITE_FRAME), batch)
    rows[:, :PAYLOAD_OFFSET] = headers
    if width:
        gather_rows(batch.source, batch.source_offset, rows[:, PAYLOAD_OFFSET : PAYLOAD_OFFSET + width])
        rows[:, PAYLOAD_OFFSET + width : end] = 0
    stamp_icrc(rows, prefixes.effect[batch.ev_index], end, runs)
    return filled(end + c.ICRC_BYTES, len(rows), np.uint32)


def _payload_starts(batch: WriteBatch) -> NDArray[np.uint32]:
    if batch.imm is None:
        return filled(PAYLOAD_OFFSET, len(batch), np.uint32)
    return np.where(_carries_imm(batch.opcode), PAYLOAD_OFFSET + c.IMMDT_BYTES, PAYLOAD_OFFSET).astype(np.uint32)


def _carries_imm(opcode: NDArray[np.uint8]) -> NDArray[np.bool_]:
    return np.isin(opcode, c.IMMEDIATE_OPCODES)


def _stamp_write(frames: NDArray[np.void], batch: WriteBatch) -> None:
    bth, meth, reth = frames["bth"], frames["meth"], frames["reth"]
    bth["opcode"] = batch.opcode
    bth["psn_word"] = (batch.flags | _TIMESTAMP) << _FLAGS_SHIFT | batch.psn
    meth["rqmsn"] = batch.rqmsn
    meth["msn"] = batch.msn
    frames["tseth"]["tx_timestamp"] = batch.tx_timestamp
    reth["va"] = batch.va
    reth["rkey"] = batch.rkey
    reth["dmalen"] = batch.dmalen


def _stamp_retransmission_class(
    headers: NDArray[np.uint8], batch: WriteBatch, traffic_class: int, effect: NDArray[np.uint32]
) -> NDArray[np.uint32]:
    """Set the class of retransmissions in both headers; return the resulting ICRC effects."""
    again = np.flatnonzero(batch.flags & np.uint8(c.BTH_RETRANSMISSION))
    if len(again) == 0:
        return effect
    frames = records(headers, WRITE_FRAME)
    for header in (frames["outer"], frames["inner"]):
        others = header["class_word"][again] & np.uint32(0xF00FFFFF)
        header["class_word"][again] = others | np.uint32(traffic_class << 20)
    effect[again] = mask_effect(headers[again, INNER_OFFSET : INNER_OFFSET + HEADER_BYTES])
    return effect


def _stamp_payloads(rows: NDArray[np.uint8], batch: WriteBatch, starts: NDArray[np.uint32]) -> None:
    """Copy payloads from the source, rows of one length and place at a time."""
    if batch.imm is not None:
        with_imm = np.flatnonzero(starts != PAYLOAD_OFFSET)
        octets = batch.imm[with_imm].astype(">u4").view(np.uint8).reshape(-1, c.IMMDT_BYTES)
        rows[with_imm, PAYLOAD_OFFSET : PAYLOAD_OFFSET + c.IMMDT_BYTES] = octets
    shapes = starts.astype(np.int64) << 32 | batch.payload_bytes
    for shape in np.unique(shapes).tolist():
        _gather(rows, np.flatnonzero(shapes == shape), batch, shape)


def _gather(rows: NDArray[np.uint8], chosen: Rows, batch: WriteBatch, shape: int) -> None:
    start, width = shape >> 32, shape & 0xFFFFFFFF
    end = start + width
    if width:
        rows[chosen, start:end] = rows_at(batch.source, batch.source_offset[chosen], width)
    rows[chosen, end : end + -width % 4] = 0


def encode_sacks(
    template: FlowTemplate, batch: SackBatch, out: NDArray[np.uint8], runs: Runs | None = None
) -> NDArray[np.uint32]:
    """Write row i of the batch as a SACK frame into `out[i]`; return the frames' lengths, `(n,)`.

    154 bytes each, or 158 if the batch has a port mask. `out` and `runs` as for `encode_writes`.
    """
    rows = out[: len(batch)]
    if len(batch) == 0:
        return np.zeros(0, np.uint32)
    if len(batch) <= FEW_ROWS:
        return write_few_sacks(template, batch, rows)
    masked = batch.port_mask is not None
    prefixes = sack_prefixes(template, masked)
    headers = prefixes.octets.take(batch.ev_index, axis=0)
    frames = records(headers, SACK_MASK_FRAME if masked else SACK_FRAME)
    frames["bth"]["psn_word"] = batch.rtx * _RETRANSMISSION | batch.cack_psn
    _stamp_seth(frames["seth"], batch)
    _stamp_cc_state(frames["cc_state"], batch)
    if batch.port_mask is not None:
        frames["ports"]["port_mask"] = batch.port_mask
    rows[:, : frames.itemsize] = headers
    stamp_icrc(rows, prefixes.effect[batch.ev_index], prefixes.end, runs)
    return filled(frames.itemsize, len(batch), np.uint32)


def _stamp_seth(seth: NDArray[np.void], batch: SackBatch) -> None:
    verdict = batch.m.astype(np.uint16) << _VERDICT_SHIFT | batch.pr.astype(np.uint16) << _PR_SHIFT
    seth["m_pr"] = verdict if batch.port_mask is None else verdict | _NXT_PORT_MASK
    seth["ack_psn_offset"] = batch.ack_psn_offset
    seth["entropy"] = batch.ev
    seth["spdcid"] = batch.spdcid
    seth["dpdcid"] = batch.dpdcid
    seth["cack_word"] = batch.cack_psn
    seth["mpr"] = batch.mpr
    seth["sack_offset"] = batch.sack_offset
    seth["sack_bitmap"] = batch.bitmap


def _stamp_cc_state(cc_state: NDArray[np.void], batch: SackBatch) -> None:
    cc_state["tx_timestamp"] = batch.tx_timestamp
    cc_state["ooo_count"] = batch.ooo_count
    flow_control = batch.restore_cwnd.astype(np.uint32) << _RESTORE_SHIFT | batch.rcv_cwnd_pen
    cc_state["rcvd_word"] = flow_control << _FLOW_CONTROL_SHIFT | batch.rcvd_bytes


def encode_announcements(
    source: HostAddress,
    peer: HostAddress,
    evs: NDArray[np.uint32],
    announcement: Announcement,
    shares: NDArray[np.int64] | None = None,
    codec: EvCodec | None = None,
    kind: c.AnnounceKind = c.AnnounceKind.CLOSE,
) -> list[bytes]:
    """Build a flow announcement as one whole frame per EV (n,), in class CONTROL, to leave by the EV's plane.

    With `shares`, (k,) first transmissions per spine, it closes the flow, or is of another `kind`; without, it opens
    it.
    """
    tail = b"" if shares is None else shares.astype(SHARE).tobytes()
    frames = tunnel_frames(source, peer, evs, codec or EvCodec(), ANNOUNCE_FRAME, CONTROL_CLASS)
    udp_bytes = ANNOUNCE_FRAME.itemsize - UDP_OFFSET + len(tail)
    frames["outer"]["plen"] = udp_bytes + c.IPV6_BYTES
    frames["inner"]["plen"] = frames["udp"]["len"] = udp_bytes
    frames["udp"]["dport"] = c.UDP_PORT_ANNOUNCE
    body = frames["announce"]
    body["magic"] = c.ANNOUNCE_MAGIC
    body["version"] = c.ANNOUNCE_VERSION
    body["kind"] = c.AnnounceKind.OPEN if shares is None else kind
    for field in fields(Announcement):
        body[field.name] = getattr(announcement, field.name)
    return [frame.tobytes() + tail for frame in frames]
