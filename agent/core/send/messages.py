"""Posted writes and their segmentation, and the first transmissions per EV of watched flows.

Each message is a table row, not an object; rows leave when their message completes. A message's number (its work
request) counts from 0, and its low 16 bits are the MSN; immediates have their own count, the RQMSN. MRC 6.2.2, 7.5.

A sender declares what a flow sent per EV when the flow has left. It counts what was sent, not what was planned, so it
holds whatever happens to EVs and ports meanwhile.
"""

from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agent.core.errors import RegionError
from agent.wire.constants import Opcode

_LENGTH, _VA, _RKEY, _OFFSET, _SOURCE, _NUMBER = range(6)
_COLUMNS = 6
_IMM, _RQMSN = range(2)
_NO_IMM = -1
_INITIAL_ROWS = 16

_OPCODES = np.array([[Opcode.WRITE_MIDDLE, Opcode.WRITE_LAST], [Opcode.WRITE_FIRST, Opcode.WRITE_ONLY]], np.uint8)
"""Opcode by whether a packet is the first, and whether the last, of its message."""

_NOWHERE = np.array(0, np.int64)
"""Bytes of its message before the first packet."""

_WITH_IMM = np.uint8(Opcode.WRITE_LAST_IMM - Opcode.WRITE_LAST)
"""Difference between the opcodes of a last or only packet with and without an immediate."""


@dataclass(frozen=True, slots=True, eq=False)
class Segments:
    """Packets to send for n offsets of one source, (n,) each; the names are those of WriteBatch."""

    opcode: NDArray[np.uint8]
    msn: NDArray[np.uint16]
    va: NDArray[np.uint64]
    rkey: NDArray[np.uint32]
    dmalen: NDArray[np.uint32]
    source_offset: NDArray[np.int64]
    payload_bytes: NDArray[np.uint32]
    source: NDArray[np.uint8]
    rqmsn: NDArray[np.uint16]
    imm: NDArray[np.uint32] | None
    """Immediate data; None if no packet carries any."""

    def __len__(self) -> int:
        """Count the packets."""
        return len(self.opcode)


