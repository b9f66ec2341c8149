"""SACK columns to facts: what had arrived, what was missing, and which of the SACKs is the newest. MRC Table 7-14.

SACKs overtake one another. One that counts fewer arrivals than another already read tells what arrived, never what is
missing. Refuses to know EVs, timers and windows.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent.core.psn import offsets_of
from agent.core.sack import bits_of, spread
from agent.wire.columns import SackColumns

_Shown = tuple[NDArray[np.int64], NDArray[np.bool_]]
"""SACK bitmaps: first positions (r,) and bits (r, 64)."""


class SackNews(NamedTuple):
    """What the possible ones of the SACKs of a drain say."""

    cols: SackColumns
    cack: NDArray[np.int64]
    """(r,) cumulative points."""
    newest: NDArray[np.bool_]
    """(r,) whether no SACK read so far counts more arrivals."""
    shown: _Shown | None
    base: int
    """Offset after the highest cumulative point."""

    def received(self, end: int) -> NDArray[np.bool_] | None:
        """Which packets from `base` on some bitmap shows, (end - base,); None: none."""
        return None if self.shown is None else spread(*self.shown, end - self.base)


class SackReader:
    """Reads one queue pair's SACKs; remembers how new the newest was."""

    def __init__(self, start_psn: int) -> None:
        self._start_psn = start_psn
        self._newest_received = 0
        self.known_received = 0
        """Arrivals we know of; the requester keeps it."""
        self.read_count = 0
        self.stale = 0
        self.rejected = 0
        """They acknowledge what was never sent."""

    def read(self, cols: SackColumns, base: int, end: int) -> SackNews | None:
        """The news of (r,) SACKs, r >= 1, in order of arrival; None if none of them is possible."""
        cack = offsets_of(cols.cack_psn, self._start_psn, base)
        received = cack + cols.ooo_count
        received += 1
        if int(np.maximum.reduce(received)) > end:
            possible = received <= end
            self.rejected += int(len(possible) - np.count_nonzero(possible))
            cols, cack, received = cols.take(possible), cack[possible], received[possible]
            if not len(cack):
                return None
        self._newest_received = max(self._newest_received, int(np.maximum.reduce(received)))
        newest = received == self._newest_received
        self.read_count += len(received)
        self.stale += len(received) - int(np.count_nonzero(newest))
        base = max(base, int(np.maximum.reduce(cack)) + 1)
        return SackNews(cols, cack, newest, self._shown(cols, cack, base, end), base)

    def missing(self, news: SackNews, end: int) -> NDArray[np.bool_] | None:
        """Which packets from `base` on had not arrived when the newest SACK was written, (m,); None: all unknown ones.

        Older SACKs tell nothing here: what they show as missing may have arrived since.
        """
        if self.known_received == self._newest_received:
            # We know of as many arrivals as the responder had counted, so there were no others.
            return None
        if news.shown is None:
            missing = np.zeros(1, np.bool_)
        else:
            starts, bits = news.shown
            telling = news.newest & bits.any(axis=1)
            missing = spread(starts[telling], ~bits[telling], end - news.base)
        # The PSN after the cumulative point is missing by definition.
        missing[:1] |= bool(np.count_nonzero(news.newest & (news.cack + 1 == news.base)))
        return missing

    @staticmethod
    def _shown(cols: SackColumns, cack: NDArray[np.int64], base: int, end: int) -> _Shown | None:
        """The bitmaps relative to `base`; None if they hold nothing above it, as while all arrives in order."""
        if base == end or not np.count_nonzero(cols.ooo_count):
            return None
        starts = cack + cols.sack_offset
        starts -= base
        return starts, bits_of(cols.bitmap)
