"""First transmissions per EV of watched flows: what a sender declares when a flow has left.

It counts what was sent, not what was planned, so it holds whatever happens to EVs and ports meanwhile.
"""

from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


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
