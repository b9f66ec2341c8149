"""Smoothed round trip and its deviation, for loss detection. Times come from the local send table.

Separate from congestion control: loss detection should be late rather than wrong. RFC 6298 weights.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(slots=True)
class RoundTrip:
    """Round trip estimate over some paths."""

    smoothed_ns: int = 0
    """Smoothed round trip; 0 before the first sample."""
    deviation_ns: int = 0
    least_ns: int = 0
    latest_ns: int = 0
    samples: int = 0

    def add(self, rtt_ns: int) -> None:
        """Add one valid sample."""
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
        """Widen the spread to that of a first sample: the load moved to other paths, whose queues grow."""
        self.deviation_ns = max(self.deviation_ns, self.smoothed_ns // 2)

    def tolerance_ns(self, floor_ns: int) -> int:
        """Return how late a packet may be before it counts as lost: 1.25 round trips plus their spread.

        It uses the latest round trip if that is longer than usual: a growing queue delays all packets (as RACK, RFC
        8985).
        """
        return max(floor_ns, max(self.smoothed_ns, self.latest_ns) * 5 // 4 + 4 * self.deviation_ns)


class RoundTrips:
    """Round trip estimates of one queue pair: over all its paths, and per plane.

    The lateness of a packet is judged by its own plane. Windows count packets over all planes, so one plane's queue can
    be several times that of another, and its packets would seem late by the times of faster planes.
    """

    def __init__(self, planes: NDArray[np.uint8]) -> None:
        """Create estimates for EV rows with these `planes` (e,)."""
        self.all = RoundTrip()
        self._planes = planes
        self._of_plane = {plane: RoundTrip() for plane in np.unique(planes).tolist()}

    def add(self, rtt_ns: int, row: int) -> None:
        """Add one valid sample, of a packet or probe sent on an EV row."""
        self.all.add(rtt_ns)
        self._of_plane[int(self._planes[row])].add(rtt_ns)

    def forget_spread(self) -> None:
        """Widen the spread of all planes: the load moved to other paths, whose queues grow."""
        for each in (self.all, *self._of_plane.values()):
            each.forget_spread()

    def tolerances_ns(self, floor_ns: int) -> NDArray[np.int64]:
        """Return (e,) how late a packet of each EV row may be.

        The estimate of all planes where its own has no sample.
        """
        found = np.full(256, self.all.tolerance_ns(floor_ns), np.int64)
        for plane, trip in self._of_plane.items():
            if trip.samples:
                found[plane] = trip.tolerance_ns(floor_ns)
        rows: NDArray[np.int64] = found[self._planes]
        return rows
