"""First transmissions by EV of the flows that are watched: what a sender declares when a flow has left.

Counts what was done, not what was planned, so it holds whatever happens to EVs and ports meanwhile.
"""

from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class FlowShare:
    """A watched flow of which all first transmissions have left, or will never leave."""

    first: int
    """Offset of its first packet."""
    tx_first: NDArray[np.int64]
    """(e,) first transmissions by EV row."""


@dataclass(slots=True, eq=False)
class _Watched:
    first: int
    end: int
    tx_first: NDArray[np.int64]


class FlowShares:
    """Watched flows of one queue pair, in the order of their offsets. Costs nothing while none is watched."""

    def __init__(self, ev_count: int) -> None:
        self._ev_count = ev_count
        self._watched: deque[_Watched] = deque()
        self._ended: list[FlowShare] = []

    @property
    def watching(self) -> bool:
        """Whether a watched flow has not left yet, or has and nobody asked for it."""
        return bool(self._watched or self._ended)

    def watch(self, first: int, packets: int) -> None:
        """Count the packets at offsets first .. first + packets - 1, none of them sent yet; after all watched ones."""
        self._watched.append(_Watched(first, first + packets, np.zeros(self._ev_count, np.int64)))

    def record(self, first: int, ev_index: NDArray[np.uint16]) -> None:
        """The packets from offset `first` on were sent for the first time, by these (n,) EV rows; in order."""
        end = first + len(ev_index)
        # One turn a flow that this batch touches: as a rule one.
        while self._watched and self._watched[0].first < end:
            flow = self._watched[0]
            rows = ev_index[max(flow.first - first, 0) : flow.end - first]
            flow.tx_first += np.bincount(rows, minlength=self._ev_count)
            if flow.end > end:
                return
            self._end(self._watched.popleft())

    def give_up(self) -> None:
        """Nothing more will be sent: all watched flows end with what has left."""
        while self._watched:
            self._end(self._watched.popleft())

    def drain_ended(self) -> list[FlowShare]:
        """The flows that ended since the last call, oldest first."""
        ended, self._ended = self._ended, []
        return ended

    def _end(self, flow: _Watched) -> None:
        self._ended.append(FlowShare(flow.first, flow.tx_first))
