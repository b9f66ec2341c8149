"""Silent paths and lossy planes of a requester, found from what is acknowledged and what is not. Our choice.

A path is silent while nothing comes back on its EV and others answer, until something arrives on it again. A dead path
gives no proof of loss, because no later packet on the same EV ever arrives. A path counts as silent once probes on it
had no answer, and enough packets and probes in a row are missing although others have overtaken them. Then all its
packets count as lost, and what is sent on it later is sent on another EV as well, at once, so that no window waits for
it.
`SilentPaths` knows neither states nor policies: a sender that uses the EV goes on using it.

A plane is lossy if it loses far more than the others on all paths: a fault of a host's own link, or of a leaf.
Choosing other EVs does not help there: an EV retired for such losses is soon revived, and its replacements lose as
much. In MRC a NIC port that loses is the operator's matter (MRC paper); here it is detected, reported and, if so
configured, avoided.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent.core.counters import EvCounters
from agent.core.ev.profile_sources import EvProfile
from agent.core.send.inflight import InFlight
from agent.core.timeouts import OutstandingProbe

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


_LEAST_LOST = 32
"""Least losses in a plane. Our choice: if eight EVs lose alike, one of them has no loss in a case of fifty."""

_LEAST_SHARE = 0.005
_TIMES_THE_OTHERS = 4
_EVS_SHARE = 0.75
"""Share of the plane's EVs that must have losses; with fewer, paths fail and not the plane. Our choice."""

_WINDOW_NS = 10_000_000_000
"""Losses further apart than this are not counted together. Our choice."""


class LossyPlane(NamedTuple):
    """Packet counts of one plane, and of all others, since the same moment."""

    plane: int
    lost: int
    packets: int
    """Packets lost and acknowledged."""
    others_lost: int
    others_packets: int


class PlaneLosses:
    """Compares the loss rates of one queue pair's planes from time to time."""

    def __init__(self, profile: EvProfile, evs: EvCounters) -> None:
        self._planes = profile.planes
        self._numbers = np.unique(profile.planes).tolist()
        self._evs = evs
        self._since_ns = 0
        self._lost_before, self._acked_before = self._lost(), evs.acked.copy()

    def judge(self, now_ns: int) -> list[LossyPlane]:
        """Return the lossy planes; call it after losses. Counts restart after enough losses, or after a long time."""
        lost = self._lost() - self._lost_before
        by_plane = np.bincount(self._planes, weights=lost, minlength=256).astype(np.int64)
        if by_plane.max() < _LEAST_LOST:
            if now_ns - self._since_ns > _WINDOW_NS:
                self._begin(now_ns)
            return []
        packets = lost + self._evs.acked - self._acked_before
        done = np.bincount(self._planes, weights=packets, minlength=256).astype(np.int64)
        found = [
            LossyPlane(plane, int(by_plane[plane]), int(done[plane]), int(lost.sum() - by_plane[plane]),
                       int(done.sum() - done[plane]))
            for plane in self._numbers
            if by_plane[plane] >= _LEAST_LOST and self._is_spread(lost, packets, plane)
        ]  # fmt: skip
        self._begin(now_ns)
        return [each for each in found if _is_far_more(each)]

    def _is_spread(self, lost: NDArray[np.int64], packets: NDArray[np.int64], plane: int) -> bool:
        used = (self._planes == plane) & (packets > 0)
        return int(np.count_nonzero(lost[used])) >= _EVS_SHARE * int(np.count_nonzero(used))

    def _lost(self) -> NDArray[np.int64]:
        return self._evs.lost + self._evs.timed_out

    def _begin(self, now_ns: int) -> None:
        self._since_ns = now_ns
        self._lost_before, self._acked_before = self._lost(), self._evs.acked.copy()


def _is_far_more(counted: LossyPlane) -> bool:
    share = counted.lost / counted.packets
    others = counted.others_lost / counted.others_packets if counted.others_packets else 0.0
    return counted.others_packets > 0 and share >= max(_LEAST_SHARE, _TIMES_THE_OTHERS * others)
