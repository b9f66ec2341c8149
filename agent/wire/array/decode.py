"""Decode frames to columns. Bad frames are data: each is counted under its reason, nothing here raises on bytes."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent.wire import constants as c
from agent.wire.array import fields
from agent.wire.array.columns import FEW_ROWS, SackColumns, WriteColumns, alike
from agent.wire.array.control import RECEIVED, ce_column, ev_column, source_column
from agent.wire.array.control_columns import (
    AckColumns,
    EndpointRequestColumns,
    EndpointResponseColumns,
    NackColumns,
    ProbeColumns,
)
from agent.wire.array.few_frames import read_few
from agent.wire.array.icrc import Runs, flat_bytes
from agent.wire.dtypes import (
    INNER_OFFSET,
    PAYLOAD_OFFSET,
    SACK_MASK_FRAME,
    WRITE_FRAME,
    offset_of,
    word,
    word_of,
)
from agent.wire.ev import EvCodec
from agent.wire.validate.frames import ALL_ROWS, JudgedBlock, has_tseth, pad_bytes
from agent.wire.validate.rules import KIND_OF_OPCODE, Kind, RejectReason
from agent.wire.validate.verdict_cache import judge

__all__ = ["Decoded", "RejectReason", "decode"]

_OPCODE = offset_of(WRITE_FRAME, "bth", "opcode")
_GROUP_OF_OPCODE = np.minimum(KIND_OF_OPCODE, Kind.WRITE.value).astype(np.uint8)
_TSETH_BIT = word(c.BTH_TIMESTAMP << c.PSN_BITS)
_OUTER_LENGTH = word_of(WRITE_FRAME, "outer", "plen")
_BTH_PSN = word_of(WRITE_FRAME, "bth", "psn_word")
_TSETH = word_of(WRITE_FRAME, "tseth")
_RETH = word_of(WRITE_FRAME, "reth")
_IMM = fields.IMM.word
_MASKED_END = np.array(SACK_MASK_FRAME.itemsize - c.ICRC_BYTES, np.int32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """Decoded contents of a block of frames; columns are None where there were no such packets."""

    writes: WriteColumns | None = None
    sacks: SackColumns | None = None
    acks: AckColumns | None = None
    nacks: NackColumns | None = None
    probes: ProbeColumns | None = None
    endpoint_requests: EndpointRequestColumns | None = None
    endpoint_responses: EndpointResponseColumns | None = None
    rejected: dict[RejectReason, int]
    """Rejected rows by reason, without ACCEPTED."""
    reasons: NDArray[np.uint8]
    """(n,) RejectReason of each row, in order of arrival."""


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
    """Split a block of received frames into columns per kind of packet, and counts of rejected rows.

    `frames` is `(n, stride)`, row i holding `lengths[i]` bytes (bytes past a row's length are never trusted); `plane`
    is that of the receiving port, `own_address` this host's 16-byte inner address. The result views `frames`; `runs` is
    an optional faster reader of them.
    """
    if len(frames) == 0:
        return Decoded(rejected={}, reasons=np.zeros(0, np.uint8))
    host = _Host(own_address, plane, codec or EvCodec(), check_icrc)
    parts = _parts_of(frames)
    if len(parts) == 1:
        found, reasons = _read(frames, lengths, parts[0], host, runs)
    else:
        found, reasons = {}, np.zeros(len(frames), np.uint8)
        for rows in parts:
            columns, reasons[rows] = _read(frames, lengths, rows, host, runs)
            found |= columns
    return Decoded(rejected=_tally(reasons), reasons=reasons, **found)


class _Host(NamedTuple):
    """The receiving host, and how to read."""

    address: bytes
    plane: int
    codec: EvCodec
    check_icrc: bool


def _parts_of(frames: NDArray[np.uint8]) -> list[NDArray[np.intp] | slice]:
    """Group rows by kind, writes with and without immediates together: rows that are alike are cheaper to check."""
    if frames.shape[1] <= _OPCODE:
        return [ALL_ROWS]
    groups = _GROUP_OF_OPCODE[frames[:, _OPCODE]]
    if alike(groups):
        return [ALL_ROWS]
    return [(groups == group).nonzero()[0] for group in np.flatnonzero(np.bincount(groups)).tolist()]


def _read(
    frames: NDArray[np.uint8],
    lengths: NDArray[np.uint32],
    rows: NDArray[np.intp] | slice,
    host: _Host,
    runs: Runs | None,
) -> tuple[dict[str, Any], NDArray[np.uint8]]:
    """Return columns of some rows, by name in `Decoded`, and the reason of each."""
    lengths = lengths[rows]
    if len(lengths) <= FEW_ROWS:
        numbers = range(len(lengths)) if isinstance(rows, slice) else rows.tolist()
        few = read_few(frames, numbers, lengths, host.address, host.plane, host.codec, check_icrc=host.check_icrc)
        if few is not None:
            return few, np.zeros(len(lengths), np.uint8)
    block = judge(frames, lengths, host.address, check_icrc=host.check_icrc, runs=runs, rows=rows)
    found: dict[str, Any] = {}
    for kind, accepted in block.groups():
        if kind == Kind.WRITE.value:
            found["writes"] = _writes_of(block, accepted, host.plane, host.codec)
        elif kind == Kind.SACK.value:
            found["sacks"] = _sacks_of(block, accepted, host.plane)
        else:
            received = RECEIVED[Kind(kind)]
            found[received.name] = received.columns_of(block.words_of(accepted), host.plane, host.codec)
    return found, block.reasons


def _tally(reasons: NDArray[np.uint8]) -> dict[RejectReason, int]:
    if not np.count_nonzero(reasons):
        return {}
    counts = np.bincount(reasons)
    return {RejectReason(code): int(counts[code]) for code in np.flatnonzero(counts).tolist() if code}


def _writes_of(block: JudgedBlock, rows: NDArray[np.intp] | slice, plane: int, codec: EvCodec) -> WriteColumns:
    words, trimmed = block.words_of(rows), block.trimmed[rows]
    any_trimmed = np.count_nonzero(trimmed)
    if any_trimmed or np.count_nonzero(words[_BTH_PSN] & _TSETH_BIT) < len(trimmed):
        words = _in_usual_layout(block, rows)
    start = block.payload_start[rows]
    payload_bytes = block.payload_end[rows] - start - pad_bytes(words)
    return WriteColumns(
        **{name: bits.column(words) for name, bits in fields.WRITE.items()},
        dqpn=fields.DQPN.column(words),
        ce=ce_column(words, codec),
        trimmed=trimmed,
        trimmed_lasthop=block.trimmed_lasthop[rows],
        ev=ev_column(words, codec),
        imm=_immediates(block, words, rows),
        payload_bytes=(payload_bytes * ~trimmed).view(np.uint32) if any_trimmed else payload_bytes.view(np.uint32),
        payload_offset=block.row_offsets()[rows] + start,
        memory=flat_bytes(block.frames),
        plane=plane,
        source=source_column(words),
    )


def _immediates(block: JudgedBlock, words: NDArray[np.uint32], rows: NDArray[np.intp] | slice) -> NDArray[np.uint32]:
    """Return immediate data, zero in rows without."""
    if block.highest_kind < Kind.WRITE_IMM.value:
        return np.zeros(words.shape[1], np.uint32)
    immediates: NDArray[np.uint32] = fields.IMM.column(words) * (block.kinds[rows] == Kind.WRITE_IMM.value)
    return immediates


def _in_usual_layout(block: JudgedBlock, rows: NDArray[np.intp] | slice) -> NDArray[np.uint32]:
    """Move header words of the rows to where a complete write with TSETH has them; missing ones read zero."""
    words = block.words_of(rows).copy()
    outer_end = (words[_OUTER_LENGTH] >> np.uint32(16)).astype(np.int64) + INNER_OFFSET
    cut = block.trimmed[rows] & (outer_end < PAYLOAD_OFFSET - ~has_tseth(words) * c.TSETH_BYTES)
    short = np.flatnonzero(~has_tseth(words))
    words[_RETH : _IMM + 1, short] = words[_TSETH:_IMM, short]
    words[_TSETH, short] = 0
    words[_RETH:_IMM, cut] = 0
    words[_IMM, block.trimmed[rows]] = 0
    return words


def _sacks_of(block: JudgedBlock, rows: NDArray[np.intp] | slice, plane: int) -> SackColumns:
    words = block.words_of(rows)
    masked = block.payload_start[rows] == _MASKED_END
    columns = {name: bits.column(words) for name, bits in fields.SACK.items()}
    columns |= {name: columns[name].view(np.int16) for name in fields.SIGNED}
    return SackColumns(
        **columns,
        port_mask=fields.PORT_MASK.column(words) * masked if np.count_nonzero(masked) else None,
        dqpn=fields.DQPN.column(words),
        plane=plane,
        source=source_column(words),
    )
