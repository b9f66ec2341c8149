"""Limits of sending: the queue pair's share of a congestion window, and pacing.

`SendWindow` is the input of congestion control: nominal bytes sent, received, lost and discarded, per packet. A
controller may serve several queue pairs, so each keeps its own share of the counts and removes it when it is idle or
fails. Knows no algorithm. MRC chapter 8. `Pacer` sends one packet per interval on average: the rate limit of a queue
pair in verbs (`ibv_modify_qp_rate_limit`: `rate_limit`), as time between packets.
"""

import numpy as np
from numpy.typing import NDArray

from agent.core.congestion.interface import NOMINAL_HEADER_BYTES, CongestionControl, Feedback, RttSamples
from agent.core.psn import ring_size
from agent.core.send.sack_reader import SackNews
from agent.wire.constants import RCVD_BYTES_MASK, RCVD_BYTES_UNIT, EcnVerdict

_MARKED = EcnVerdict.SKIP_ONCE.value


class SendWindow:
    """Share of one queue pair in its controller's counts; slots are those of the in-flight rings."""

    def __init__(self, control: CongestionControl, window_psns: int) -> None:
        self.control = control
        self._nominal_bytes = np.zeros(ring_size(window_psns), np.int64)
        self._outstanding_bytes = 0
        """Our part of the controller's in-flight bytes; signed."""
        self._clock = 0
        """Newest rcvd_bytes of the peer, in its units, unwrapped."""
        self._sent_bytes = 0
        """Bytes of all first transmissions: the peer's byte clock cannot exceed them."""

    def room(self, limit: int, idle: bool) -> int:
        """Count the packets that may be sent now, at most `limit`.

        At least one if `idle`, when nothing of ours is in flight.

        Otherwise no answer could ever open the window.
        """
        if idle:
            self.settle()
        return min(limit, max(self.control.room_pkts(), int(idle)))

    def on_sent(self, offsets: NDArray[np.int64], payload_bytes: NDArray[np.uint32], again: int = 0) -> None:
        """Count packets at (n,) offsets as sent; the first `again` are retransmissions."""
        nominal = payload_bytes.astype(np.int64) + NOMINAL_HEADER_BYTES
        self._nominal_bytes[offsets & (len(self._nominal_bytes) - 1)] = nominal
        total = int(nominal.sum())
        self._outstanding_bytes += total
        self._sent_bytes += int(nominal[again:].sum()) if again else total
        self.control.on_sent(total)

    def possible(self, rcvd_bytes: NDArray[np.uint32]) -> NDArray[np.bool_]:
        """Report (r,) which byte clocks of SACKs are possible (MRC 12.4): no more than was sent, or older ones."""
        ahead = (rcvd_bytes.astype(np.int64) - self._clock) & RCVD_BYTES_MASK
        most = -(-self._sent_bytes // RCVD_BYTES_UNIT) - self._clock
        found: NDArray[np.bool_] = (ahead <= most) | (ahead > RCVD_BYTES_MASK >> 1)
        return found

    def on_sacks(self, news: SackNews, rtt: RttSamples | None, now_ns: int) -> None:
        """Process the SACKs of a drain; the byte clock never goes back, although SACKs overtake one another."""
        cols = news.cols
        steps = [(units - self._clock) & RCVD_BYTES_MASK for units in cols.rcvd_bytes.tolist()]
        ahead = [step if step <= RCVD_BYTES_MASK >> 1 else 0 for step in steps]
        grown = max(ahead)
        self._clock += grown
        newest = ahead.index(grown)
        self._outstanding_bytes -= grown * RCVD_BYTES_UNIT
        feedback = Feedback(
            newly_received_bytes=grown * RCVD_BYTES_UNIT,
            sacks=len(cols),
            marked=cols.m.tolist().count(_MARKED),
            rtt=rtt,
            penalty=int(cols.rcv_cwnd_pen[newest]),
            restore=bool(cols.restore_cwnd[newest]),
        )
        self.control.on_sacks(feedback, now_ns)

    def on_lost(self, slots: NDArray[np.int64]) -> None:
        """Count packets in these slots (m,) as lost by inference."""
        if total := self._taken(slots):
            self.control.on_lost(total)

    def on_trimmed(self, slots: NDArray[np.int64], now_ns: int) -> None:
        """Count packets in these slots (m,) as trimmed."""
        if total := self._taken(slots):
            self.control.on_trimmed(total, len(slots), now_ns)

    def on_refused(self, slots: NDArray[np.int64]) -> None:
        """Count packets in these slots (m,) as refused for a reason other than the network."""
        if total := self._taken(slots):
            self.control.on_discarded(total)

    def settle(self) -> None:
        """Clear our share while nothing of ours is in flight: it is rounding, or arrivals that were thought lost."""
        if self._outstanding_bytes:
            self.control.on_discarded(self._outstanding_bytes)
            self._outstanding_bytes = 0

    def _taken(self, slots: NDArray[np.int64]) -> int:
        total = int(self._nominal_bytes[slots].sum())
        self._outstanding_bytes -= total
        return total


CATCH_UP_NS = 20_000_000
"""Longest time whose packets may be sent at once to catch up. Our choice: a turn of a busy engine is 6 ms; packets
overdue for longer were held back by windows or not posted, and sending them all at once would be an unwanted burst."""


class Pacer:
    """Pacing state of one queue pair."""

    def __init__(self, interval_ns: int) -> None:
        self._interval_ns = interval_ns
        self.due_ns: int | None = None
        """Time at which the next packet is due; None before the first."""

    def room(self, limit: int, now_ns: int) -> int:
        """Count the packets that are due, at most `limit`; one at the start."""
        owed = 1 + (now_ns - self._counted_from(now_ns)) // self._interval_ns
        return max(0, min(limit, owed))

    def on_sent(self, packets: int, now_ns: int) -> None:
        """Record that packets were sent."""
        self.due_ns = self._counted_from(now_ns) + packets * self._interval_ns

    def _counted_from(self, now_ns: int) -> int:
        return now_ns if self.due_ns is None else max(self.due_ns, now_ns - CATCH_UP_NS)
