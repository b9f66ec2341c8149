"""Round trip times of a requester: for loss detection, and for congestion control.

Send times come from the sender's table (our choice); the TSETH timestamp is used where there is none. Loss detection
has its own smoothed round trip and deviation (RFC 6298 weights): it should be late rather than wrong. Congestion
control reads which samples are valid, the least, and the average delay above it: UET 3.6.13 (validity), 3.6.13.5 and
3.6.13.6 (base RTT); the average is our choice.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agent.core.congestion.interface import RttSamples
from agent.wire.constants import TX_TIMESTAMP_TICK_NS


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


_GAIN = 1 / 8
"""Weight of a new sample in the averages (our choice)."""


def is_valid(resends: int, echoed_rtx: bool) -> bool:
    """Report whether an answered packet gives a round trip: it must be known which transmission is answered (UET).

    `resends` counts its retransmissions so far, `echoed_rtx` is the retransmission bit of its SACK.
    """
    return resends == echoed_rtx


def samples_of(sent_ns: list[int], now_ns: int) -> RttSamples | None:
    """Sample the round trips of the valid packets that a drain's SACKs answer, last sent at `sent_ns`.

    None: no sample.
    """
    if not sent_ns:
        return None
    taken = len(sent_ns)
    return RttSamples(taken, now_ns - max(sent_ns), (now_ns * taken - sum(sent_ns)) / taken)


def elapsed_ns(tx_timestamp: int, now_ns: int) -> int:
    """Return the age of a reflected timestamp, in whole ticks of 8192 ns, modulo 537 ms."""
    return (now_ns // TX_TIMESTAMP_TICK_NS - tx_timestamp & 0xFFFF) * TX_TIMESTAMP_TICK_NS


class RttEstimator:
    """Round trip to one destination: least and averages."""

    def __init__(self, base_rtt_ns: int, floor_ns: int = 0) -> None:
        """Start with the configured `base_rtt_ns` as the least round trip; it never falls below `floor_ns`."""
        self._floor_ns = floor_ns
        self.base_rtt_ns = base_rtt_ns
        self.average_delay_ns = 0.0
        """Average delay above the base."""
        self.srtt_ns: float | None = None
        """Smoothed round trip; None before the first sample."""

    def add(self, samples: RttSamples) -> float:
        """Add samples; return their mean delay above the base, ns, not negative."""
        self.base_rtt_ns = min(self.base_rtt_ns, max(samples.least_ns, self._floor_ns))
        weight = _weight(samples.taken)
        last = samples.mean_ns if self.srtt_ns is None else self.srtt_ns
        self.srtt_ns = last + weight * (samples.mean_ns - last)
        delay_ns = max(0.0, samples.mean_ns - self.base_rtt_ns)
        self.average_delay_ns += weight * (delay_ns - self.average_delay_ns)
        return delay_ns

    def add_delay(self, delay_ns: float, count: int) -> None:
        """Count a delay that was not measured, such as that of a trimmed packet."""
        self.average_delay_ns += _weight(count) * (delay_ns - self.average_delay_ns)


def _weight(count: int) -> float:
    """Return the weight of `count` equal samples taken one after another."""
    return 1 - (1 - _GAIN) ** count
