"""Round trips: which samples count, the least, and the average delay above it.

Send times are the caller's table (our choice); the TSETH timestamp serves where there is none. Sources: UET 3.6.13
(validity), 3.6.13.5 and 3.6.13.6 (base RTT); the average is our choice.
"""

import numpy as np
from numpy.typing import NDArray

from agent.core.congestion.base import RttSamples
from agent.wire.constants import TX_TIMESTAMP_TICK_NS

_GAIN = 1 / 8
"""Weight of a new sample in the averages (our choice)."""


def are_valid(resends: NDArray[np.integer], echoed_rtx: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which answered packets give a round trip, `(n,)`: it must be known which transmission is answered (UET).

    `resends` is how often each packet was sent again so far, `echoed_rtx` the retransmission bit of its SACK.
    """
    valid: NDArray[np.bool_] = resends == echoed_rtx.astype(resends.dtype)
    return valid


def samples_of(
    sent_ns: NDArray[np.int64], resends: NDArray[np.integer], echoed_rtx: NDArray[np.bool_], now_ns: int
) -> RttSamples | None:
    """Round trips of the packets a drain's SACKs answer, last sent at `sent_ns` `(n,)`; None if none is valid."""
    sent = sent_ns[are_valid(resends, echoed_rtx)]
    if not len(sent):
        return None
    return RttSamples(len(sent), now_ns - int(sent.max()), now_ns - float(sent.mean()))


def elapsed_ns(tx_timestamp: NDArray[np.uint16], now_ns: int) -> NDArray[np.int64]:
    """Age of reflected timestamps, `(n,)`, in whole ticks of 8192 ns, wrong by a multiple of 537 ms if older."""
    ticks = (now_ns // TX_TIMESTAMP_TICK_NS - tx_timestamp.astype(np.int64)) & 0xFFFF
    return ticks * TX_TIMESTAMP_TICK_NS


class RttEstimator:
    """One destination's round trip: least and averages."""

    def __init__(self, base_rtt_ns: int, floor_ns: int = 0) -> None:
        """`base_rtt_ns` is the configured one, from which the least starts; it never falls below `floor_ns`."""
        self._floor_ns = floor_ns
        self.base_rtt_ns = base_rtt_ns
        self.average_delay_ns = 0.0
        """Above the base."""
        self.srtt_ns: float | None = None
        """Smoothed round trip; None before the first sample."""

    def add(self, samples: RttSamples) -> float:
        """Learn from samples; their mean delay above the base, ns, not negative."""
        self.base_rtt_ns = min(self.base_rtt_ns, max(samples.least_ns, self._floor_ns))
        weight = _weight(samples.taken)
        last = samples.mean_ns if self.srtt_ns is None else self.srtt_ns
        self.srtt_ns = last + weight * (samples.mean_ns - last)
        delay_ns = max(0.0, samples.mean_ns - self.base_rtt_ns)
        self.average_delay_ns += weight * (delay_ns - self.average_delay_ns)
        return delay_ns

    def add_delay(self, delay_ns: float, count: int) -> None:
        """Count a delay that was not measured, as a trimmed packet stands for one."""
        self.average_delay_ns += _weight(count) * (delay_ns - self.average_delay_ns)


def _weight(count: int) -> float:
    """Weight of so many equal samples taken one after another."""
    return 1 - (1 - _GAIN) ** count
