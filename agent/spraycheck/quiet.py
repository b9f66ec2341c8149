"""How long a flow's counts have stood still, by which it is known that hardly more will come.

Its clock is an argument. A flow that its sender has closed has barriers: each path's own copy of the closing
announcement. A path that lost all copies has none, and is given up when it has been quiet.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(slots=True)
class _Last:
    state: bytes
    since_ns: int


class Quiet:
    """How long each flow's counts have stood still."""

    def __init__(self, settle_ns: int, quiet_ns: int) -> None:
        self._settle_ns = settle_ns
        """For what a path that does not keep order still brings, or one that is slower than the others."""
        self._quiet_ns = quiet_ns
        """For what waits in a queue, on a path without a barrier."""
        self._last: dict[tuple[tuple[int, int], bool], _Last] = {}

    def has_stopped(self, key: tuple[int, int], late: NDArray[np.int64], stopped_ns: int, now_ns: int) -> bool:
        """Whether a flow whose last PSN came at `stopped_ns`, and (k,) packets since, will hardly get more.

        To be asked at every poll.
        """
        since_ns = self._still_since((key, False), late.tobytes(), now_ns if late.any() else stopped_ns)
        return now_ns - since_ns >= self._settle_ns

    def has_settled(
        self, key: tuple[int, int], counts: NDArray[np.int64], barriers: NDArray[np.bool_], now_ns: int
    ) -> bool:
        """Whether a closed flow with these (k,) counts and barriers will hardly get more. To be asked at every poll."""
        since_ns = self._still_since((key, True), counts.tobytes() + barriers.tobytes(), now_ns)
        return now_ns - since_ns >= (self._settle_ns if barriers.all() else self._quiet_ns)

    def _still_since(self, flow: tuple[tuple[int, int], bool], state: bytes, changed_ns: int) -> int:
        """Since when the state has been the same; if it is not that of the last poll, since `changed_ns`."""
        last = self._last.get(flow)
        if last is None or last.state != state:
            last = self._last[flow] = _Last(state, changed_ns)
        return last.since_ns

    def forget(self, key: tuple[int, int]) -> None:
        """The flow is erased."""
        for closed in (False, True):
            self._last.pop((key, closed), None)
