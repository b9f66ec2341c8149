"""The reverse EV set: one EV per plane for SACKs, NACKs and ACKs, each recently proven to work. Source: MRC paper.

Planes take turns. A plane loses its turn when probes stay unanswered, or when our own data found no EV in it that
works; it returns once something arrives from it. Our own data updates the set, or probes when we only receive.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent.core.ev.profile_sources import EvProfile

_SILENT_AFTER = 2
"""Unanswered probes of a plane in a row before it loses its turn. Our choice: an answer may be lost on the peer's way
back through another plane."""


class Ways(NamedTuple):
    """State of the paths to the peer, as a sending queue pair knows it."""

    learnt_ns: int
    """Time at which its data was last acknowledged."""
    live: NDArray[np.bool_]
    """(256,) planes in which some EV of it still works."""
    evs: tuple[int, ...]
    """One EV per such plane, recently proven if the plane was used."""


class ReverseEvs:
    """Rows of the profile, one per plane; the first of each at the start (our choice)."""

    def __init__(self, profile: EvProfile) -> None:
        planes, rows = np.unique(profile.planes, return_index=True)
        self._planes = planes.tolist()
        self._rows: dict[int, int] = dict(zip(self._planes, rows.tolist(), strict=True))
        self._plane_of = profile.planes.tolist()
        self._turn = 0
        self._unanswered = dict.fromkeys(self._planes, 0)
        self._up = self._planes
        self._usable = self._planes
        self.row = self._rows[self._planes[0]]
        """The EV whose turn it is."""

    @property
    def rows(self) -> list[int]:
        """Return the row of each plane that has a turn, in order of planes."""
        return [self._rows[plane] for plane in self._usable]

    def turn(self) -> None:
        """Give the turn to the next plane."""
        self._turn = (self._turn + 1) % len(self._usable)
        self._choose()

    def learn(self, row: int) -> None:
        """Use this EV for its plane: it was proven to work."""
        plane = self._plane_of[row]
        self._rows[plane] = row
        self._unanswered[plane] = 0
        self._admit()

    def prefer(self, row: int) -> None:
        """Prefer this EV for its plane, as other data suggests; this does not prove that the plane answers us."""
        self._rows[self._plane_of[row]] = row
        self._choose()

    def doubt(self, row: int) -> None:
        """Count an unanswered probe of this EV."""
        self._unanswered[self._plane_of[row]] += 1
        self._admit()

    def on_planes(self, up: NDArray[np.bool_]) -> None:
        """Leave out the planes (256,) that are down, unless that is all of them, and reset their unanswered probes."""
        self._up = [plane for plane in self._planes if up[plane]] or self._planes
        self._unanswered |= {plane: 0 for plane in self._planes if not up[plane]}
        self._admit()

    def _admit(self) -> None:
        """Give turns to planes that answer; if none does, to those with the fewest unanswered probes."""
        owed = self._unanswered
        most = max(_SILENT_AFTER - 1, min(owed[plane] for plane in self._up))
        self._usable = [plane for plane in self._up if owed[plane] <= most]
        self._turn %= len(self._usable)
        self._choose()

    def _choose(self) -> None:
        self.row = self._rows[self._usable[self._turn]]
