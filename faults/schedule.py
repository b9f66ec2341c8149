"""Schedules when faults are set and cleared: a pure timeline that gets the time and events as arguments.

It knows no clocks, links and kernels: time is in nanoseconds, randomness is a seed. A kind defines the acts within one
time in force: a flap and a reboot are timelines too.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from faults.kinds import Fault
from faults.timing import Act, Edge, Event, Timing


def edges_of(fault: Fault, timing: Timing, seed: int) -> Iterator[Edge]:
    """Yield every edge of a timeline in the order of time, from its start; may never end."""
    for start, length in _windows(timing):
        yield from fault.edges(start, length, seed)


def _windows(timing: Timing) -> Iterator[tuple[int, int | None]]:
    """Yield start and length of each time in force; None for no end."""
    start, turn = timing.at_ns or 0, 0
    while True:
        yield start + turn * (timing.every_ns or 0), timing.for_ns
        turn += 1
        if timing.every_ns is None or (timing.times is not None and turn >= timing.times):
            return


Name = TypeVar("Name", bound=Hashable)
"""Key that distinguishes timelines."""


@dataclass(frozen=True, slots=True)
class Due(Generic[Name]):
    """An act whose time has come, for the timeline of that name."""

    name: Name
    act: Act
    at_ns: int
    """Time when it was due; it is never early."""
    last: bool
    """Whether it is the last act of this timeline."""
    skipped: int = 0
    """Edges before it that came too late: the one after the next was already due."""


@dataclass(frozen=True, slots=True)
class Next:
    """The next step of a timeline, at a time, at an event, or at whichever comes first."""

    act: Act
    at_ns: int | None
    event: Event | None


@dataclass(slots=True)
class _Line:
    fault: Fault
    timing: Timing
    seed: int
    edges: Iterator[Edge]
    start_ns: int | None
    next: Edge | None
    begun: bool = False


class Schedule(Generic[Name]):
    """The timelines of one lab by name. It returns what is due at a time, and starts timelines at events."""

    def __init__(self) -> None:
        self._lines: dict[Name, _Line] = {}

    def add(self, name: Name, fault: Fault, timing: Timing, seed: int, now_ns: int) -> None:
        """Begin a timeline, in place of one of the same name."""
        edges = edges_of(fault, timing, seed)
        start = None if timing.on is not None else now_ns
        self._lines[name] = _Line(fault, timing, seed, edges, start, next(edges, None))

    def count_from(self, names: Iterable[Name], now_ns: int) -> None:
        """Restart the clock of timelines whose start took a while: later acts count from now for all of them."""
        for name in names:
            line = self._lines.get(name)
            if line is not None and line.start_ns is not None:
                line.start_ns = now_ns

    def drop(self, name: Name) -> Callable[[], None]:
        """Remove a timeline, if there is one; the returned function restores it."""
        line = self._lines.pop(name, None)

        def put_back() -> None:
            if line is not None:
                self._lines[name] = line

        return put_back

    def happened(self, event: Event, now_ns: int, names: frozenset[Name] | None = None) -> tuple[Due[Name], ...]:
        """Start timelines that wait for `event`; those that end with it are due to clear. Only `names` end."""
        due = []
        for name, line in list(self._lines.items()):
            if line.timing.on is event and line.start_ns is None:
                line.start_ns = now_ns
            if line.timing.until is event and line.begun and (names is None or name in names):
                self.drop(name)
                due.append(Due(name, Act.CLEAR, now_ns, True))
        return tuple(due)

    def ahead(self, event: Event, now_ns: int) -> tuple[Due[Name], ...]:
        """Return what is due at the moment of an event that is about to happen: done now, it is in force by then.

        The clock of these timelines starts only when it has happened.
        """
        waiting = [(name, line) for name, line in self._lines.items() if line.timing.on is event]
        return tuple(
            self._begun(name, line, now_ns)
            for name, line in waiting
            if line.start_ns is None and not line.begun and line.next is not None and not line.next.after_ns
        )

    def _begun(self, name: Name, line: _Line, now_ns: int) -> Due[Name]:
        """Return the first edge of a timeline, before its clock starts."""
        assert line.next is not None
        act, line.next, line.begun = line.next.act, next(line.edges, None), True
        ended = line.next is None
        if ended and line.timing.until is None:
            self.drop(name)
        return Due(name, act, now_ns, ended)

    def due(self, now_ns: int, names: Iterable[Name] | None = None) -> tuple[Due[Name], ...]:
        """Return everything due, of these timelines or all, in the order of time; each act is returned once.

        Of one timeline at most two edges: of those that nobody looked for in time only what leads to its present state.
        """
        found: list[Due[Name]] = []
        for name in list(self._lines) if names is None else names:
            if name in self._lines:
                found += self._due_of(name, self._lines[name], now_ns)
        return tuple(sorted(found, key=lambda due: due.at_ns))

    def next_ns(self) -> int | None:
        """Return when something is due next; None when nothing is, or only after an event."""
        lines = self._lines.values()
        return min(
            (ln.start_ns + ln.next.after_ns for ln in lines if ln.next and ln.start_ns is not None), default=None
        )

    def waits_for(self, event: Event) -> bool:
        """Return whether anything begins or ends with `event`."""
        return any(
            (line.timing.on is event and line.start_ns is None) or line.timing.until is event
            for line in self._lines.values()
        )

    def next_of(self, name: Name) -> Next | None:
        """Return the next step of one timeline; None when nothing follows."""
        line = self._lines.get(name)
        if line is None:
            return None
        until = line.timing.until if line.begun else None
        if line.next is None:
            return Next(Act.CLEAR, None, until) if until else None
        if line.start_ns is None:
            return Next(line.next.act, None, line.timing.on)
        return Next(line.next.act, line.start_ns + line.next.after_ns, until if line.next.act is Act.CLEAR else None)

    def _due_of(self, name: Name, line: _Line, now_ns: int) -> Iterator[Due[Name]]:
        if line.start_ns is None:
            return
        late, count = deque[Edge](maxlen=2), 0
        while line.next and line.start_ns + line.next.after_ns <= now_ns:
            late.append(line.next)
            line.next, count = next(line.edges, None), count + 1
        if not late:
            return
        line.begun, ended = True, line.next is None
        if ended and (late[-1].act is Act.CLEAR or line.timing.until is None):
            self.drop(name)
        kept = list(late)[-1:] if count % 2 else list(late)  # edges alternate: an odd number ends in the other state
        for at, edge in enumerate(kept):
            last = ended and edge is kept[-1]
            yield Due(name, edge.act, line.start_ns + edge.after_ns, last, 0 if at else count - len(kept))
