"""When a closed flow has settled: barriers in on all paths, or paths of which nothing more has come for long.

Its clock is an argument. A barrier is the path's own copy of the closing announcement; a path that lost all copies has
none, and is given up when it has been quiet.
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
        """With all barriers in: for what a path that does not keep order still brings."""
        self._quiet_ns = quiet_ns
        """Without: for what waits in a queue."""
        self._last: dict[tuple[int, int], _Last] = {}

    def has_settled(
        self, key: tuple[int, int], counts: NDArray[np.int64], barriers: NDArray[np.bool_], now_ns: int
    ) -> bool:
        """Whether a closed flow with these (k,) counts and barriers will hardly get more. To be asked at every poll."""
        state = counts.tobytes() + barriers.tobytes()
        last = self._last.get(key)
        if last is None or last.state != state:
            self._last[key] = _Last(state, now_ns)
            return False
        return now_ns - last.since_ns >= (self._settle_ns if barriers.all() else self._quiet_ns)

    def forget(self, key: tuple[int, int]) -> None:
        """The flow is erased."""
        self._last.pop(key, None)
