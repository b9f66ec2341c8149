"""Arrivals at a responder: the ring of received packets, the counts and bitmaps that a SACK carries, and reordering.

The ring has slots from the cumulative point on; it knows offsets, not headers or memory. A bitmap has 64 bits, least
significant first; an all-zero bitmap has no meaning; the PSN after the cumulative point is missing by definition. MRC
Tables 7-5, 7-14.

The reordering histogram shows how far first transmissions arrive behind the packets that overtook them. RFC 4737,
section 4.2: the extent of a reordered packet, the i-th to arrive, is i - j, where the j-th is the first arrival with a
higher number. Only first transmissions count, each PSN once; retransmissions are late because of a loss. "Arrives"
means read by the agent, which reads its ports in turn, many frames at a time.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent.core.congestion.interface import NOMINAL_HEADER_BYTES
from agent.core.psn import read_run, ring_size, write_run
from agent.wire.constants import BTH_RETRANSMISSION, OOO_COUNT_MAX, RCVD_BYTES_MASK, RCVD_BYTES_UNIT
from agent.wire.constants import SACK_BITMAP_BITS as BITS

EMPTY, NEWS, REPORTED = 0, 1, 2
"""Values of a receive ring: nothing, received, received and shown in a SACK."""


class Bitmaps(NamedTuple):
    """Bitmaps of r blocks of 64 PSNs, (r,) each."""

    starts: NDArray[np.int64]
    """PSNs between the cumulative point + 1 and the block's first; multiples of 64."""
    bits: NDArray[np.uint64]


_EMPTY = np.array(EMPTY, np.uint8)
_NO_BITMAPS = Bitmaps(np.zeros(1, np.int64), np.zeros(1, np.uint64))
"""One empty block, used while nothing is held above the cumulative point."""


