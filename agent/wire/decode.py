"""Frames to columns. Bad frames are data: each gets a reason and is counted, nothing here raises on bytes."""

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agent.wire import constants as c
from agent.wire.columns import SackColumns, WriteColumns
from agent.wire.constants import Ecn
from agent.wire.control import RECEIVED
from agent.wire.control_columns import (
    AckColumns,
    EndpointRequestColumns,
    EndpointResponseColumns,
    NackColumns,
    ProbeColumns,
)
from agent.wire.dtypes import (
    INNER_OFFSET,
    PAYLOAD_OFFSET,
    RETH,
    SACK_FRAME,
    SACK_MASK_FRAME,
    WRITE_FRAME,
    word,
    word_of,
)
from agent.wire.ev import EvCodec
from agent.wire.icrc import Runs, flat_bytes
from agent.wire.judge import JudgedBlock, has_tseth, pad_bytes
from agent.wire.rules import Kind, RejectReason
from agent.wire.verdicts import judge

__all__ = ["Decoded", "RejectReason", "decode"]

_PSN_MASK = word(c.PSN_MASK)
_QPN_MASK = word(c.QPN_MASK)
_TSETH_BIT = word(c.BTH_TIMESTAMP << c.PSN_BITS)
_RTX_BIT = word(c.BTH_RETRANSMISSION << c.PSN_BITS)
_VERDICT_SHIFT = word(5)
_VERDICT_BITS = np.array(3, np.uint8)
_PR_BIT = word(1 << 17)
_OOO_BITS = np.array(c.OOO_COUNT_MAX, np.uint16)
_RESTORE_BIT = word(1 << 31)
_PENALTY_BITS = np.array(c.RCV_CWND_PEN_MAX, np.uint8)
_RCVD_MASK = word(c.RCVD_BYTES_MASK)
_ZERO = word(0)
_LONG_SHIFT = np.array(32, np.uint64)
_OUTER_CLASS = word_of(WRITE_FRAME, "outer", "class_word")
_OUTER_LENGTH = word_of(WRITE_FRAME, "outer", "plen")
_INNER_CLASS = word_of(WRITE_FRAME, "inner", "class_word")
_UDP_PORTS = word_of(WRITE_FRAME, "udp", "sport")
_BTH_FIRST = word_of(WRITE_FRAME, "bth", "opcode")
_BTH_DQP = word_of(WRITE_FRAME, "bth", "dqp_word")
_BTH_PSN = word_of(WRITE_FRAME, "bth", "psn_word")
_METH = word_of(WRITE_FRAME, "meth")
_TSETH = word_of(WRITE_FRAME, "tseth")
_RETH = word_of(WRITE_FRAME, "reth")
_IMM = _RETH + RETH.itemsize // 4
_SETH = word_of(SACK_FRAME, "seth")
_SETH_CACK = word_of(SACK_FRAME, "seth", "cack_word")
_SETH_CC = word_of(SACK_FRAME, "seth", "cc")
_CC_STATE = word_of(SACK_FRAME, "cc_state")
_PORT_MASK = word_of(SACK_MASK_FRAME, "ports")
_ECN = word(3 << 20)
_CE = word(Ecn.CE << 20)
_LOW_HALF, _HIGH_HALF = (slice(0, None, 2), slice(1, None, 2))[:: 1 if sys.byteorder == "little" else -1]
_MASKED_END = SACK_MASK_FRAME.itemsize - c.ICRC_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """What a block of frames held; columns are None where there were no such packets."""

    writes: WriteColumns | None = None
    sacks: SackColumns | None = None
    acks: AckColumns | None = None
    nacks: NackColumns | None = None
    probes: ProbeColumns | None = None
    endpoint_requests: EndpointRequestColumns | None = None
    endpoint_responses: EndpointResponseColumns | None = None
    rejected: dict[RejectReason, int]
    """Rows by reason, without ACCEPTED."""
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
    """Split a block of received frames into columns by kind of packet, and counted rest.

    `frames` is `(n, stride)`, row i holding `lengths[i]` bytes (bytes past a row's length are never trusted); `plane`
    is the port they came by, `own_address` this host's 16-byte inner address. The result views `frames`; `runs` reads
    them, if it can do so faster than we.
    """
    if len(frames) == 0:
        return Decoded(rejected={}, reasons=np.zeros(0, np.uint8))
    codec = codec or EvCodec()
    block = judge(frames, lengths, own_address, check_icrc=check_icrc, runs=runs)
    found: dict[str, Any] = {}
    for kind, rows in block.groups():
        if kind == Kind.WRITE.value:
            found["writes"] = _writes_of(block, rows, plane, codec)
        elif kind == Kind.SACK.value:
            found["sacks"] = _sacks_of(block, rows, plane)
        else:
            received = RECEIVED[Kind(kind)]
            found[received.name] = received.columns_of(block.words_of(rows), plane, codec)
    return Decoded(rejected=_tally(block.reasons), reasons=block.reasons, **found)


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
    psn_word = words[_BTH_PSN]
    outer_class, inner_class = words[_OUTER_CLASS], words[_INNER_CLASS]
    return WriteColumns(
        psn=psn_word & _PSN_MASK,
        opcode=_octet(words[_BTH_FIRST], 24),
        flags=_octet(psn_word, 24),
        dqpn=words[_BTH_DQP] & _QPN_MASK,
        ce=_is_ce(outer_class) | _is_ce(inner_class),
        trimmed=trimmed,
        trimmed_lasthop=block.trimmed_lasthop[rows],
        ev=codec.join(_high(words[_UDP_PORTS]), _low(inner_class)),
        msn=_low(words[_METH]),
        rqmsn=_high(words[_METH]),
        tx_timestamp=_high(words[_TSETH]),
        va=_long(words[_RETH], words[_RETH + 1]),
        rkey=words[_RETH + 2],
        dmalen=words[_RETH + 3],
        imm=_immediates(block, words, rows),
        payload_bytes=(payload_bytes * ~trimmed).view(np.uint32) if any_trimmed else payload_bytes.view(np.uint32),
        payload_offset=block.row_offsets()[rows] + start,
        memory=flat_bytes(block.frames),
        plane=plane,
    )


