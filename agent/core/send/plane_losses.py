"""Detect planes that lose far more than the others on all paths: a fault of a host's own link, or of a leaf.

Choosing other EVs does not help there: an EV retired for such losses is soon revived, and its replacements lose as
much. In MRC a NIC port that loses is the operator's matter (MRC paper); here it is detected, reported and, if so
configured, avoided. Our choice.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent.core.counters import EvCounters
from agent.core.ev.profile import EvProfile

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
