"""Validation of whole blocks: rows that agree in all checked bits share one verdict, and verdicts are cached.

Nearly all frames a host receives are alike, so a usual block costs one comparison instead of thirty. frames.py decides
the verdicts; this module only knows which header bits it checks.
"""

from dataclasses import replace
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from agent.wire import constants as c
from agent.wire.array.columns import alike, filled
from agent.wire.array.icrc import Runs
from agent.wire.dtypes import (
    BASE_FRAME,
    SACK_FRAME,
    WORD_LEAD_BYTES,
    header_words,
    word_of,
)
from agent.wire.validate.frames import ALL_ROWS, JudgedBlock, Verdict, headers_of, judge_icrc, judge_words, kinds_of
from agent.wire.validate.rules import FIELD_RULES, Kind

T = TypeVar("T", bound=np.generic)

_WHOLE = 0xFFFFFFFF
_JUDGED = (
    (word_of(BASE_FRAME, "eth", "type"), 0x0000FFFF),
    (word_of(BASE_FRAME, "outer", "class_word"), 0xFFC00000),  # version, DSCP
    (word_of(BASE_FRAME, "outer", "plen"), 0xFFFFFF00),  # length, next header
    (word_of(BASE_FRAME, "inner", "class_word"), 0xF0000000),
    (word_of(BASE_FRAME, "inner", "plen"), 0xFFFFFF00),
    *((word_of(BASE_FRAME, "inner", "dst") + i, _WHOLE) for i in range(4)),
    (word_of(BASE_FRAME, "udp", "dport"), 0x0000FFFF),
    (word_of(BASE_FRAME, "udp", "len"), 0xFFFF0000),
    (word_of(BASE_FRAME, "bth", "opcode"), _WHOLE),  # opcode, pad, version, key
    (word_of(BASE_FRAME, "bth", "psn_word"), c.BTH_TIMESTAMP << c.PSN_BITS),
)
"""(word, bits) that frames.py checks in every row, as in `dtypes.header_words`."""
_JUDGED_IN_SACKS = (
    (word_of(SACK_FRAME, "seth", "m_pr"), 0x7FF << 21),  # type, nxt, m
    (word_of(SACK_FRAME, "seth", "cc"), 0xFF000000),
)
_OPCODE_BITS = 0xFF000000


def judge(
    frames: NDArray[np.uint8],
    lengths: NDArray[np.uint32],
    own_address: bytes,
    *,
    check_icrc: bool,
    runs: Runs | None = None,
    rows: NDArray[np.intp] | slice = ALL_ROWS,
) -> JudgedBlock:
    """Validate `rows` of `(n >= 1, stride)` frames, of `lengths` bytes, for the host of this 16-byte inner address.

    `lengths` are those of the rows; `runs` is an optional faster reader of the frames.
    """
    if frames.strides[1] != 1 or frames.strides[0] < frames.shape[1]:
        frames = np.ascontiguousarray(frames)
    headers = headers_of(frames, rows)
    words = header_words(headers)
    kinds = kinds_of(words)
    block = _judge_alike(frames, lengths, words, kinds, own_address)
    if block is None:
        block = judge_words(frames, lengths, words, own_address)
    if not isinstance(rows, slice):
        block, runs = replace(block, rows=rows), runs and _picked(runs, rows)
    if check_icrc:
        judge_icrc(block, headers, runs)
    return block


def _picked(runs: Runs, rows: NDArray[np.intp]) -> Runs:
    """Return a reader of these rows alone."""

    def read(start: int, end: int) -> list[memoryview]:
        whole = runs(start, end)
        return [whole[row] for row in rows.tolist()]

    return read


def _judge_alike(
    frames: NDArray[np.uint8],
    lengths: NDArray[np.uint32],
    words: NDArray[np.uint32],
    kinds: NDArray[np.uint8],
    own_address: bytes,
) -> JudgedBlock | None:
    """Return the block if all rows of a kind agree with the first of it, else None."""
    if not alike(kinds):
        return _judge_mixed(frames, lengths, words, kinds, own_address)
    kind = int(kinds[0])
    judged = words[_WORDS]
    if np.count_nonzero((judged ^ judged[:, :1]) & _COMPARED[:, kind : kind + 1]) or not alike(lengths):
        return None
    verdict = _verdict_of(0, frames, lengths, words, kind, own_address)
    return _block_alike(frames, lengths, words, kinds, {kind}, verdict)


def _judge_mixed(
    frames: NDArray[np.uint8],
    lengths: NDArray[np.uint32],
    words: NDArray[np.uint32],
    kinds: NDArray[np.uint8],
    own_address: bytes,
) -> JudgedBlock | None:
    """Return the block as `_judge_alike`, with several kinds."""
    leaders = _first_of_each(kinds)
    leader = leaders[kinds]
    judged = words[_WORDS]
    unlike = (judged ^ judged[:, leader]) & _COMPARED[:, kinds]
    if np.count_nonzero(unlike) or np.count_nonzero(lengths != lengths[leader]):
        return None
    verdicts = np.zeros((len(Kind), len(Verdict._fields)), np.int32)
    present = set(kinds.tolist())
    for kind in present:
        verdicts[kind] = _verdict_of(int(leaders[kind]), frames, lengths, words, kind, own_address)
    return _block_mixed(frames, lengths, words, kinds, present, verdicts[kinds])


