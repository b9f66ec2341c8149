"""Round trip samples: which are valid, the least, and the average delay above it.

Send times come from the sender's table (our choice); the TSETH timestamp is used where there is none. Sources: UET
3.6.13 (validity), 3.6.13.5 and 3.6.13.6 (base RTT); the average is our choice.
"""

from agent.core.congestion.base import RttSamples
from agent.wire.constants import TX_TIMESTAMP_TICK_NS

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
