"""Fabric in memory with virtual time, where frames arrive later, elsewhere or not at all, reproducibly by seed.

Carries whole frames between `FramePort`s by their outer and inner addresses and knows no protocol beyond the opcode
byte, which rules may select. Time stands still until `advance`. For tests: nothing here uses the kernel.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agent.io.port import FrameBlock, FrameSpace, PortCounters
from agent.wire.dtypes import BASE_FRAME, BTH_OFFSET, offset_of
from agent.wire.usid import UsidRole

_SECOND_USID = offset_of(BASE_FRAME, "outer", "dst") + 6
"""Offset of the second uSID, after the 32-bit block and the source leaf: the spine, or a downlink of the same leaf."""
_INNER_TARGET = offset_of(BASE_FRAME, "inner", "dst")

Alter = Callable[[NDArray[np.uint8], NDArray[np.uint32]], None]
"""Changes frames (n, stride) and their lengths (n,) in place: trims or corrupts them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathRule:
    """Impairment of matching frames; a field left None matches every frame."""

    plane: int | None = None
    spine: int | None = None
    source: int | None = None
    """Sending host."""
    target: int | None = None
    """Receiving host."""
    opcodes: tuple[int, ...] | None = None
    first_ns: int = 0
    """Virtual time from which the rule holds."""
    end_ns: int = 1 << 62
    """Virtual time at which the rule ends."""
    loss: float = 0.0
    """Share of the matching frames that are lost."""
    duplicate: float = 0.0
    """Share of the matching frames that arrive twice."""
    delay_ns: int = 0
    """Delay added to the path's own."""
    jitter_ns: int = 0
    """Uniform extra delay up to this much, per frame: breaks the order within a path."""
    alter: Alter | None = None


@dataclass(slots=True)
class RuleCount:
    """Counts of a rule: frames matched and affected."""

    seen: int = 0
    dropped: int = 0
    duplicated: int = 0


@dataclass(frozen=True, slots=True)
class _Flight:
    """Frames in flight, with the effects of rules."""

    frames: NDArray[np.uint8]
    lengths: NDArray[np.uint32]
    target: NDArray[np.int64]
    spine: NDArray[np.int64]
    due_ns: NDArray[np.int64]

    def take(self, rows: NDArray[np.intp] | NDArray[np.bool_]) -> "_Flight":
        return _Flight(self.frames[rows], self.lengths[rows], self.target[rows], self.spine[rows], self.due_ns[rows])


class MemoryFabric:
    """Connects ports of hosts; every (plane, spine) is a FIFO path with its own delay unless a rule changes that."""

    def __init__(
        self,
        rng: np.random.Generator,
        rules: tuple[PathRule, ...] = (),
        *,
        base_delay_ns: int = 20_000,
        path_skew_ns: int = 3_000,
    ) -> None:
        self.now_ns = 0
        self.rules = rules
        self.counts = [RuleCount() for _ in rules]
        self.unroutable = 0
        """Frames whose addresses lead nowhere, or into another plane than that of the sending port."""
        self._rng = rng
        self._base_delay_ns = base_delay_ns
        self._path_skew_ns = path_skew_ns
        self._ports: dict[tuple[int, int], MemoryPort] = {}
        self._hosts: dict[int, int] = {}

    def open_port(
        self, host: int, plane: int, address: bytes, *, frame_bytes: int = 4242, slots: int = 1024
    ) -> "MemoryPort":
        """Open a port of `host`, whose own (inner) IPv6 address is `address`, 16 bytes."""
        port = MemoryPort(self, host, plane, frame_bytes, slots)
        self._ports[host, plane] = port
        self._hosts[int.from_bytes(address[8:])] = host
        return port

    def advance(self, now_ns: int) -> None:
        """Advance the time to `now_ns`. Raises ValueError if that is in the past."""
        if now_ns < self.now_ns:
            raise ValueError(f"time went back from {self.now_ns} to {now_ns} ns")
        self.now_ns = now_ns

    def next_arrival_ns(self) -> int | None:
        """Time at which the next frame in flight arrives."""
        due = [port.next_due_ns() for port in self._ports.values()]
        return min((value for value in due if value is not None), default=None)

    def carry(self, port: "MemoryPort", frames: NDArray[np.uint8], lengths: NDArray[np.uint32]) -> None:
        """Take (n, stride) frames of (n,) bytes from a port, apply the rules in order, queue the rest at hosts."""
        flight = self._routed(port, frames, lengths)
        for rule, count in zip(self.rules, self.counts, strict=True):
            flight = self._apply(rule, count, port, flight)
        for host in np.unique(flight.target):
            self._ports[int(host), port.plane].arrive(flight.take(flight.target == host))

    def _routed(self, port: "MemoryPort", frames: NDArray[np.uint8], lengths: NDArray[np.uint32]) -> _Flight:
        usid = _big_endian(frames, _SECOND_USID, ">u2")
        known = np.array(sorted(self._hosts), np.int64)
        suffix = _big_endian(frames, _INNER_TARGET + 8, ">i8")
        place = np.minimum(np.searchsorted(known, suffix), len(known) - 1)
        hosts = np.array([self._hosts[int(key)] for key in known], np.int64)
        crosses = usid >> 12 == UsidRole.T1
        routable = (known[place] == suffix) & (lengths >= BASE_FRAME.itemsize)
        routable &= ~crosses | ((usid >> 8) & 0xF == port.plane)
        self.unroutable += int(len(frames) - routable.sum())
        spine = np.where(crosses, usid & 0xFF, -1)
        due = self.now_ns + self._base_delay_ns + (spine + 1) * self._path_skew_ns
        return _Flight(frames.copy(), lengths.copy(), hosts[place], spine, due).take(routable)

    def _apply(self, rule: PathRule, count: RuleCount, port: "MemoryPort", flight: _Flight) -> _Flight:
        if not rule.first_ns <= self.now_ns < rule.end_ns or not len(flight.lengths):
            return flight
        hit = np.flatnonzero(_matches(rule, port, flight))
        count.seen += len(hit)
        if rule.alter and len(hit):
            rows, lengths = flight.frames[hit], flight.lengths[hit]
            rule.alter(rows, lengths)
            flight.frames[hit], flight.lengths[hit] = rows, lengths
        flight.due_ns[hit] += rule.delay_ns
        if rule.jitter_ns:
            flight.due_ns[hit] += self._rng.integers(0, rule.jitter_ns, len(hit))
        copies = np.ones(len(flight.lengths), np.int64)
        copies[hit] += self._rng.random(len(hit)) < rule.duplicate
        count.duplicated += int((copies > 1).sum())
        copies[hit[self._rng.random(len(hit)) < rule.loss]] = 0
        count.dropped += int((copies == 0).sum())
        return flight.take(np.repeat(np.arange(len(copies)), copies))


