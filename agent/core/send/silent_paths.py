"""Paths from which nothing comes back while others answer: each EV row that is silent, until it is heard of again.

A dead path proves nothing: no later packet on the same EV ever arrives. It is silent once probes on it were without
answer, and so many packets and probes in a row are missing although others have overtaken them. All its packets are
lost then, and what is sent on it later is sent on another EV as well, at once, so that no window waits for it. Knows
neither states nor policies: whoever uses the EV goes on using it. Our choice.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from agent.core.outstanding_probes import OutstandingProbe
from agent.core.send.inflight import InFlight

WITNESSES = 2
"""Other EVs on which something sent later must have arrived. Our choice: one of two may be a copy of the dead path."""

ENOUGH = 8
"""Packets and probes without answer in a row. Our choice: at 20 % loss 3 of a million rows of eight are all lost."""


class SilentPaths:
    """Of one queue pair, judged by what `flight` knows of its EV rows."""

    def __init__(self, flight: InFlight) -> None:
        count = len(flight.seen_order)
        self._flight = flight
        self._witnesses = min(WITNESSES, count - 1)
        self._until_order = np.full(count, -1, np.int64)
        """Silent until something sent at this place in the order, or later, has arrived."""
        self._given_up = np.zeros(count, np.int64)
        """Packets and probes that others have overtaken, since something was last heard of the row."""
        self._seen_order = flight.seen_order.copy()
        self._any = False

    def rows(self) -> NDArray[np.bool_] | None:
        """(e,) whether each EV row is silent; None if none is."""
        if not self._any:
            return None
        silent = self._flight.seen_order < self._until_order
        self._any = bool(np.count_nonzero(silent))
        return silent if self._any else None

    def on_lost(self, evs: NDArray[np.uint16] | NDArray[np.int64]) -> NDArray[np.int64]:
        """Packets on (m,) EV rows, which others have overtaken, were given up; (e,) how many in a row on each."""
        self._follow()
        self._given_up += np.bincount(evs, minlength=len(self._given_up))
        return self._given_up

    def overtaken(self, before_ns: int, missing: NDArray[np.bool_] | None) -> NDArray[np.int64]:
        """(e,) packets in flight since `before_ns`, explicitly `missing`, with later arrivals on other rows only."""
        return self._flight.overtaken(self._heard_order(), before_ns, missing)

    def on_unanswered(self, probes: Iterable[OutstandingProbe], missing: NDArray[np.bool_] | None) -> NDArray[np.int64]:
        """Probes were given up: (e,) how many packets and probes are missing on their rows, 0 where no packet is.

        Those count that others have overtaken; `missing` is what the newest SACK shows, as in `InFlight.infer_lost`.
        Rows with enough are silent from now on.
        """
        self._follow()
        counts = np.zeros(len(self._given_up), np.int64)
        heard = self._heard_order()
        asked = [each for each in probes if each.tag < heard]
        if not asked:
            return counts
        waiting = self.overtaken(min(each.sent_ns for each in asked), missing)
        rows = np.array([each.row for each in asked], np.int64)
        rows = rows[self._given_up[rows] + waiting[rows] > 0]
        self.on_lost(rows)
        counts[rows] = self._given_up[rows] + waiting[rows]
        silent = counts >= ENOUGH
        self._until_order[silent] = self._flight.seen_order[silent] + 1
        self._any |= bool(np.count_nonzero(silent))
        return counts

    def _heard_order(self) -> int:
        """Witnesses know of something that was sent at this place in the order, or later; -1 without any."""
        if not self._witnesses:
            return -1
        return int(np.partition(self._flight.seen_order, -self._witnesses)[-self._witnesses])

    def _follow(self) -> None:
        seen = self._flight.seen_order
        self._given_up[seen > self._seen_order] = 0
        self._seen_order = seen.copy()