def _block_alike(
    frames: NDArray[np.uint8],
    lengths: NDArray[np.uint32],
    words: NDArray[np.uint32],
    kinds: NDArray[np.uint8],
    present: set[int],
    verdict: Verdict,
) -> JudgedBlock:
    """Build the block whose rows all have this verdict."""
    count = len(kinds)
    return JudgedBlock(
        words=words,
        frames=frames,
        lengths=lengths.astype(np.int32),
        kinds=kinds,
        lowest_kind=min(present),
        highest_kind=max(present),
        trimmed=_shared(verdict.trimmed, count, np.bool_),
        trimmed_lasthop=_shared(verdict.trimmed_lasthop, count, np.bool_),
        payload_start=_shared(verdict.payload_start, count, np.int32),
        payload_end=_shared(verdict.payload_end, count, np.int32),
        reasons=filled(verdict.reason, count, np.uint8),
        verdict=verdict,
    )


def _block_mixed(
    frames: NDArray[np.uint8],
    lengths: NDArray[np.uint32],
    words: NDArray[np.uint32],
    kinds: NDArray[np.uint8],
    present: set[int],
    verdicts: NDArray[np.int32],
) -> JudgedBlock:
    """Build the block of (n, 5) verdicts."""
    trimmed, lasthop, payload_start, payload_end, reasons = verdicts.T
    return JudgedBlock(
        words=words,
        frames=frames,
        lengths=lengths.astype(np.int32),
        kinds=kinds,
        lowest_kind=min(present),
        highest_kind=max(present),
        trimmed=trimmed.astype(np.bool_),
        trimmed_lasthop=lasthop.astype(np.bool_),
        payload_start=payload_start,
        payload_end=payload_end,
        reasons=reasons.astype(np.uint8),
    )


def _first_of_each(kinds: NDArray[np.uint8]) -> NDArray[np.intp]:
    """Return the first row of each kind, by kind, `(len(Kind),)`; 0 for a kind that is absent."""
    first = np.zeros(len(Kind), np.intp)
    # Of equal indices the last assignment counts.
    first[kinds[::-1]] = np.arange(len(kinds) - 1, -1, -1)
    return first


@lru_cache(maxsize=256)
def _shared(value: int, count: int, dtype: type[T]) -> NDArray[T]:
    """Return `filled`, cached for the next block of that size; read-only."""
    column = filled(value, count, dtype)
    column.flags.writeable = False
    return column


def _verdict_of(
    row: int,
    frames: NDArray[np.uint8],
    lengths: NDArray[np.uint32],
    words: NDArray[np.uint32],
    kind: int,
    own_address: bytes,
) -> Verdict:
    """Return the verdict on one row."""
    judged = (words[:, row] & _REMEMBERED[kind]).astype(">u4")
    return verdict_on(judged.tobytes(), int(lengths[row]), frames.shape[1], own_address)


@lru_cache(maxsize=4096)
def verdict_on(judged: bytes, length: int, columns: int, own_address: bytes) -> Verdict:
    """Return the cached verdict on a row of `length` bytes in a block `columns` wide, by its kind's JUDGED_BITS.

    `judged` are those of the header bytes after WORD_LEAD_BYTES, zero elsewhere.
    """
    frames = np.zeros((1, columns), np.uint8)
    words = np.frombuffer(judged, ">u4").astype(np.uint32)[:, np.newaxis]
    block = judge_words(frames, np.array([length], np.uint32), words, own_address)
    return Verdict(
        trimmed=bool(block.trimmed[0]),
        trimmed_lasthop=bool(block.trimmed_lasthop[0]),
        payload_start=int(block.payload_start[0]),
        payload_end=int(block.payload_end[0]),
        reason=int(block.reasons[0]),
    )


def _masks(with_opcode: bool) -> NDArray[np.uint32]:
    """Return the checked bits by word and kind, `(38, len(Kind))`, with or without the opcode."""
    masks = np.zeros(((SACK_FRAME.itemsize - WORD_LEAD_BYTES) // 4, len(Kind)), np.uint32)
    for word, bits in _JUDGED:
        masks[word] |= bits
    for word, bits in _JUDGED_IN_SACKS:
        masks[word, Kind.SACK] |= bits
    for rule in FIELD_RULES:
        masks[rule.bits.word, rule.kind] |= (1 << rule.bits.width) - 1 << rule.bits.shift
    if not with_opcode:
        masks[word_of(BASE_FRAME, "bth", "opcode")] &= ~np.uint32(_OPCODE_BITS)
    return masks


_REMEMBERED = np.ascontiguousarray(_masks(with_opcode=True).T)
"""Checked bits by kind and word."""
JUDGED_BITS = [int.from_bytes(words.astype(">u4").tobytes()) for words in _REMEMBERED]
"""Bits on which a verdict depends, by kind: those of the header bytes after WORD_LEAD_BYTES as one number."""
_WORDS = np.flatnonzero(_REMEMBERED.any(axis=0))
"""Words in which any bit is checked."""
_COMPARED = _masks(with_opcode=False)[_WORDS]
"""Checked bits without the opcode: rows of one kind may differ in it, all rules treat them alike."""
