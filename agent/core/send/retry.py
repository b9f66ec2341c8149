"""Local ACK timer and retry counter: when a packet times out, and when the queue pair gives up.

Each packet waits the default interval; after a timeout `linear_cnt` times the same again, then `exp_cnt` times twice as
long as before (MRC Table 7-1). All packets share the retry counter: the nth timeout in a row uses one retry, however
many packets have it; progress of the cumulative point gives all retries back (our choice).
"""

import numpy as np

from agent.core.config import EXP_CNT_INFINITE

_MAX_DOUBLINGS = 7
"""Longest interval of a queue pair that never gives up. Our choice: 128 intervals, 8.6 s with the default one."""


class RetryTimer:
    """Timer of one queue pair. It may fire early, find nothing overdue and be armed again."""

    def __init__(self, interval_ns: int, linear_cnt: int, exp_cnt: int) -> None:
        self._most = linear_cnt + exp_cnt
        self._is_endless = exp_cnt == EXP_CNT_INFINITE
        doublings = np.arange(_MAX_DOUBLINGS if self._is_endless else exp_cnt, dtype=np.int64) + 1
        self.intervals_ns = interval_ns << np.concatenate((np.zeros(linear_cnt + 1, np.int64), doublings))
        """(t,) timeout of a packet after 0, 1, ... timeouts in a row; the last value holds for all further ones."""
        self.default_ns = interval_ns
        """Timeout of a packet that was just sent for any reason but a timeout."""
        self.retries = 0
        """Retries used since the last progress."""
        self._in_a_row = 0
        """Most timeouts in a row of one packet since the last progress."""
        self._last_ns: int | None = None
        """Time of the last timeout."""
        self.deadline_ns: int | None = None
        """Time at which to look for overdue packets; None while nothing is in flight."""
        self.doubt_ns: int | None = None
        """Packets last sent at or before this time are suspected since the last timeout; None: no suspicion."""

    @property
    def interval_ns(self) -> int:
        """Return the timeout after as many timeouts in a row as retries are used."""
        return int(self.intervals_ns[min(self.retries, len(self.intervals_ns) - 1)])

    @property
    def exhausted(self) -> bool:
        """Report whether more retries were used than there are."""
        return not self._is_endless and self.retries > self._most

    def arm(self, sent_ns: int) -> None:
        """Fire no later than the default timeout of a packet sent then."""
        self.arm_at(sent_ns + self.default_ns)

    def arm_at(self, due_ns: int) -> None:
        """Fire at this time, or before."""
        if self.deadline_ns is None or due_ns < self.deadline_ns:
            self.deadline_ns = due_ns

    def look_at(self, due_ns: int) -> None:
        """Fire at this time, but at least a default interval after the last timeout.

        Packets sent together time out together.
        """
        self.deadline_ns = due_ns if self._last_ns is None else max(due_ns, self._last_ns + self.default_ns)

    def disarm(self) -> None:
        """Stop the timer: nothing is in flight."""
        self.deadline_ns = self.doubt_ns = None

    def use_retry(self) -> None:
        """Use a retry for a failure that counts as a timeout does."""
        self.retries += 1

    def on_progress(self) -> None:
        """Give all retries back: the cumulative point moved."""
        self.retries = self._in_a_row = 0

    def on_timeout(self, now_ns: int, in_a_row: int | None = None) -> None:
        """Record the `in_a_row`th timeout of some packet; None: one more. Use a retry if no other packet had as many.

        Packets that waited for half a default interval are suspected from now on.
        """
        self._last_ns = now_ns
        self.doubt_ns = now_ns - self.default_ns // 2
        if in_a_row is None or in_a_row > self._in_a_row:
            self._in_a_row += 1
            self.use_retry()
        self.deadline_ns = now_ns + self.interval_ns
