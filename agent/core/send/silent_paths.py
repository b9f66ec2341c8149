"""Silent paths: EV rows from which nothing comes back while others answer, until something arrives on them again.

A dead path gives no proof of loss, because no later packet on the same EV ever arrives. A path is silent once probes on
it had no answer, and enough packets and probes in a row are missing although others have overtaken them. Then all its
packets count as lost, and what is sent on it later is sent on another EV as well, at once, so that no window waits for
it. Knows neither states nor policies: a sender that uses the EV goes on using it. Our choice.
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
    """Silent paths of one queue pair, determined from what `flight` knows of its EV rows."""

    def __init__(self, flight: InFlight) -> None:
        count = len(flight.seen_order)
        self._flight = flight
        self._witnesses = min(WITNESSES, count - 1)
        self._until_order = np.full(count, -1, np.int64)
        """The row is silent until something sent at this position in transmission order, or later, has arrived."""
        self._given_up = np.zeros(count, np.int64)
        """Packets and probes that others have overtaken since the last arrival on the row."""
        self._seen_order = flight.seen_order.copy()
        self._any = False

    def rows(self) -> NDArray[np.bool_] | None:
        """Return (e,) whether each EV row is silent; None if none is."""
        if not self._any:
            return None
        silent = self._flight.seen_order < self._until_order
        self._any = bool(np.count_nonzero(silent))
        return silent if self._any else None

    def on_lost(self, evs: NDArray[np.uint16] | NDArray[np.int64]) -> NDArray[np.int64]:
        """Count packets on (m,) EV rows that others have overtaken and that were given up.

        Return the count in a row, (e,).
        """
        self._follow()
        self._given_up += np.bincount(evs, minlength=len(self._given_up))
        return self._given_up

    def overtaken(self, before_ns: int, missing: NDArray[np.bool_] | None) -> NDArray[np.int64]:
        """Count, (e,) per row, `missing` packets in flight since `before_ns` that only other rows have overtaken."""
        return self._flight.overtaken(self._heard_order(), before_ns, missing)

    def on_unanswered(self, probes: Iterable[OutstandingProbe], missing: NDArray[np.bool_] | None) -> NDArray[np.int64]:
        """Process probes that were given up.

        Return (e,) packets and probes missing on their rows, 0 where no packet is.

        Only those that others have overtaken count; `missing` is what the newest SACK shows, as in
        `InFlight.infer_lost`. Rows with enough are silent from now on.
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
        """Return the position in transmission order up to which enough witnesses have arrivals.

        -1 without witnesses.
        """
        if not self._witnesses:
            return -1
        return int(np.partition(self._flight.seen_order, -self._witnesses)[-self._witnesses])

    def _follow(self) -> None:
        seen = self._flight.seen_order
        self._given_up[seen > self._seen_order] = 0
        self._seen_order = seen.copy()
