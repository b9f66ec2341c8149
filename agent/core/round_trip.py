"""Smoothed round trip and its deviation, and what loss detection makes of them. Times from the local send table.

Kept apart from congestion control: this one wants to be late rather than wrong. RFC 6298 weights.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class RoundTrip:
    """One queue pair's estimate over all its paths."""

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