class MessageTable:
    """Messages posted and not yet complete, in post order, and the packet offsets they occupy."""

    def __init__(self, pmtu: int) -> None:
        self._pmtu = pmtu
        self._full = np.array(pmtu, np.int64)
        # First and last offsets are searched, so each has its own array.
        self._first = np.zeros(_INITIAL_ROWS, np.int64)
        self._last = np.zeros(_INITIAL_ROWS, np.int64)
        self._rows = np.zeros((_INITIAL_ROWS, _COLUMNS), np.int64)
        self._imms = np.zeros((_INITIAL_ROWS, 2), np.int64)
        self._head = 0
        self._tail = 0
        self._sources: list[NDArray[np.uint8]] = []
        self._immediates: deque[tuple[int, int]] = deque()
        """First and last offset of each incomplete message with an immediate."""
        self._immediates_posted = 0
        self.posted = 0
        self.completed = 0
        self.end = 0
        """Offset after the last posted packet."""
        self.posted_bytes = 0
        self.completed_bytes = 0

    def post(
        self,
        source: NDArray[np.uint8],
        offset: int,
        length: int,
        va: int,
        rkey: int,
        message_bytes: int,
        imm: int | None = None,
    ) -> range:
        """Post `source[offset:offset + length]`, (length,), to `va` in messages of `message_bytes`.

        Return their numbers.

        The last message takes the remainder; with `imm` each is a Write-with-Immediate. Raises RegionError if the bytes
        are not inside `source`, a message does not have 1 .. 2^32 - 1 bytes, or the remote addresses exceed 64 bits.
        """
        self._check(len(source), offset, length, va, rkey, message_bytes)
        if imm is not None and not 0 <= imm < 1 << 32:
            raise RegionError(f"immediate {imm:#x} does not fit 32 bits")
        count = -(-length // message_bytes)
        self._make_room(count)
        start = np.arange(0, count * message_bytes, message_bytes)
        last_bytes, pkts = length - (count - 1) * message_bytes, self._packets(message_bytes)
        new = slice(self._tail, self._tail + count)
        first, last, rows = self._first[new], self._last[new], self._rows[new]
        first[:] = np.arange(self.end, self.end + count * pkts, pkts)
        last[:-1] = first[1:] - 1
        last[-1] = first[-1] + self._packets(last_bytes) - 1
        rows[:, _LENGTH] = message_bytes
        rows[-1, _LENGTH] = last_bytes
        rows[:, _VA] = (start.view(np.uint64) + np.array(va, np.uint64)).view(np.int64)
        rows[:, _RKEY] = rkey
        rows[:, _OFFSET] = start + offset
        rows[:, _SOURCE] = self._source_number(source)
        rows[:, _NUMBER] = np.arange(self.posted, self.posted + count)
        self._imms[new, _IMM] = _NO_IMM
        if imm is not None:
            self._imms[new, _IMM] = imm
            self._imms[new, _RQMSN] = np.arange(self._immediates_posted, self._immediates_posted + count)
            self._immediates_posted += count
            self._immediates.extend(zip(first.tolist(), last.tolist(), strict=True))
        self._tail += count
        self.end = int(last[-1]) + 1
        self.posted_bytes += length
        numbers = range(self.posted, self.posted + count)
        self.posted += count
        return numbers

    def segments(self, offsets: NDArray[np.int64]) -> Segments:
        """Return packets at (n,) offsets, n >= 1, all posted and incomplete; cut before the first of another source."""
        message = self._first[self._head : self._tail].searchsorted(offsets, side="right") + (self._head - 1)
        rows = self._rows.take(message, axis=0)
        if len(self._sources) > 1:
            other = rows[:, _SOURCE] != rows[0, _SOURCE]
            if np.count_nonzero(other):
                cut = int(other.argmax())
                message, rows, offsets = message[:cut], rows[:cut], offsets[:cut]
        length = rows[:, _LENGTH]
        into = offsets - self._first[message]
        is_first, is_last = into == _NOWHERE, offsets == self._last[message]
        into = into * self._full
        opcode = _OPCODES[is_first.view(np.int8), is_last.view(np.int8)]
        imm = None
        rqmsn = np.zeros(len(rows), np.uint16)
        if self._immediates:
            imms = self._imms[message]
            has_imm = imms[:, _IMM] != _NO_IMM
            opcode += _WITH_IMM * (is_last & has_imm)
            rqmsn[has_imm] = imms[has_imm, _RQMSN].astype(np.uint16)
            imm = imms[:, _IMM].astype(np.uint32)
        return Segments(
            opcode=opcode,
            msn=rows[:, _NUMBER].astype(np.uint16),
            va=(rows[:, _VA] + into).view(np.uint64),
            rkey=rows[:, _RKEY].astype(np.uint32),
            dmalen=length.astype(np.uint32),
            source_offset=rows[:, _OFFSET] + into,
            payload_bytes=np.minimum(length - into, self._full).astype(np.uint32),
            source=self._sources[int(rows[0, _SOURCE])],
            rqmsn=rqmsn,
            imm=imm,
        )

    def end_within(self, immediates: int) -> int:
        """Return the offset up to which packets may be sent with this many immediates in flight."""
        return self._immediates[immediates][0] if len(self._immediates) > immediates else self.end

    @property
    def first_incomplete(self) -> int:
        """Return the offset where the oldest incomplete message starts; that of the next packet if all are complete."""
        return int(self._first[self._head]) if self._head < self._tail else self.end

    def has_ended_below(self, offset: int) -> bool:
        """Report whether some incomplete message has all its packets below `offset`."""
        return self._head < self._tail and int(self._last[self._head]) < offset

    def complete_below(self, offset: int) -> tuple[int, int, int]:
        """Remove the messages that end before `offset`: (number of the first, how many, their bytes)."""
        if self._head == self._tail or self._last[self._head] >= offset:
            return self.completed, 0, 0
        count = int(self._last[self._head : self._tail].searchsorted(offset))
        first, length = self.completed, int(self._rows[self._head : self._head + count, _LENGTH].sum())
        self._head += count
        self.completed += count
        self.completed_bytes += length
        while self._immediates and self._immediates[0][1] < offset:
            self._immediates.popleft()
        if self._head == self._tail:
            self.release()
        return first, count, length

    def release(self) -> None:
        """Release the source memory: nothing posted will be sent again."""
        self._sources.clear()

    def bytes_below(self, offset: int) -> int:
        """Count posted bytes in packets before `offset`, which must not be below the first incomplete message."""
        if self._head == self._tail:
            return self.completed_bytes
        ended = int(self._last[self._head : self._tail].searchsorted(offset))
        whole = int(self._rows[self._head : self._head + ended, _LENGTH].sum()) if ended else 0
        if self._head + ended == self._tail:
            return self.completed_bytes + whole
        return self.completed_bytes + whole + (offset - int(self._first[self._head + ended])) * self._pmtu

    def _packets(self, length: int) -> int:
        return -(-length // self._pmtu)

    def _make_room(self, count: int) -> None:
        if self._tail + count <= len(self._rows):
            return
        live = self._tail - self._head
        size = len(self._rows)
        if live + count > size // 2:
            size = max(2 * size, live + count)
        live_rows = slice(self._head, self._tail)
        self._first = _moved(self._first[live_rows], size)
        self._last = _moved(self._last[live_rows], size)
        self._rows = _moved(self._rows[live_rows], size)
        self._imms = _moved(self._imms[live_rows], size)
        self._head, self._tail = 0, live

    def _source_number(self, source: NDArray[np.uint8]) -> int:
        for number, known in enumerate(self._sources):
            if known is source:
                return number
        self._sources.append(source)
        return len(self._sources) - 1

    @staticmethod
    def _check(size: int, offset: int, length: int, va: int, rkey: int, message_bytes: int) -> None:
        if offset < 0 or length < 1 or offset + length > size:
            raise RegionError(f"bytes {offset}..{offset + length - 1} are not inside a region of {size}")
        if not 1 <= message_bytes < 1 << 32:
            raise RegionError(f"a message of {message_bytes} bytes, must be 1..{(1 << 32) - 1}")
        if not 0 <= va <= (1 << 64) - length or not 0 <= rkey < 1 << 32:
            raise RegionError(f"remote address {va:#x} or key {rkey:#x} out of range")


def _moved(live: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Copy the live entries to the start of a larger array."""
    new = np.zeros((size, *live.shape[1:]), np.int64)
    new[: len(live)] = live
    return new


@dataclass(frozen=True, slots=True, eq=False)
class FlowShare:
    """A watched flow whose first transmissions have all left, or never will."""

    first: int
    """Offset of the flow's first packet."""
    tx_first: NDArray[np.int64]
    """(e,) first transmissions per EV row."""


@dataclass(slots=True, eq=False)
class _Watched:
    first: int
    end: int
    tx_first: NDArray[np.int64]


class FlowShares:
    """Watched flows of one queue pair, in the order of their offsets. Costs nothing while there is none."""

    def __init__(self, ev_count: int) -> None:
        self._ev_count = ev_count
        self._watched: deque[_Watched] = deque()
        self._ended: list[FlowShare] = []

    @property
    def watching(self) -> bool:
        """Report whether a watched flow is still leaving, or has left and was not collected."""
        return bool(self._watched or self._ended)

    def watch(self, first: int, packets: int) -> None:
        """Watch packets at offsets first .. first + packets - 1, not sent yet and behind all watched ones."""
        self._watched.append(_Watched(first, first + packets, np.zeros(self._ev_count, np.int64)))

    def record(self, first: int, ev_index: NDArray[np.uint16]) -> None:
        """Count packets from offset `first` on, sent for the first time on these (n,) EV rows; call it in order."""
        end = first + len(ev_index)
        # One iteration per flow that this batch touches: usually one.
        while self._watched and self._watched[0].first < end:
            flow = self._watched[0]
            rows = ev_index[max(flow.first - first, 0) : flow.end - first]
            flow.tx_first += np.bincount(rows, minlength=self._ev_count)
            if flow.end > end:
                return
            self._end(self._watched.popleft())

    def give_up(self) -> None:
        """End all watched flows with what has left: nothing more will be sent."""
        while self._watched:
            self._end(self._watched.popleft())

    def drain_ended(self) -> list[FlowShare]:
        """Remove and return the flows that ended since the last call, oldest first."""
        ended, self._ended = self._ended, []
        return ended

    def _end(self, flow: _Watched) -> None:
        self._ended.append(FlowShare(flow.first, flow.tx_first))
