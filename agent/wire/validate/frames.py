"""Validation of received rows: which frames may be read, and the reasons to refuse the others.

Checks run from the outer headers inwards, as a NIC's would; the first that fails gives the reason (tables in rules.py).
Only headers and lengths are checked here; the core checks windows, QP numbers and memory keys.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent.wire import constants as c
from agent.wire.array.columns import alike
from agent.wire.array.icrc import RESIDUE, Runs, are_right, flat_bytes, icrcs_alike, icrcs_of, runs_between
from agent.wire.constants import Dscp
from agent.wire.dtypes import (
    BASE_FRAME,
    BTH_OFFSET,
    INNER_OFFSET,
    SACK_FRAME,
    UDP_OFFSET,
    WORD_LEAD_BYTES,
    WRITE_FRAME,
    header_words,
    offset_of,
    word,
    word_of,
)
from agent.wire.validate.rules import FIELD_RULES, KIND_OF_OPCODE, PAYLOAD_OF_OPCODE, Kind, RejectReason, rules_for

_HEADERS_END = SACK_FRAME.itemsize
"""No header of ours ends later; this much of every frame is copied side by side before it is read."""
_OUTER_CLASS = word_of(BASE_FRAME, "outer", "class_word")
_OUTER_LENGTH = word_of(BASE_FRAME, "outer", "plen")
_INNER_LENGTH = word_of(BASE_FRAME, "inner", "plen")
_UDP_PORTS = word_of(BASE_FRAME, "udp", "dport")
_UDP_LENGTH = word_of(BASE_FRAME, "udp", "len")
_BTH_FIRST = word_of(BASE_FRAME, "bth", "opcode")
_BTH_PSN = word_of(BASE_FRAME, "bth", "psn_word")
_SETH_FIRST = word_of(SACK_FRAME, "seth", "m_pr")
_SETH_CC = word_of(SACK_FRAME, "seth", "cc")
_TSETH_OFFSET = offset_of(WRITE_FRAME, "tseth")
_TSETH_BIT = word(c.BTH_TIMESTAMP << c.PSN_BITS)
_DSCP_SHIFT = 22
_DSCP_BITS = word(0x3F << _DSCP_SHIFT)
_VERSION_AND_KEY = word(0x000FFFFF)
_RESERVED_VERDICT = word(3 << 21)
_TYPE = word(0xF << 28)
_NXT = word(0x1F << 23)
_NXT_PORT_MASK = word(c.SETH_NXT_PORT_MASK << 23)
_CC_UNIT = word(1 << 24)
_OPCODE_SHIFT = word(24)
_PAD_SHIFT = word(20)
_PAD_BITS = word(c.MAX_PAD_BYTES)
_SHORT_BYTES = 512
"""Frames up to this length are checked in one pass over a copy. Our choice, measured: half the time at 166 bytes."""
_FEW_LENGTHS = 8
"""Most different lengths for which rows are checked length by length. Our choice: most blocks hold two or three."""
_LOW_HALF = word(0xFFFF)
_HIGH_HALF = word(16)


ALL_ROWS = slice(None)


class Verdict(NamedTuple):
    """Verdict on one row; the fields are those of JudgedBlock."""

    trimmed: bool
    trimmed_lasthop: bool
    payload_start: int
    payload_end: int
    reason: int


@dataclass(frozen=True, slots=True)
class JudgedBlock:
    """A received block with the verdict on each row; `(n,)` each unless stated.

    Offsets count from the frame's start.
    """

    words: NDArray[np.uint32]
    """(38, n): `dtypes.header_words` of all frames; zero where frames are narrower."""
    frames: NDArray[np.uint8]
    """(m >= n, stride) received frames with contiguous bytes in a row; `rows` of them are validated here."""
    lengths: NDArray[np.int32]
    kinds: NDArray[np.uint8]
    lowest_kind: int
    """The least of the kinds."""
    highest_kind: int
    """The greatest of the kinds."""
    trimmed: NDArray[np.bool_]
    trimmed_lasthop: NDArray[np.bool_]
    """Rows trimmed at the last hop; a subset of `trimmed`."""
    payload_start: NDArray[np.int32]
    """Start of the payload; meaningful for writes only."""
    payload_end: NDArray[np.int32]
    """End of payload and pad, where the ICRC starts."""
    reasons: NDArray[np.uint8]
    verdict: Verdict | None = None
    """Common verdict of all rows before the check of the ICRC; None if they may differ."""
    rows: NDArray[np.intp] | None = None
    """Rows of `frames` that are validated; None: all."""

    def reject(self, bad: NDArray[np.bool_], reason: RejectReason) -> None:
        """Set the reason of the bad rows that have none yet."""
        if np.count_nonzero(bad):
            self.reasons[bad & (self.reasons == RejectReason.ACCEPTED.value)] = reason

    def accepted(self) -> NDArray[np.bool_]:
        """Return the rows that passed all checks."""
        accepted: NDArray[np.bool_] = self.reasons == RejectReason.ACCEPTED.value
        return accepted

    def words_of(self, rows: NDArray[np.intp] | slice) -> NDArray[np.uint32]:
        """Return the words of the given rows, each word's column contiguous."""
        return self.words if isinstance(rows, slice) else self.words.take(rows, axis=1)

    def row_offsets(self) -> NDArray[np.int64]:
        """Return where each row starts in the `flat_bytes` of the frames."""
        stride = self.frames.strides[0]
        return np.arange(0, len(self.frames) * stride, stride) if self.rows is None else self.rows * stride

    def octets(self, rows: NDArray[np.intp] | slice, start: int, end: int) -> NDArray[np.uint8]:
        """Copy bytes start .. end - 1 of the given rows, side by side."""
        place = rows if self.rows is None else self.rows[rows]
        chosen = self.frames[place, start:end]
        return chosen.copy() if isinstance(place, slice) else np.ascontiguousarray(chosen)

    def groups(self) -> Iterator[tuple[int, NDArray[np.intp] | slice]]:
        """Group accepted rows by kind, writes with and without immediates together; all rows of a block as a slice."""
        lowest = min(self.lowest_kind, Kind.WRITE.value)
        if lowest == min(self.highest_kind, Kind.WRITE.value) and not np.count_nonzero(self.reasons):
            yield lowest, slice(None)
            return
        # Rows that are not accepted become UNKNOWN, which forms no group.
        kinds = np.minimum(self.kinds, np.uint8(Kind.WRITE)) * self.accepted()
        for kind in set(kinds.tolist()) - {Kind.UNKNOWN.value}:
            yield kind, selection(kinds == kind)


