"""Smoothed round trip and its deviation, and what loss detection makes of them. Times from the local send table.

Kept apart from congestion control: this one wants to be late rather than wrong. RFC 6298 weights.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(slots=True)
class RoundTrip:
    """An estimate over some paths."""

    smoothed_ns: int = 0
    """0 before the first sample."""
    deviation_ns: int = 0
    least_ns: int = 0
    latest_ns: int = 0
    samples: int = 0

    def add(self, rtt_ns: int) -> None:
        """One valid sample."""
        self.samples += 1
        self.latest_ns = rtt_ns
        if self.samples == 1:
            self.smoothed_ns = self.least_ns = rtt_ns
            self.deviation_ns = rtt_ns // 2
            return
        self.deviation_ns += (abs(rtt_ns - self.smoothed_ns) - self.deviation_ns) // 4
        self.smoothed_ns += (rtt_ns - self.smoothed_ns) // 8
        self.least_ns = min(self.least_ns, rtt_ns)

    def forget_spread(self) -> None:
        """The load moved to other paths, whose queues grow: the spread is as unknown as after a first sample."""
        self.deviation_ns = max(self.deviation_ns, self.smoothed_ns // 2)

    def tolerance_ns(self, floor_ns: int) -> int:
        """How long a packet may be late before its absence means something: 1.25 round trips and their spread.

        Of the latest round trip, if it is longer than usual: a growing queue delays all packets (as RACK, RFC 8985).
        """
        return max(floor_ns, max(self.smoothed_ns, self.latest_ns) * 5 // 4 + 4 * self.deviation_ns)


class RoundTrips:
    """One queue pair's estimates: over all its paths, and one a plane.

    A packet is late by what its own plane takes. Windows count packets over all planes, so the queue of one can be
    several times that of another for as long as it lasts, and its packets would be called late by the others' haste.
    """

    def __init__(self, planes: NDArray[np.uint8]) -> None:
        """`planes` (e,) is the plane of each EV row."""
        self.all = RoundTrip()
        self._planes = planes
        self._of_plane = {plane: RoundTrip() for plane in np.unique(planes).tolist()}

    def add(self, rtt_ns: int, row: int) -> None:
        """One valid sample, of a packet or probe sent on an EV row."""
        self.all.add(rtt_ns)
        self._of_plane[int(self._planes[row])].add(rtt_ns)

    def forget_spread(self) -> None:
        """The load moved to other paths, whose queues grow."""
        for each in (self.all, *self._of_plane.values()):
            each.forget_spread()

    def tolerances_ns(self, floor_ns: int) -> NDArray[np.int64]:
        """(e,) how long a packet of each EV row may be late; by all planes where its own has no sample yet."""
        found = np.full(256, self.all.tolerance_ns(floor_ns), np.int64)
        for plane, trip in self._of_plane.items():
            if trip.samples:
                found[plane] = trip.tolerance_ns(floor_ns)
        rows: NDArray[np.int64] = found[self._planes]
        return rows