def _immediates(block: JudgedBlock, words: NDArray[np.uint32], rows: NDArray[np.intp] | slice) -> NDArray[np.uint32]:
    """Immediate data, zero in rows without."""
    if block.highest_kind < Kind.WRITE_IMM.value:
        return np.zeros(words.shape[1], np.uint32)
    immediates: NDArray[np.uint32] = words[_IMM] * (block.kinds[rows] == Kind.WRITE_IMM.value)
    return immediates


def _in_usual_layout(block: JudgedBlock, rows: NDArray[np.intp] | slice) -> NDArray[np.uint32]:
    """Header words of the rows moved to where a whole write with TSETH has them; what a row lacks reads zero."""
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
    first, windows, rcvd = words[_SETH], words[_SETH_CC], words[_CC_STATE + 1]
    masked = block.payload_start[rows] == _MASKED_END
    return SackColumns(
        cack_psn=words[_SETH_CACK] & _PSN_MASK,
        ack_psn_offset=_low(first).view(np.int16),
        pr=first & _PR_BIT != _ZERO,
        rtx=words[_BTH_PSN] & _RTX_BIT != _ZERO,
        m=_octet(first >> _VERDICT_SHIFT, 16) & _VERDICT_BITS,
        ev=words[_SETH + 1],
        spdcid=_high(words[_SETH + 2]),
        dpdcid=_low(words[_SETH + 2]),
        mpr=_octet(windows, 16),
        sack_offset=_low(windows).view(np.int16),
        bitmap=_long(words[_SETH_CC + 1], words[_SETH_CC + 2]),
        tx_timestamp=_high(words[_CC_STATE]),
        ooo_count=_low(words[_CC_STATE]) & _OOO_BITS,
        restore_cwnd=rcvd & _RESTORE_BIT != _ZERO,
        rcv_cwnd_pen=_octet(rcvd, 24) & _PENALTY_BITS,
        rcvd_bytes=rcvd & _RCVD_MASK,
        port_mask=words[_PORT_MASK] * masked if np.count_nonzero(masked) else None,
        dqpn=words[_BTH_DQP] & _QPN_MASK,
        plane=plane,
    )


def _is_ce(class_word: NDArray[np.uint32]) -> NDArray[np.bool_]:
    ce: NDArray[np.bool_] = class_word & _ECN == _CE
    return ce


def _octet(word: NDArray[np.uint32], shift: int) -> NDArray[np.uint8]:
    """Eight bits of contiguous words from a multiple of eight up, a view."""
    place = shift // 8 if sys.byteorder == "little" else 3 - shift // 8
    return word.view(np.uint8)[place::4]


def _high(word: NDArray[np.uint32]) -> NDArray[np.uint16]:
    return word.view(np.uint16)[_HIGH_HALF]


def _low(word: NDArray[np.uint32]) -> NDArray[np.uint16]:
    return word.view(np.uint16)[_LOW_HALF]


def _long(high: NDArray[np.uint32], low: NDArray[np.uint32]) -> NDArray[np.uint64]:
    return high.astype(np.uint64) << _LONG_SHIFT | low
