"""Reordering histogram: how far first transmissions arrive behind the packets that overtook them.

RFC 4737, section 4.2: the extent of a reordered packet, the i-th to arrive, is i - j, where the j-th is the first
arrival with a higher number. Only first transmissions count, each PSN once; retransmissions are late because of a loss.
"Arrives" means read by the agent, which reads its ports in turn, many frames at a time.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agent.core.psn import ring_size, write_run
from agent.wire.constants import BTH_RETRANSMISSION

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
