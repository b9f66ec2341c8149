"""When to stop waiting for answers, and when to give up: the local ACK timer and the retry counter.

Each packet waits the default interval; after a timeout `linear_cnt` times the same again, then `exp_cnt` times twice as
long as before (MRC Table 7-1). The retry counter is one for all packets: the nth timeout in a row uses one retry, of
however many packets it is the nth; progress of the cumulative point gives all retries back (our choice).
"""

import numpy as np

from agent.core.config import EXP_CNT_INFINITE

_MAX_DOUBLINGS = 7
"""Longest interval of a queue pair that never gives up. Our choice: 128 intervals, 8.6 s with the default one."""


class RetryTimer:
    """One queue pair's timer. Lazy: it may fire early, find nothing too old and be armed again."""

    def __init__(self, interval_ns: int, linear_cnt: int, exp_cnt: int) -> None:
        self._most = linear_cnt + exp_cnt
        self._is_endless = exp_cnt == EXP_CNT_INFINITE
        doublings = np.arange(_MAX_DOUBLINGS if self._is_endless else exp_cnt, dtype=np.int64) + 1
        self.intervals_ns = interval_ns << np.concatenate((np.zeros(linear_cnt + 1, np.int64), doublings))
        """(t,) how long a packet waits after 0, 1, ... timeouts in a row; the last for all further ones."""
        self.default_ns = interval_ns
        """How long a packet waits that was just sent, for whatever reason but a timeout."""
        self.retries = 0
        """Retries used since the last progress."""
        self._in_a_row = 0
        """Most timeouts in a row of one packet, since the last progress."""
        self._last_ns: int | None = None
        """When the last timeout was."""
        self.deadline_ns: int | None = None
        """When to look for packets that waited too long; None while nothing is in flight."""
        self.doubt_ns: int | None = None
        """What was last sent at or before this is doubted since the last timeout; None without doubt."""

    @property
    def interval_ns(self) -> int:
        """How long it is waited after as many timeouts in a row as retries are used."""
        return int(self.intervals_ns[min(self.retries, len(self.intervals_ns) - 1)])

    @property
    def exhausted(self) -> bool:
        """Whether more retries were used than there are."""
        return not self._is_endless and self.retries > self._most

    def arm(self, sent_ns: int) -> None:
        """Fire when a packet sent then, for whatever reason but a timeout, will have waited long enough, or before."""
        self.arm_at(sent_ns + self.default_ns)

    def arm_at(self, due_ns: int) -> None:
        """Fire then, or before."""
        if self.deadline_ns is None or due_ns < self.deadline_ns:
            self.deadline_ns = due_ns

    def look_at(self, due_ns: int) -> None:
        """Fire then, but not sooner than a default interval after the last timeout: what was sent together stays so."""
        self.deadline_ns = due_ns if self._last_ns is None else max(due_ns, self._last_ns + self.default_ns)

    def disarm(self) -> None:
        """Nothing is in flight."""
        self.deadline_ns = self.doubt_ns = None

    def use_retry(self) -> None:
        """Something failed that counts as a timeout does."""
        self.retries += 1

    def on_progress(self) -> None:
        """The cumulative point moved."""
        self.retries = self._in_a_row = 0

    def on_timeout(self, now_ns: int, in_a_row: int | None = None) -> None:
        """Some packet waited too long, the `in_a_row`th time; None: once more. Use a retry if no other did so often.

        Whatever has waited for half a default interval is doubted.
        """
        self._last_ns = now_ns
        self.doubt_ns = now_ns - self.default_ns // 2
        if in_a_row is None or in_a_row > self._in_a_row:
            self._in_a_row += 1
            self.use_retry()
        self.deadline_ns = now_ns + self.interval_ns
