"""Reads what hosts recorded of a run: events of the MRC agents, progress of flows, load of the machine.

It sums while it reads and thins out long files, so memory does not grow with the number of records.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Generic, TypeVar, Union

import numpy as np
from numpy.typing import NDArray

from agent.wire.ev import EvCodec
from results.files.reading import Lines, event_of
from results.records.agent_records import (
    AGENT_RECORDS,
    EvState,
    LoadRecord,
    OfPackets,
    Port,
    ProgressRecord,
    QpError,
    Record,
)

BIN_NS = 10_000_000
"""Width of a bin over which losses are summed (our choice: a figure has some hundred columns)."""

KEPT_CHANGES = 5000
"""Most changes of entropy-value states that are kept one by one; later ones are only counted."""


@dataclass(frozen=True)
class StateChange:
    """Entropy values of one queue pair that changed their state."""

    at_ns: int
    node: str
    state: str
    signal: str
    paths: tuple[tuple[int, int], ...]
    """(plane, spine) of each path; spine is -1 where a path turns at a leaf."""


@dataclass
class AgentEvents:
    """Sums of `agent.jsonl`."""

    lost: Counter[int] = field(default_factory=Counter)
    """Packets counted as lost, by bin number (BIN_NS wide)."""
    timed_out: Counter[int] = field(default_factory=Counter)
    refused: Counter[int] = field(default_factory=Counter)
    """Lost packets that a NACK reported."""
    lost_by_path: Counter[tuple[str, int, int]] = field(default_factory=Counter)
    """Packets lost, timed out or refused by (node, plane, spine)."""
    changes: list[StateChange] = field(default_factory=list)
    more_changes: int = 0
    ports: list[tuple[int, str, str]] = field(default_factory=list)
    """(monotonic ns, node, change) of ports that went up or down."""
    errors: list[tuple[int, str, str]] = field(default_factory=list)
    """(monotonic ns, node, reason) of queue pairs that failed."""
    events: Counter[str] = field(default_factory=Counter)
    """Number of records per kind."""
    first_ns: int | None = None
    last_ns: int | None = None


_CODEC = EvCodec()


def read_agents(lines: Lines) -> AgentEvents:
    """Read all of `agent.jsonl`."""
    found = AgentEvents()
    paths = _Paths()
    bins = {"LOSS": found.lost, "ACK_TIMEOUT": found.timed_out}
    for line in lines.of_type(Union[AGENT_RECORDS]):  # noqa: UP007 - of a tuple there is no other way
        kind = event_of(line)
        found.events[kind] += 1
        match line:
            case OfPackets():
                _lose(found, bins.get(kind, found.refused), line, paths)
            case EvState():
                _change(found, line, paths)
            case Port():
                found.ports.append((line.mono_ns, line.node, _ports_text(line)))
            case QpError():
                found.errors.append((line.mono_ns, line.node, line.reason))
        if found.first_ns is None:
            found.first_ns = line.mono_ns
        found.last_ns = line.mono_ns
    return found


def _ports_text(line: Port) -> str:
    ways = (("up", line.up), ("down", line.down))
    return f"{line.side}: " + ", ".join(f"plane {plane} {way}" for way, planes in ways for plane in planes)


class _Paths(defaultdict[str, tuple[int, int]]):
    """Return (plane, spine) of an entropy value written in JSON; each value is parsed once."""

    def __missing__(self, ev: str) -> tuple[int, int]:
        value = np.array(int(ev, 0), np.uint32)
        self[ev] = path = int(_CODEC.plane_of(value)), int(_CODEC.spine_of(value))
        return path


def _lose(found: AgentEvents, bins: Counter[int], line: OfPackets, paths: _Paths) -> None:
    bins[line.mono_ns // BIN_NS] += line.packets
    for ev, packets in line.evs.items():
        found.lost_by_path[line.node, *paths[ev]] += packets


def _change(found: AgentEvents, line: EvState, paths: _Paths) -> None:
    if len(found.changes) >= KEPT_CHANGES:
        found.more_changes += 1
        return
    where = tuple(paths[ev] for ev in line.evs)
    found.changes.append(StateChange(line.mono_ns, line.node, line.state, line.signal, where))


T = TypeVar("T", bound=Record)

MOST_POINTS = 1200
"""Points per line in a figure; from twice as many on, every second one is left out (our choice)."""


@dataclass(frozen=True)
class Progress:
    """Progress of the flows over time."""

    at_ns: NDArray[np.int64]
    """(m,)"""
    acked_bytes: NDArray[np.int64]
    """(m, flows)"""
    resent: NDArray[np.int64]
    """(m, flows), packets"""


@dataclass(frozen=True)
class Load:
    """Load of the machine over time, `(m,)` each; NaN where a sample has no value."""

    at_ns: NDArray[np.int64]
    packets_per_s: NDArray[np.float64]
    cpu_busy_share: NDArray[np.float64]
    sched_wait_share: NDArray[np.float64]
    outstanding_bytes: NDArray[np.float64]


_OF_LOAD = ("packets_per_s", "cpu_busy_share", "sched_wait_share", "outstanding_bytes")


def read_counters(lines: Lines) -> tuple[Progress, Load]:
    """Read all of `counters.jsonl`."""
    progress, load = _Thinned[ProgressRecord](), _Thinned[LoadRecord]()
    for line in lines.of_type(LoadRecord | ProgressRecord):
        if isinstance(line, ProgressRecord):
            progress.add(line)
        else:
            load.add(line)
    flows = min((min(len(line.acked_bytes), len(line.resent)) for line in progress.lines), default=0)
    return (
        Progress(
            progress.times(),
            np.array([line.acked_bytes[:flows] for line in progress.lines], np.int64).reshape(
                len(progress.lines), flows
            ),
            np.array([line.resent[:flows] for line in progress.lines], np.int64).reshape(len(progress.lines), flows),
        ),
        Load(load.times(), *(np.array([getattr(line, name) for line in load.lines], float) for name in _OF_LOAD)),
    )


class _Thinned(Generic[T]):
    """Keeps every line, then every second one, then every fourth."""

    def __init__(self) -> None:
        self.lines: list[T] = []
        self._step = 1
        self._seen = 0

    def add(self, line: T) -> None:
        if self._seen % self._step == 0:
            self.lines.append(line)
        self._seen += 1
        if len(self.lines) > 2 * MOST_POINTS:
            del self.lines[1::2]
            self._step *= 2

    def times(self) -> NDArray[np.int64]:
        return np.array([line.mono_ns for line in self.lines], np.int64)
