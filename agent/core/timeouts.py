"""Probes that wait for an answer, and how long an answer may take on each path.

An answer that is too late revives no EV, but it shows that the path works and is slow: the next probe there gets more
time. Otherwise every probe would fail on a path with a longer queue than elsewhere. Our choice.
"""

from dataclasses import dataclass

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
