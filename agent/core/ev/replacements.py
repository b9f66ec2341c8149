"""Values that a controller puts in place of others while a queue pair sends: each waits until its row is idle.

What is known of a row must belong to one path, because a later arrival on the same row proves a loss. MRC API.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from agent.core.ev.ev_set import EvSet
from agent.core.ev.profile import EvProfile
from agent.core.ev.state import EvState
from agent.core.events import Event, EvReplaced


class Replacements:
    """Owns the values of `profile`, which is the queue pair's own copy; `uses` reports whether a row is busy."""

    def __init__(
        self, profile: EvProfile, ev_set: EvSet, uses: Callable[[int], bool], report: Callable[[Event], None]
    ) -> None:
        self._profile = profile
        self._set = ev_set
        self._uses = uses
        self._report = report
        self._coming: dict[int, tuple[int, EvState]] = {}
        self._replaced: list[int] = []

    def __len__(self) -> int:
        """Count the replacements that wait."""
        return len(self._coming)

    def others(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return those of (m,) rows that wait for no value."""
        return np.setdiff1d(rows, list(self._coming)) if self._coming else rows

    def add(self, row: int, ev: int, state: EvState, now_ns: int) -> None:
        """Stop using a row until it has another value of its plane; then it continues in `state`."""
        self._coming[row] = (ev, state)
        self._set.set_states(np.array([row]), EvState.DENIED, now_ns)

    def set_states(self, rows: NDArray[np.int64], state: EvState) -> None:
        """Change the state in which those of (m,) rows that wait for a value will continue."""
        for row in self._coming.keys() & set(rows.tolist()):
            self._coming[row] = (self._coming[row][0], state)

    def settle(self, now_ns: int) -> None:
        """Change the values of rows that are idle now."""
        for row in [row for row in self._coming if not self._uses(row)]:
            ev, state = self._coming.pop(row)
            self._report(EvReplaced(now_ns, row, int(self._profile.evs[row]), ev))
            self._profile.evs[row] = ev
            self._replaced.append(row)
            self._set.set_states(np.array([row]), state, now_ns)

    def drain_replaced(self) -> list[int]:
        """Remove and return rows whose value has changed since the last call."""
        rows, self._replaced = self._replaced, []
        return rows
