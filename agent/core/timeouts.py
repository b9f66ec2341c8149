"""Timeouts of packets and of probes: how long each waits for an answer, and when the queue pair gives up.

`RetryTimer` is the local ACK timer and the retry counter. Each packet waits the default interval; after a timeout
`linear_cnt` times the same again, then `exp_cnt` times twice as long as before (MRC Table 7-1). All packets share the
retry counter: the nth timeout in a row uses one retry, however many packets have it; progress of the cumulative point
gives all retries back (our choice).

An answer to a probe that is too late revives no EV, but it shows that the path works and is slow: the next probe there
gets more time. Otherwise every probe would fail on a path with a longer queue than elsewhere. Our choice.
"""

from dataclasses import dataclass

import numpy as np

from agent.core.config import EXP_CNT_INFINITE

_MOST = 16
"""The timeout grows to at most this many times the shortest one; answers later than that are ignored. Our choice: a
process that stood still for a second must not delay the detection of every lost probe by a second."""

_KEPT_OF_8 = 7
"""Eighths of the slowest answer time that remain after a faster answer (the weight of RFC 6298)."""


@dataclass(frozen=True, slots=True)
class OutstandingProbe:
    """One probe that was sent."""

    row: int
    """EV row it was sent on."""
    sent_ns: int
    tag: int
    """A number for the sender's use, returned with the answer."""
    where: int
    """Key of the timeout that this probe uses: an EV row, or a plane."""


class OutstandingProbes:
    """Probes without an answer, by number; the sender chooses numbers that are unique among outstanding ones."""

    def __init__(self, patience_ns: int) -> None:
        self.patience_ns = patience_ns
        """Shortest timeout of a probe; may be changed."""
        self._open: dict[int, OutstandingProbe] = {}
        self._given_up: dict[int, OutstandingProbe] = {}
        self._slowest_ns: dict[int, int] = {}
        """Slowest answer time per `where`; faster answers reduce it."""

    def __len__(self) -> int:
        """Count the probes that wait for an answer."""
        return len(self._open)

    def sent(self, number: int, probe: OutstandingProbe) -> None:
        """Add a probe that was just sent."""
        self._given_up.pop(number, None)
        self._open[number] = probe

    def answered(self, number: int, now_ns: int) -> tuple[OutstandingProbe, bool] | None:
        """Find the probe of an answer, and whether it is in time.

        None if there is none, or it was given up long ago.
        """
        probe = self._open.pop(number, None)
        in_time = probe is not None
        probe = probe or self._given_up.pop(number, None)
        if probe is None:
            return None
        slowest_ns = self._slowest_ns.get(probe.where, 0) * _KEPT_OF_8 // 8
        self._slowest_ns[probe.where] = max(now_ns - probe.sent_ns, slowest_ns)
        return probe, in_time

    def overdue(self, now_ns: int) -> list[OutstandingProbe]:
        """Remove and return the probes that timed out."""
        late = [number for number, each in self._open.items() if self._until_ns(each) <= now_ns]
        if late:
            oldest_ns = now_ns - _MOST * self.patience_ns
            self._given_up = {n: each for n, each in self._given_up.items() if each.sent_ns > oldest_ns}
            self._given_up |= {number: self._open.pop(number) for number in late}
        return [self._given_up[number] for number in late]

    def is_on(self, row: int) -> bool:
        """Report whether an outstanding probe was sent on an EV row."""
        return any(each.row == row for each in self._open.values())

    @property
    def deadline_ns(self) -> int | None:
        """Time at which the first probe times out; None if none waits."""
        return min((self._until_ns(each) for each in self._open.values()), default=None)

    def _until_ns(self, probe: OutstandingProbe) -> int:
        slow_ns = 2 * self._slowest_ns.get(probe.where, 0)
        return probe.sent_ns + max(self.patience_ns, min(slow_ns, _MOST * self.patience_ns))


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