def judge_headers(
    frames: NDArray[np.uint8], lengths: NDArray[np.uint32], headers: NDArray[np.uint8], own_address: bytes
) -> JudgedBlock:
    """Validate `(n >= 1, stride)` frames of `lengths` bytes for the host of this 16-byte inner address.

    `headers` are those of `headers_of`; the ICRC is not checked.
    """
    return judge_words(frames, lengths, header_words(headers), own_address)


def judge_words(
    frames: NDArray[np.uint8], lengths: NDArray[np.uint32], words: NDArray[np.uint32], own_address: bytes
) -> JudgedBlock:
    """Validate frames as `judge_headers`; `words` are the `dtypes.header_words` of the headers."""
    block = _block_of(frames, lengths, words)
    block.reject(lengths > frames.shape[1], RejectReason.TRUNCATED)
    _judge_tunnel(block, own_address)
    _judge_bth(block)
    _judge_lengths(block)
    _judge_control_fields(block)
    return block


def headers_of(frames: NDArray[np.uint8], rows: NDArray[np.intp] | slice = ALL_ROWS) -> NDArray[np.uint8]:
    """Copy the rows' first bytes after WORD_LEAD_BYTES, side by side, zero where frames are narrower."""
    seen = frames[rows, WORD_LEAD_BYTES:_HEADERS_END]
    missing = _HEADERS_END - WORD_LEAD_BYTES - seen.shape[1]
    return np.pad(seen, ((0, 0), (0, missing))) if missing else np.ascontiguousarray(seen)


