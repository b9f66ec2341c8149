"""What the MRC agents reported in a run, summed while it is read: a million events take no more room than a hundred."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field

import msgspec
import numpy as np

from agent.wire.ev import EvCodec
from results.report.lines import Lines

BIN_NS = 10_000_000
"""Losses and the like are summed over this time (our choice: a figure has some hundred columns)."""

KEPT_CHANGES = 5000
"""Changes of entropy-value states that are kept one by one; of later ones only the number."""


@dataclass(frozen=True)
class StateChange:
    """Entropy values of one queue pair that changed their state."""

    at_ns: int
    node: str
    state: str
    signal: str
    paths: tuple[tuple[int, int], ...]
    """(plane, spine) of each; spine -1 where a path turns at a leaf."""


@dataclass
class AgentEvents:
    """Sums of `agent.jsonl`."""

    lost: Counter[int] = field(default_factory=Counter)
    """Packets shown to be lost, by number of the bin of BIN_NS."""
    timed_out: Counter[int] = field(default_factory=Counter)
    refused: Counter[int] = field(default_factory=Counter)
    """By NACKs."""
    lost_by_path: Counter[tuple[str, int, int]] = field(default_factory=Counter)
    """Packets lost, timed out or refused by (node, plane, spine)."""
    changes: list[StateChange] = field(default_factory=list)
    more_changes: int = 0
    ports: list[tuple[int, str, str]] = field(default_factory=list)
    """(monotonic ns, node, what) of ports that went up or down."""
    errors: list[tuple[int, str, str]] = field(default_factory=list)
    """(monotonic ns, node, reason) of queue pairs that failed."""
    events: Counter[str] = field(default_factory=Counter)
    """How many records of each kind."""
    first_ns: int | None = None
    last_ns: int | None = None


class _Line(msgspec.Struct):
    event: str
    mono_ns: int = 0
    node: str = ""
    packets: int = 0
    state: str = ""
    signal: str = ""
    reason: str = ""
    side: str = ""
    up: tuple[int, ...] = ()
    down: tuple[int, ...] = ()
    evs: msgspec.Raw = msgspec.Raw(b"null")


_CODEC = EvCodec()


def read_agents(lines: Lines) -> AgentEvents:
    """All of `agent.jsonl`."""
    found = AgentEvents()
    paths = _Paths()
    for line in lines.of_type(_Line):
        kind = line.event
        found.events[kind] += 1
        if kind == "LOSS":
            _lose(found, found.lost, line, paths)
        elif kind == "ACK_TIMEOUT":
            _lose(found, found.timed_out, line, paths)
        elif kind.startswith("NACK_") and kind not in ("NACK_TX", "NACK_RX"):
            _lose(found, found.refused, line, paths)
        elif kind == "EV_STATE":
            _change(found, line, paths)
        elif kind == "PORT":
            found.ports.append((line.mono_ns, line.node, _ports_text(line)))
        elif kind == "QP_ERROR":
            found.errors.append((line.mono_ns, line.node, line.reason))
        if found.first_ns is None:
            found.first_ns = line.mono_ns
        found.last_ns = line.mono_ns
    return found


def _ports_text(line: _Line) -> str:
    ways = (("up", line.up), ("down", line.down))
    return f"{line.side}: " + ", ".join(f"plane {plane} {way}" for way, planes in ways for plane in planes)


class _Paths(defaultdict[str, tuple[int, int]]):
    """(plane, spine) of an entropy value as JSON spells it, worked out once each."""

    def __missing__(self, ev: str) -> tuple[int, int]:
        value = np.array(int(ev, 0), np.uint32)
        self[ev] = path = int(_CODEC.plane_of(value)), int(_CODEC.spine_of(value))
        return path


def _lose(found: AgentEvents, bins: Counter[int], line: _Line, paths: _Paths) -> None:
    bins[line.mono_ns // BIN_NS] += line.packets
    try:
        by_ev = msgspec.json.decode(line.evs, type=dict[str, int] | None)
    except msgspec.MsgspecError:
        return
    for ev, packets in (by_ev or {}).items():
        found.lost_by_path[line.node, *paths[ev]] += packets


def _change(found: AgentEvents, line: _Line, paths: _Paths) -> None:
    if len(found.changes) >= KEPT_CHANGES:
        found.more_changes += 1
        return
    try:
        evs = msgspec.json.decode(line.evs, type=list[int | str] | None) or []
    except msgspec.MsgspecError:
        evs = []
    where = tuple(paths[str(ev)] for ev in evs)
    found.changes.append(StateChange(line.mono_ns, line.node, line.state, line.signal, where))
