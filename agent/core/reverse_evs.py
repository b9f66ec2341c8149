"""The reverse EV set: one EV a plane for SACKs, NACKs and ACKs, each recently proven to work. Source: MRC paper.

Planes take turns, so a dead plane costs only its share of control packets. Fed by what our own data learns, or by
probes when we only receive.
"""

import numpy as np
from numpy.typing import NDArray

from agent.core.config import EvProfile


class ReverseEvs:
    """Rows of the profile, one for each of its planes; the first of each to begin with (our choice)."""

    def __init__(self, profile: EvProfile) -> None:
        planes, rows = np.unique(profile.planes, return_index=True)
        self._planes = planes.tolist()
        self._rows: dict[int, int] = dict(zip(self._planes, rows.tolist(), strict=True))
        self._plane_of = profile.planes.tolist()
        self._turn = 0
        self._usable = self._planes
        self.row = self._rows[self._planes[0]]
        """The EV whose turn it is."""

    @property
    def rows(self) -> list[int]:
        """Of each plane its row, in order of planes; those of planes that are down are kept, not used."""
        return [self._rows[plane] for plane in self._planes]

    def turn(self) -> None:
        """It is the next plane's turn."""
        self._turn = (self._turn + 1) % len(self._usable)
        self._choose()

    def learn(self, row: int) -> None:
        """This EV works: from now on it is its plane's."""
        self._rows[self._plane_of[row]] = row
        self._choose()

    def on_ports(self, up: NDArray[np.bool_]) -> None:
        """Leave out the planes (256,) that are down, unless that is all of them."""
        self._usable = [plane for plane in self._planes if up[plane]] or self._planes
        self._turn %= len(self._usable)
        self._choose()

    def _choose(self) -> None:
        self.row = self._rows[self._usable[self._turn]]
