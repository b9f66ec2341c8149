"""Pacing of a queue pair: one packet per interval on average. Knows no clock and no packet.

This is the rate limit of a queue pair in verbs (`ibv_modify_qp_rate_limit`: `rate_limit`), as time between packets.
"""

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