def kinds_of(words: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """Return the kind of each frame, `(n,)`, by its opcode."""
    kinds: NDArray[np.uint8] = KIND_OF_OPCODE[words[_BTH_FIRST] >> _OPCODE_SHIFT]
    return kinds


def _block_of(frames: NDArray[np.uint8], lengths: NDArray[np.uint32], words: NDArray[np.uint32]) -> JudgedBlock:
    dscp_bits = words[_OUTER_CLASS] & _DSCP_BITS
    lasthop = dscp_bits == Dscp.TRIMMED_LASTHOP << _DSCP_SHIFT
    kinds = kinds_of(words)
    return JudgedBlock(
        words=words,
        frames=frames,
        lengths=lengths.astype(np.int32),
        kinds=kinds,
        lowest_kind=int(kinds.min()),
        highest_kind=int(kinds.max()),
        trimmed=lasthop | (dscp_bits == Dscp.TRIMMED << _DSCP_SHIFT),
        trimmed_lasthop=lasthop,
        payload_start=_payload_starts(words, kinds),
        payload_end=_length_at(words, _UDP_LENGTH) + np.int32(UDP_OFFSET - c.ICRC_BYTES),
        reasons=np.zeros(len(lengths), np.uint8),
    )


def _payload_starts(words: NDArray[np.uint32], kinds: NDArray[np.uint8]) -> NDArray[np.int32]:
    starts: NDArray[np.int32] = PAYLOAD_OF_OPCODE[words[_BTH_FIRST] >> _OPCODE_SHIFT]
    starts[~has_tseth(words) & (kinds >= Kind.WRITE.value)] -= c.TSETH_BYTES
    starts[_has_port_mask(words) & (kinds == Kind.SACK.value)] += c.PORT_MASK_BYTES
    return starts


def _has_port_mask(words: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Report whether a port mask follows the CC_STATE; meaningful for SACKs only."""
    masked: NDArray[np.bool_] = words[_SETH_FIRST] & _NXT == _NXT_PORT_MASK
    return masked


def _length_at(words: NDArray[np.uint32], word: int) -> NDArray[np.int32]:
    """Return the 16-bit length in a word's high half."""
    length: NDArray[np.int32] = (words[word] >> _HIGH_HALF).view(np.int32)
    return length


def _judge_tunnel(block: JudgedBlock, own_address: bytes) -> None:
    """Check what is the same in every frame to this host: one comparison when all is right, else rule by rule."""
    rules = rules_for(own_address)
    wrong = (block.words[rules.words] ^ rules.values) & rules.masks != 0
    port = block.words[_UDP_PORTS] & _LOW_HALF
    other_port = (port != c.UDP_PORT_MRC) & (port != c.UDP_PORT_MRC_ALT)
    too_short = block.lengths < BASE_FRAME.itemsize
    if not (np.count_nonzero(wrong) or np.count_nonzero(other_port) or np.count_nonzero(too_short)):
        return
    for rule, wrong_rows in zip(rules.rules, wrong, strict=True):
        block.reject(block.lengths < rule.end, RejectReason.TRUNCATED)
        block.reject(wrong_rows, rule.reason)
    next_header = block.words[_OUTER_LENGTH] >> np.uint32(8) & np.uint32(0xFF)
    routed = (block.reasons == RejectReason.NOT_MRC.value) & (next_header == c.NEXT_HEADER_ROUTING)
    block.reasons[routed] = RejectReason.ROUTING_HEADER
    block.reject(block.lengths < BTH_OFFSET, RejectReason.TRUNCATED)
    block.reject(port == c.UDP_PORT_ANNOUNCE, RejectReason.ANNOUNCEMENT)
    block.reject(other_port, RejectReason.NOT_MRC)
    block.reject(too_short, RejectReason.TRUNCATED)


def _judge_bth(block: JudgedBlock) -> None:
    block.reject(block.words[_BTH_FIRST] & _VERSION_AND_KEY != c.PKEY, RejectReason.BAD_BTH)
    if block.lowest_kind == Kind.UNKNOWN.value:
        block.reject(block.kinds == Kind.UNKNOWN.value, RejectReason.UNKNOWN_OPCODE)


def _judge_lengths(block: JudgedBlock) -> None:
    """Check lengths: bits left in `misfit` are contradictions.

    A control packet must end where a payload would start.
    """
    outer_bytes = _length_at(block.words, _OUTER_LENGTH)
    inner_bytes = _length_at(block.words, _INNER_LENGTH)
    udp_bytes = _length_at(block.words, _UDP_LENGTH)
    block.reject(outer_bytes > block.lengths - INNER_OFFSET, RejectReason.TRUNCATED)
    padded = block.payload_end - block.payload_start
    misfit = (inner_bytes ^ udp_bytes) | (outer_bytes - inner_bytes ^ np.int32(c.IPV6_BYTES))
    misfit |= padded & np.int32(3) | padded - pad_bytes(block.words) >> np.int32(31)
    if block.lowest_kind < Kind.WRITE.value:
        misfit |= padded * (block.kinds < Kind.WRITE.value)
    if np.count_nonzero(block.trimmed):
        misfit = np.where(block.trimmed, _trimmed_misfit(block, outer_bytes + INNER_OFFSET), misfit)
    if np.count_nonzero(misfit):
        block.reject(misfit != 0, RejectReason.BAD_LENGTH)


def _trimmed_misfit(block: JudgedBlock, outer_end: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Check lengths of trimmed rows: a trimming switch rewrites only the outer length, so inner ones do not count."""
    kept = np.where(has_tseth(block.words), _TSETH_OFFSET + c.TSETH_BYTES, _TSETH_OFFSET)
    return (outer_end < kept) | (block.kinds < Kind.WRITE.value)


def _judge_control_fields(block: JudgedBlock) -> None:
    if block.lowest_kind >= Kind.WRITE.value:
        return
    first = block.words[_SETH_FIRST]
    reserved = (first & _RESERVED_VERDICT == _RESERVED_VERDICT) | (block.words[_SETH_CC] >= _CC_UNIT)
    reserved |= (first & _TYPE != 0) | (first & _NXT != 0) & (first & _NXT != _NXT_PORT_MASK)
    block.reject(reserved & (block.kinds == Kind.SACK.value), RejectReason.BAD_FIELD)
    if block.lowest_kind >= Kind.SACK.value:
        return
    for rule in FIELD_RULES:
        rows = block.kinds == rule.kind.value
        if np.count_nonzero(rows):
            block.reject(rows & ~np.isin(rule.bits.read(block.words), rule.allowed), RejectReason.BAD_FIELD)


def judge_icrc(block: JudgedBlock, headers: NDArray[np.uint8], runs: Runs | None = None) -> None:
    """Reject rows whose ICRC is wrong; a trimmed packet has no valid one (our choice)."""
    if block.verdict is not None:
        if not (block.verdict.reason or block.verdict.trimmed):
            _judge_icrcs(block, headers, slice(None), block.verdict.payload_end + c.ICRC_BYTES, runs)
        return
    checked = selection((block.reasons | block.trimmed) == RejectReason.ACCEPTED.value)
    ends = block.payload_end[checked] + np.int32(c.ICRC_BYTES)
    if not len(ends):
        return
    if alike(ends):
        _judge_icrcs(block, headers, checked, int(ends[0]), runs)
        return
    rows = np.arange(len(block.reasons))[checked]
    lengths = set(ends.tolist())
    if len(lengths) <= _FEW_LENGTHS:
        for end in lengths:
            _judge_icrcs(block, headers, rows[ends == end], end, runs)
        return
    starts = block.row_offsets()[rows]
    inner = headers[rows, INNER_OFFSET - WORD_LEAD_BYTES :]
    icrcs = icrcs_of(flat_bytes(block.frames), starts + INNER_OFFSET, starts + ends, inner)
    block.reasons[rows[icrcs != RESIDUE]] = RejectReason.BAD_ICRC


def _judge_icrcs(
    block: JudgedBlock, headers: NDArray[np.uint8], rows: NDArray[np.intp] | slice, end: int, runs: Runs | None
) -> None:
    """Check rows whose ICRC ends at the same place."""
    if end <= _SHORT_BYTES and are_right(block.octets(rows, INNER_OFFSET, end)):
        return
    if isinstance(rows, slice) and runs is not None:
        covered = runs(INNER_OFFSET, end)
    else:
        starts = block.row_offsets()[rows]
        covered = runs_between(flat_bytes(block.frames), starts + INNER_OFFSET, starts + end)
    wrong = icrcs_alike(covered, headers[rows, INNER_OFFSET - WORD_LEAD_BYTES :]) != RESIDUE
    if np.count_nonzero(wrong):
        block.reasons[np.arange(len(block.reasons))[rows][wrong]] = RejectReason.BAD_ICRC


def selection(rows: NDArray[np.bool_]) -> NDArray[np.intp] | slice:
    """Return the rows as an index; all rows as a slice, which selects without copying."""
    return slice(None) if np.count_nonzero(rows) == len(rows) else np.flatnonzero(rows)


def has_tseth(words: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Report whether a TSETH follows the METH."""
    tseth: NDArray[np.bool_] = words[_BTH_PSN] & _TSETH_BIT != 0
    return tseth


def pad_bytes(words: NDArray[np.uint32]) -> NDArray[np.int32]:
    """Return BTH.pad: bytes between payload and ICRC."""
    pad: NDArray[np.int32] = (words[_BTH_FIRST] >> _PAD_SHIFT & _PAD_BITS).view(np.int32)
    return pad