class ReceiveRing:
    """Records each offset once; offsets up to `window_psns` above the cumulative point fit."""

    def __init__(self, window_psns: int) -> None:
        self._ring = np.zeros(ring_size(window_psns), np.uint8)
        self._slots = np.array(len(self._ring) - 1, np.int64)
        self._row_of_slot = np.zeros(len(self._ring), np.int32)
        self._nominal_bytes = 0
        self._walk = 0
        self.next = 0
        """Offset after the cumulative point."""
        self.top = 0
        """Offset after the highest received."""
        self.received = 0
        """Number of packets recorded."""

    @property
    def size(self) -> int:
        """Return the number of slots, a power of two."""
        return len(self._ring)

    @property
    def held(self) -> int:
        """Count the packets above the cumulative point."""
        return self.received - self.next

    @property
    def ooo_count(self) -> int:
        """Return `held` as a SACK carries it."""
        return min(self.held, OOO_COUNT_MAX)

    @property
    def rcvd_bytes(self) -> int:
        """Return nominal bytes received as a SACK carries them: units of 256, 24 bits."""
        return -(-self._nominal_bytes // RCVD_BYTES_UNIT) & RCVD_BYTES_MASK

    def fresh(self, offsets: NDArray[np.int64], candidates: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Report which candidate rows (n,) bring a new packet; of equal ones only the last counts."""
        slots = offsets & self._slots
        rows = np.arange(len(offsets), dtype=np.int32)
        fresh: NDArray[np.bool_] = candidates & (self._ring[slots] == _EMPTY)
        if np.count_nonzero(fresh) < len(fresh):
            slots, rows = slots[fresh], rows[fresh]
        self._row_of_slot[slots] = rows
        fresh[rows] = self._row_of_slot[slots] == rows
        return fresh

    def enter(self, offsets: NDArray[np.int64], payload_bytes: int) -> None:
        """Mark (m,) new packets, m >= 1, of `payload_bytes` together as held, and move the cumulative point."""
        self._ring[offsets & self._slots] = NEWS
        self.received += len(offsets)
        self._nominal_bytes += payload_bytes + NOMINAL_HEADER_BYTES * len(offsets)
        self.top = max(self.top, int(offsets[offsets.argmax()]) + 1)
        held = read_run(self._ring, self.next, self.top)
        gaps = held == _EMPTY
        first_gap = int(gaps.argmax())
        filled = first_gap if gaps[first_gap] else len(held)
        write_run(self._ring, self.next, self.next + filled, EMPTY)
        self.next += filled

    def bitmaps(self) -> Bitmaps:
        """Build bitmaps of what is held, including all news; the next call repeats another part of the rest."""
        if self.top == self.next:
            self._walk = 0
            return _NO_BITMAPS
        held = read_run(self._ring, self.next, self.top)
        bitmaps = bitmaps_of(held, self._walk)
        self._walk += 1
        write_run(self._ring, self.next, self.top, np.minimum(held, 1) * np.uint8(REPORTED))
        return bitmaps


def bitmaps_of(held: NDArray[np.uint8], walk: int) -> Bitmaps:
    """Build bitmaps that show all news in `held`, (n,) ring slots from the cumulative point + 1 on, n >= 1.

    One more block is shown, number `walk` of the non-empty ones, in turn: a SACK may be lost, and this repeats all
    blocks over time (MRC: successive SACKs slide the base). An empty block would be an all-zero bitmap, which has no
    meaning.
    """
    blocks = -(-len(held) // BITS)
    grid = np.zeros((blocks, BITS), np.uint8)
    grid.reshape(-1)[: len(held)] = held
    shown = (grid == NEWS).any(axis=1)
    holding = (grid != EMPTY).any(axis=1).nonzero()[0]
    shown[holding[walk % len(holding)]] = True
    chosen = shown.nonzero()[0]
    packed = np.packbits(grid[chosen] != EMPTY, axis=1, bitorder="little")
    return Bitmaps(chosen * BITS, packed.view("<u8")[:, 0].astype(np.uint64, copy=False))


_BULK_PKTS = 2048
"""Packets processed together. Our choice: a few nanoseconds per packet; processing each batch would cost ten times as
much."""

_BUCKETS = 17
"""Number of buckets: in order, and extents of up to 16 bits, since no window of PSNs exceeds 32640."""


@dataclass(frozen=True, slots=True)
class ReorderCounts:
    """First transmissions that arrived before any retransmission of them, by reordering extent."""

    in_order: int
    """Packets that arrived before everything sent later."""
    late: tuple[int, ...]
    """`late[b]` counts extents 2^b .. 2^(b+1) - 1; without zeros at the end."""
    most: int
    """The largest extent; 0 if all packets arrived in order."""


class Reordering:
    """Counts the arrivals of one responder; offsets are those of the receive ring."""

    def __init__(self, window_psns: int) -> None:
        self._slots = ring_size(window_psns + _BULK_PKTS)
        self._passed_at = np.empty(0, np.int64)
        """Per slot of an offset: the arrival that first passed it."""
        self._offsets: list[NDArray[np.int64]] = []
        self._flags: list[NDArray[np.uint8]] = []
        self._waiting = 0
        self._arrived = 0
        self._top = 0
        """Offset after the highest that arrived."""
        self._counts = np.zeros(_BUCKETS, np.int64)
        self._most = 0

    def note(self, offsets: NDArray[np.int64], flags: NDArray[np.uint8]) -> None:
        """Record new packets at (m,) offsets with their BTH flags, in order of arrival.

        `offsets` is kept, not copied.
        """
        self._offsets.append(offsets)
        self._flags.append(flags.copy())
        self._waiting += len(offsets)
        if self._waiting >= _BULK_PKTS:
            self._count()

    def counts(self) -> ReorderCounts:
        """Return the histogram so far."""
        if self._waiting:
            self._count()
        late = np.trim_zeros(self._counts[1:], "b")
        return ReorderCounts(int(self._counts[0]), tuple(late.tolist()), self._most)

    def _count(self) -> None:
        offsets, flags = np.concatenate(self._offsets), np.concatenate(self._flags)
        self._offsets, self._flags, self._waiting = [], [], 0
        # In pieces: what a piece still misses and what it passes must fit the ring together.
        for start in range(0, len(offsets), _BULK_PKTS):
            piece = slice(start, start + _BULK_PKTS)
            first = offsets[piece][flags[piece] & BTH_RETRANSMISSION == 0]
            if len(first):
                self._count_piece(first)

    def _count_piece(self, offsets: NDArray[np.int64]) -> None:
        if not len(self._passed_at):
            self._passed_at = np.zeros(self._slots, np.int64)
        arrivals = np.arange(self._arrived, self._arrived + len(offsets))
        tops = np.maximum(np.maximum.accumulate(offsets) + 1, self._top)
        grown = np.diff(tops, prepend=self._top)
        write_run(self._passed_at, self._top, int(tops[-1]), np.repeat(arrivals, grown))
        late = grown == 0
        extents = arrivals[late] - self._passed_at[offsets[late] & (self._slots - 1)]
        self._counts[0] += len(offsets) - len(extents)
        if len(extents):
            self._most = max(self._most, int(extents.max()))
            # The exponent of a float is the bit length of an integer.
            self._counts += np.bincount(np.frexp(extents)[1], minlength=_BUCKETS)
        self._arrived += len(offsets)
        self._top = int(tops[-1])
