"""When to stop waiting for answers, and when to give up: the local ACK timer and the retry counter.

Fixed intervals first, then doubling (MRC Table 7-1). A timeout uses one retry, however many packets
waited too long; progress of the cumulative point gives all retries back (our choice).
"""

from agent.core.config import EXP_CNT_INFINITE

_MAX_DOUBLINGS = 7
"""Longest interval of a queue pair that never gives up. Our choice: 128 intervals, 8.6 s with the default one."""


class RetryTimer:
    """One queue pair's timer. Lazy: it may fire early, find nothing too old and be armed again."""

    def __init__(self, interval_ns: int, linear_cnt: int, exp_cnt: int) -> None:
        self._interval_ns = interval_ns
        self._linear_cnt = linear_cnt
        self._exp_cnt = exp_cnt
        self.retries = 0
        """Retries used since the last progress."""
        self.deadline_ns: int | None = None
        """When to look for packets that waited too long; None while nothing is in flight."""
        self.doubt_ns: int | None = None
        """What was last sent at or before this is doubted since the last timeout; None without doubt."""

    @property
    def interval_ns(self) -> int:
        """How long a packet waits for an answer now."""
        doublings = min(max(self.retries - self._linear_cnt + 1, 0), self._exp_cnt, _MAX_DOUBLINGS)
        return self._interval_ns << doublings

    @property
    def exhausted(self) -> bool:
        """Whether more retries were used than there are."""
        return self._exp_cnt != EXP_CNT_INFINITE and self.retries > self._linear_cnt + self._exp_cnt

    def arm(self, sent_ns: int) -> None:
        """Fire when a packet sent then will have waited long enough."""
        self.deadline_ns = sent_ns + self.interval_ns

    def disarm(self) -> None:
        """Nothing is in flight."""
        self.deadline_ns = self.doubt_ns = None

    def on_progress(self) -> None:
        """The cumulative point moved."""
        self.retries = 0

    def on_timeout(self, now_ns: int) -> None:
        """Some packet waited too long: use a retry, and doubt whatever has waited for half as long."""
        self.doubt_ns = now_ns - self.interval_ns // 2
        self.retries += 1
        self.arm(now_ns)
