"""Sums what the MRC agents reported in a run while reading it, so memory does not grow with the number of events."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Union

import numpy as np

from agent.wire.ev import EvCodec
from results.files.reading import Lines, event_of
from results.records.agent_records import AGENT_RECORDS, EvState, OfPackets, Port, QpError

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
