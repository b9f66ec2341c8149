"""How fast a queue pair may send: one packet an interval on average. Knows no clock and no packet.

The rate limit of a queue pair in verbs (`ibv_modify_qp_rate_limit`: `rate_limit`), in time from packet to packet.
"""

CATCH_UP_NS = 20_000_000
"""Most time whose packets may be made up for at once. Our choice: a turn of a busy engine is 6 ms; what is owed from
longer ago was held back by windows or had not been posted, and sent in one go it would be a burst nobody asked for."""


class Pacer:
    """The account of one queue pair."""

    def __init__(self, interval_ns: int) -> None:
        self._interval_ns = interval_ns
        self.due_ns: int | None = None
        """When the next packet is due; None before the first."""

    def room(self, limit: int, now_ns: int) -> int:
        """Packets that are due, at most `limit`; one to begin with."""
        owed = 1 + (now_ns - self._counted_from(now_ns)) // self._interval_ns
        return max(0, min(limit, owed))

    def on_sent(self, packets: int, now_ns: int) -> None:
        """So many went out."""
        self.due_ns = self._counted_from(now_ns) + packets * self._interval_ns

    def _counted_from(self, now_ns: int) -> int:
        return now_ns if self.due_ns is None else max(self.due_ns, now_ns - CATCH_UP_NS)
