"""Reading of SACK columns: what had arrived, what was missing, and which SACK is the newest. MRC Table 7-14.

Bit i, least significant first, of a SACK with sack_offset o stands for PSN cack_psn + o + i. SACKs overtake one
another. One that counts fewer arrivals than a SACK already read shows what arrived, never what is missing. Knows no
EVs, timers or windows.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent.core.psn import offset_of
from agent.wire.array.columns import SackColumns
from agent.wire.constants import SACK_BITMAP_BITS as BITS

_Shown = tuple[NDArray[np.int64], NDArray[np.bool_]]
"""SACK bitmaps: first positions (r,) and bits (r, 64)."""


class SackNews(NamedTuple):
    """Contents of the valid SACKs of a drain. They are few, so what each says by itself is a list."""

    cols: SackColumns
    cack: list[int]
    """(r,) cumulative points."""
    newest: list[bool]
    """(r,) whether no SACK read so far counts more arrivals."""
    shown: _Shown | None
    base: int
    """Offset after the highest cumulative point."""

    def received(self, end: int) -> NDArray[np.bool_] | None:
        """Return which packets from `base` on some bitmap shows, (end - base,); None: none."""
        return None if self.shown is None else spread(*self.shown, end - self.base)

    def answered(self) -> list[int]:
        """Return the offsets of the packets they answer, (r,); meaningless for SACKs that answer a probe."""
        return [cack + offset for cack, offset in zip(self.cack, self.cols.ack_psn_offset.tolist(), strict=True)]


class SackReader:
    """Reads SACKs of one queue pair; remembers how many arrivals the newest counted."""

    def __init__(self, start_psn: int) -> None:
        self._start_psn = start_psn
        self._newest_received = 0
        self.known_received = 0
        """Arrivals known so far; the requester updates it."""
        self.read_count = 0
        self.stale = 0
        self.rejected = 0
        """SACKs that acknowledge packets never sent, or count more bytes than were sent."""

    def read(
        self,
        cols: SackColumns,
        base: int,
        end: int,
        possible_clock: Callable[[NDArray[np.uint32]], NDArray[np.bool_]] | None = None,
    ) -> SackNews | None:
        """Read (r,) SACKs, r >= 1, in order of arrival; None if none of them is valid.

        `possible_clock` reports which of (r,) byte clocks are possible; None: byte clocks are not used.
        """
        if possible_clock is not None:
            right = possible_clock(cols.rcvd_bytes)
            if np.count_nonzero(right) < len(right):
                self.rejected += len(right) - int(np.count_nonzero(right))
                cols = cols.take(right)
                if not len(cols):
                    return None
        # One iteration per SACK, here and in readers of the news.
        cack = [offset_of(psn, self._start_psn, base) for psn in cols.cack_psn.tolist()]
        received = [point + held + 1 for point, held in zip(cack, cols.ooo_count.tolist(), strict=True)]
        if max(received) > end:
            possible = [row for row, count in enumerate(received) if count <= end]
            self.rejected += len(received) - len(possible)
            if not possible:
                return None
            cols = cols.take(np.array(possible))
            cack, received = [cack[row] for row in possible], [received[row] for row in possible]
        self._newest_received = max(self._newest_received, *received)
        newest = [count == self._newest_received for count in received]
        self.read_count += len(newest)
        self.stale += newest.count(False)
        base = max(base, max(cack) + 1)
        return SackNews(cols, cack, newest, self._shown(cols, cack, base, end), base)

    def missing(self, news: SackNews, end: int) -> NDArray[np.bool_] | None:
        """Return which packets from `base` on had not arrived at the newest SACK, (m,); None: all unknown ones.

        Older SACKs do not count here: what they show as missing may have arrived since.
        """
        if self.known_received == self._newest_received:
            # We know as many arrivals as the responder had counted, so there were no others.
            return None
        if news.shown is None:
            missing = np.zeros(1, np.bool_)
        else:
            starts, bits = news.shown
            telling = np.array(news.newest) & bits.any(axis=1)
            missing = spread(starts[telling], ~bits[telling], end - news.base)
        # The PSN after the cumulative point is missing by definition.
        missing[:1] |= any(new and cack + 1 == news.base for new, cack in zip(news.newest, news.cack, strict=True))
        return missing

    @staticmethod
    def _shown(cols: SackColumns, cack: list[int], base: int, end: int) -> _Shown | None:
        """Return the bitmaps relative to `base`; None if they hold nothing above it, as when all arrives in order."""
        if base == end or not np.count_nonzero(cols.ooo_count):
            return None
        return np.array(cack, np.int64) + cols.sack_offset - base, bits_of(cols.bitmap)


def bits_of(bitmaps: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Unpack (r,) bitmaps to (r, 64) booleans, least significant bit first."""
    flat = np.unpackbits(bitmaps.astype("<u8", copy=False).view(np.uint8), bitorder="little")
    return flat.view(np.bool_).reshape(-1, BITS)


def spread(starts: NDArray[np.int64], bits: NDArray[np.bool_], span: int) -> NDArray[np.bool_]:
    """Unite r rows of 64 bits, row i starting at position `starts[i]`, within positions 0 .. span - 1, (span,)."""
    # A margin of one row on both sides takes what lies outside, so no bit needs a bounds check.
    wide = np.zeros(span + 2 * BITS, np.bool_)
    places = np.minimum(np.maximum(starts, -BITS), span)
    places += BITS
    # One iteration per SACK, not per packet; for the few SACKs of a drain this is faster than indexing bit by bit.
    for place, row in zip(places.tolist(), bits, strict=True):
        wide[place : place + BITS] |= row
    return wide[BITS : BITS + span]
