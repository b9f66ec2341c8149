"""The reverse EV set: one EV a plane for SACKs, NACKs and ACKs, each recently proven to work. Source: MRC paper.

Planes take turns; one in which probes stay unanswered, or our own data found no EV that works, has none until it is
heard of again. Fed by what our own data learns, or by probes when we only receive.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent.core.ev.profile import EvProfile

_SILENT_AFTER = 2
"""Probes of a plane unanswered in a row before it is passed over. Our choice: the answer to one may be what was lost,
on the peer's way back through another plane."""


class Ways(NamedTuple):
    """What a queue pair that sends knows of the ways to its peer."""

    learnt_ns: int
    """When its data was last acknowledged."""
    live: NDArray[np.bool_]
    """(256,) planes in which some EV of it still works."""
    evs: tuple[int, ...]
    """One of each of them, newly proven where it sent any."""


class ReverseEvs:
    """Rows of the profile, one for each of its planes; the first of each to begin with (our choice)."""

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
        """Of each plane its row, in order of planes that have a turn."""
        return [self._rows[plane] for plane in self._usable]

    def turn(self) -> None:
        """It is the next plane's turn."""
        self._turn = (self._turn + 1) % len(self._usable)
        self._choose()

    def learn(self, row: int) -> None:
        """This EV works: from now on it is its plane's."""
        plane = self._plane_of[row]
        self._rows[plane] = row
        self._unanswered[plane] = 0
        self._admit()

    def prefer(self, row: int) -> None:
        """This EV is to be its plane's, by what others found; whether the plane answers us is another matter."""
        self._rows[self._plane_of[row]] = row
        self._choose()

    def doubt(self, row: int) -> None:
        """A probe of this EV was not answered."""
        self._unanswered[self._plane_of[row]] += 1
        self._admit()

    def on_planes(self, up: NDArray[np.bool_]) -> None:
        """Leave out the planes (256,) that are down, unless that is all of them; what they owed is forgotten."""
        self._up = [plane for plane in self._planes if up[plane]] or self._planes
        self._unanswered |= {plane: 0 for plane in self._planes if not up[plane]}
        self._admit()

    def _admit(self) -> None:
        """Give turns to planes that answer; to those that owe the least if none does."""
        owed = self._unanswered
        most = max(_SILENT_AFTER - 1, min(owed[plane] for plane in self._up))
        self._usable = [plane for plane in self._up if owed[plane] <= most]
        self._turn %= len(self._usable)
        self._choose()

    def _choose(self) -> None:
        self.row = self._rows[self._usable[self._turn]]
