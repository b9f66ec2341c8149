"""Probes that wait for an answer, and how long an answer may take on each path.

An answer that comes too late revives no EV, but it shows that the path works and is slow: the next probe there gets
more time. Otherwise a queue that is longer there than elsewhere would fail every probe. Our choice.
"""

from dataclasses import dataclass

_MOST = 16
"""Patience grows to so many times the least, and answers later than that are forgotten. Our choice: a process that
stood still for a second must not make a second of every lost probe."""

_KEPT_OF_8 = 7
"""Eighths of the slowest answer that are left after a faster one (the weight of RFC 6298)."""


@dataclass(frozen=True, slots=True)
class OutstandingProbe:
    """One probe."""

    row: int
    """EV row it was sent on."""
    sent_ns: int
    tag: int
    """A number of the sender's own, returned with the answer."""
    where: int
    """Probes of one place share their patience: those of a row, or of a plane."""


class OutstandingProbes:
    """Probes without an answer, by number; the sender chooses numbers that are unique among those under way."""

    def __init__(self, patience_ns: int) -> None:
        self.patience_ns = patience_ns
        """Least time an answer is waited for; may be changed."""
        self._open: dict[int, OutstandingProbe] = {}
        self._given_up: dict[int, OutstandingProbe] = {}
        self._slowest_ns: dict[int, int] = {}
        """Of each place the slowest answer, fading with faster ones."""

    def __len__(self) -> int:
        """Those that wait for an answer."""
        return len(self._open)

    def sent(self, number: int, probe: OutstandingProbe) -> None:
        """It is sent."""
        self._given_up.pop(number, None)
        self._open[number] = probe

    def answered(self, number: int, now_ns: int) -> tuple[OutstandingProbe, bool] | None:
        """Of which probe an answer has come, and whether in time; None if nobody asked, or long ago."""
        probe = self._open.pop(number, None)
        in_time = probe is not None
        probe = probe or self._given_up.pop(number, None)
        if probe is None:
            return None
        slowest_ns = self._slowest_ns.get(probe.where, 0) * _KEPT_OF_8 // 8
        self._slowest_ns[probe.where] = max(now_ns - probe.sent_ns, slowest_ns)
        return probe, in_time

    def overdue(self, now_ns: int) -> list[OutstandingProbe]:
        """Those that have waited too long, which are given up."""
        late = [number for number, each in self._open.items() if self._until_ns(each) <= now_ns]
        if late:
            oldest_ns = now_ns - _MOST * self.patience_ns
            self._given_up = {n: each for n, each in self._given_up.items() if each.sent_ns > oldest_ns}
            self._given_up |= {number: self._open.pop(number) for number in late}
        return [self._given_up[number] for number in late]

    def is_on(self, row: int) -> bool:
        """Whether one that waits for an answer was sent on an EV row."""
        return any(each.row == row for each in self._open.values())

    @property
    def deadline_ns(self) -> int | None:
        """When one will have waited too long; None if none waits."""
        return min((self._until_ns(each) for each in self._open.values()), default=None)

    def _until_ns(self, probe: OutstandingProbe) -> int:
        slow_ns = 2 * self._slowest_ns.get(probe.where, 0)
        return probe.sent_ns + max(self.patience_ns, min(slow_ns, _MOST * self.patience_ns))