def _big_endian(frames: NDArray[np.uint8], offset: int, form: str) -> NDArray[np.int64]:
    width = np.dtype(form).itemsize
    return np.ascontiguousarray(frames[:, offset : offset + width]).view(form)[:, 0].astype(np.int64)


def _matches(rule: PathRule, port: "MemoryPort", flight: _Flight) -> NDArray[np.bool_]:
    hit = np.full(len(flight.lengths), rule.plane in (None, port.plane) and rule.source in (None, port.host))
    if rule.spine is not None:
        hit &= flight.spine == rule.spine
    if rule.target is not None:
        hit &= flight.target == rule.target
    if rule.opcodes is not None:
        hit &= np.isin(flight.frames[:, BTH_OFFSET], rule.opcodes)
    return hit


class MemoryPort:
    """A `FramePort` of a `MemoryFabric`."""

    def __init__(self, fabric: MemoryFabric, host: int, plane: int, frame_bytes: int, slots: int) -> None:
        self.host = host
        self._plane = plane
        self._fabric = fabric
        self._rows = np.zeros((slots, frame_bytes), np.uint8)
        self._lengths = np.zeros(slots, np.uint32)
        self._filled = 0
        self._waiting = _Flight(
            np.zeros((0, frame_bytes), np.uint8),
            np.zeros(0, np.uint32),
            np.zeros(0, np.int64),
            np.zeros(0, np.int64),
            np.zeros(0, np.int64),
        )
        self._rx_frames = self._tx_frames = 0
        self.is_up = True
        """State of the port; while it is down it drops all frames, sent and arriving."""

    @property
    def plane(self) -> int:
        """Return the plane of this port."""
        return self._plane

    def arrive(self, flight: _Flight) -> None:
        """Queue frames behind those that are due no later."""
        old = self._waiting
        due = np.concatenate((old.due_ns, flight.due_ns))
        merged = _Flight(
            np.concatenate((old.frames, flight.frames)),
            np.concatenate((old.lengths, flight.lengths)),
            np.concatenate((old.target, flight.target)),
            np.concatenate((old.spine, flight.spine)),
            due,
        )
        self._waiting = merged.take(np.argsort(due, kind="stable"))

    def carrier(self) -> bool:
        """Report whether the port is up."""
        return self.is_up

    def next_due_ns(self) -> int | None:
        """Time at which the next frame arrives."""
        due = self._waiting.due_ns
        return int(due[0]) if len(due) else None

    def receive(self, limit: int) -> FrameBlock | None:
        """Return frames that have arrived by now."""
        if not self.is_up:
            self._waiting = self._waiting.take(self._waiting.due_ns > self._fabric.now_ns)
        count = min(limit, int(np.searchsorted(self._waiting.due_ns, self._fabric.now_ns, "right")))
        if not count:
            return None
        return FrameBlock(self._waiting.frames[:count], self._waiting.lengths[:count])

    def release(self, count: int) -> None:
        """Release the oldest frames."""
        self._waiting = self._waiting.take(np.arange(count, len(self._waiting.lengths)))
        self._rx_frames += count

    def room(self) -> int:
        """Count the rows free until the next send."""
        return len(self._rows) - self._filled

    def reserve(self, count: int) -> FrameSpace:
        """Return the next free rows."""
        return FrameSpace(self._rows[self._filled : self._filled + count])

    def fill(self, lengths: NDArray[np.uint32]) -> None:
        """Keep the reserved rows, of (n,) bytes, for `send`."""
        self._lengths[self._filled : self._filled + len(lengths)] = lengths
        self._filled += len(lengths)

    def send(self) -> int:
        """Give the rows to the fabric."""
        count, self._filled = self._filled, 0
        if count and self.is_up:
            self._fabric.carry(self, self._rows[:count], self._lengths[:count])
        self._tx_frames += count
        return count

    def counters(self) -> PortCounters:
        """Return the counters; a port in memory loses nothing by itself."""
        return PortCounters(self._rx_frames, 0, self._tx_frames, 0)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""
