"""Formats faults and next steps of timelines for people: a row per direction, or per fault where there are many.
Pure.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from results.fault_text import fault_text, held_text
from scenarios.lab.protocol import FaultPlanned, FaultState

COLUMNS = ("link", "asked", "in force", "mechanism", "SEEN", "DROPPED", "set by", "since")
PLANNED_COLUMNS = ("link", "asked", "next", "when", "set by")

MOST_ROWS = 8
"""Most faults with a row per direction; of more, equal ones are grouped (our choice: they fit on a screen)."""

T = TypeVar("T", FaultState, FaultPlanned)
Row = tuple[str, ...]


def fault_rows(states: Sequence[FaultState], each: bool) -> list[Row]:
    """Group faults; counters of a group are summed, and `since` is when its first fault was set."""
    return [_row(alike) for alike in _told_together(states, _likeness, each)]


def planned_rows(planned: Sequence[FaultPlanned], each: bool) -> list[Row]:
    """Group timelines in the same way."""
    return [(_where(alike), *_plan(alike[0])) for alike in _told_together(planned, _plan, each)]


def folds(states: Sequence[FaultState], planned: Sequence[FaultPlanned]) -> bool:
    """Return whether any faults would be grouped."""
    return len(fault_rows(states, False)) < len(states) or len(planned_rows(planned, False)) < len(planned)


def _told_together(told: Sequence[T], likeness: Callable[[T], Row], each: bool) -> Iterable[list[T]]:
    if each or len(told) <= MOST_ROWS:
        return [[one] for one in told]
    groups: dict[Row, list[T]] = {}
    for one in told:
        groups.setdefault(likeness(one), []).append(one)
    return groups.values()


def _likeness(state: FaultState) -> Row:
    return (fault_text(state.kind, state.requested_text), held(state), state.mechanism, state.by)


def held(state: FaultState) -> str:
    """Describe what the kernel holds, in words."""
    return held_text(state.kind, state.in_force_text)


def _row(alike: Sequence[FaultState]) -> Row:
    *what, by = _likeness(alike[0])
    seen, dropped = sum(state.seen for state in alike), sum(state.dropped for state in alike)
    return (_where(alike), *what, f"{seen:,}", f"{dropped:,}", by, min(state.since for state in alike))


def _plan(planned: FaultPlanned) -> Row:
    return (fault_text(planned.kind, planned.requested_text), planned.act, _when(planned), planned.by)


def _when(planned: FaultPlanned) -> str:
    event = "" if planned.event is None else f"on {planned.event}"
    if planned.in_s is None:
        return event
    return f"in {planned.in_s:.1f} s" + (f", or {event}" if event else "")


def _where(alike: Sequence[FaultState | FaultPlanned]) -> str:
    first = alike[0].link
    return first if len(alike) == 1 else f"{len(alike):,} directions, {first} first"
