"""Two queue pairs joined by queues in virtual time: every EV of each direction is one FIFO path with its own delay.

Columns are handed across directly, without frames; loss, duplication and jitter are drawn from a seed.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace

import numpy as np
from msgspec import structs

from agent.core.completion import CompletionQueue
from agent.core.config import QpConfig
from agent.core.congestion.interface import CongestionControl
from agent.core.ev.profile_sources import EvProfile
from agent.core.events import Event, QpState
from agent.core.memory_regions import MemoryRegion, RegionTable
from agent.core.psn import offsets_of
from agent.core.qp import QueuePair
from agent.wire.array.columns import SackBatch, SackColumns, WriteBatch, WriteColumns, windows
from agent.wire.array.control_columns import AckBatch, AckColumns, NackBatch, NackColumns, ProbeBatch, ProbeColumns

LOCAL_VA, REMOTE_VA = 0x10_0000, 0x7000_0000
RKEY = 0xBEEF


@dataclass(frozen=True)
class Weather:
    """What a direction does to its packets."""

    loss: float = 0.0
    duplication: float = 0.0
    base_delay_ns: int = 20_000
    spread_ns: int = 0
    """Greatest difference of the paths' delays."""
    jitter_ns: int = 0
    """Per packet; order within a path is kept."""
    dead_evs: frozenset[int] = frozenset()
    trim: float = 0.0
    """Share of the writes that arrive without payload."""
    trim_lasthop: bool = False
    marked_evs: frozenset[int] = frozenset()
    """EV rows on which writes meet congestion."""


class Direction:
    """Packets on their way, by arrival time."""

    def __init__(self, weather: Weather, evs: int, rng: np.random.Generator, beside: "Direction | None" = None) -> None:
        """`beside`: on the same paths as another direction, behind what it carries."""
        self.weather = weather
        self._rng = rng
        self._delay = weather.base_delay_ns + rng.integers(0, weather.spread_ns + 1, evs)
        self._last_arrival = np.zeros(evs, np.int64)
        if beside is not None:
            self._delay, self._last_arrival = beside._delay, beside._last_arrival
        self._parts: list[tuple[np.ndarray, object]] = []
        self.sent = self.dropped = self.duplicated = self.trimmed = 0

    def send(self, columns, ev_index: np.ndarray, now_ns: int) -> None:
        rng, weather = self._rng, self.weather
        self.sent += len(ev_index)
        kept = rng.random(len(ev_index)) >= weather.loss
        kept &= ~np.isin(ev_index, list(weather.dead_evs))
        self.dropped += int((~kept).sum())
        rows = np.flatnonzero(kept)
        twice = rng.random(len(rows)) < weather.duplication
        self.duplicated += int(twice.sum())
        rows = np.sort(np.concatenate((rows, rows[twice])))
        arrival = now_ns + self._delay[ev_index[rows]] + rng.integers(0, weather.jitter_ns + 1, len(rows))
        for i, ev in enumerate(ev_index[rows].tolist()):
            arrival[i] = self._last_arrival[ev] = max(arrival[i], self._last_arrival[ev])
        if len(rows):
            columns = columns.take(rows)
            if isinstance(columns, WriteColumns):
                columns = self._touched(columns, ev_index[rows])
            self._parts.append((arrival, columns))

    def _touched(self, columns: WriteColumns, ev_index: np.ndarray) -> WriteColumns:
        weather = self.weather
        cut = self._rng.random(len(columns)) < weather.trim
        self.trimmed += int(cut.sum())
        return replace(
            columns,
            trimmed=cut,
            trimmed_lasthop=cut & weather.trim_lasthop,
            payload_bytes=np.where(cut, 0, columns.payload_bytes).astype(np.uint32),
            ce=np.isin(ev_index, list(weather.marked_evs)),
        )

    def next_ns(self) -> int | None:
        return min((int(arrival.min()) for arrival, _ in self._parts), default=None)

    def arrived(self, now_ns: int):
        """Columns of what has arrived, oldest first, or None."""
        due, later = [], []
        for arrival, columns in self._parts:
            mask = arrival <= now_ns
            if mask.any():
                due.append((arrival[mask], columns.take(mask)))
            if not mask.all():
                later.append((arrival[~mask], columns.take(~mask)))
        self._parts = later
        if not due:
            return None
        order = np.concatenate([arrival for arrival, _ in due]).argsort(kind="stable")
        return joined([columns for _, columns in due]).take(order)


def joined(parts: list):
    """Columns one after the other; payload memories too."""
    first = parts[0]
    if len(parts) == 1:
        return first
    values = {f.name: getattr(first, f.name) for f in fields(first)}
    for name, value in values.items():
        if isinstance(value, np.ndarray):
            values[name] = np.concatenate([getattr(p, name) for p in parts])
    if isinstance(first, WriteColumns):
        starts = np.cumsum([0] + [len(p.memory) for p in parts[:-1]])
        values["payload_offset"] = np.concatenate(
            [p.payload_offset + s for p, s in zip(parts, starts.tolist(), strict=True)]
        )
    return type(first)(**values)


def write_columns(batch: WriteBatch, profile: EvProfile, dqpn: int) -> WriteColumns:
    """What a perfect wire would make of a batch."""
    n, width = len(batch), int(batch.payload_bytes.max())
    padded = np.concatenate((batch.source, np.zeros(width, np.uint8)))
    return WriteColumns(
        psn=batch.psn,
        opcode=batch.opcode,
        flags=batch.flags,
        dqpn=np.full(n, dqpn, np.uint32),
        ce=np.zeros(n, bool),
        trimmed=np.zeros(n, bool),
        trimmed_lasthop=np.zeros(n, bool),
        ev=profile.evs[batch.ev_index],
        msn=batch.msn,
        rqmsn=batch.rqmsn,
        tx_timestamp=np.full(n, batch.tx_timestamp, np.uint16),
        va=batch.va,
        rkey=batch.rkey,
        dmalen=batch.dmalen,
        imm=np.zeros(n, np.uint32) if batch.imm is None else batch.imm,
        payload_bytes=batch.payload_bytes,
        payload_offset=np.arange(n, dtype=np.int64) * width,
        memory=windows(padded, width)[batch.source_offset].reshape(-1),
        plane=0,
    )


def sack_columns(batch: SackBatch, dqpn: int) -> SackColumns:
    """What a perfect wire would make of SACKs."""
    values = {f.name: getattr(batch, f.name) for f in fields(batch) if f.name != "ev_index"}
    return SackColumns(**values, dqpn=np.full(len(batch), dqpn, np.uint32), plane=0)


def control_columns(batch, profile: EvProfile, dqpn: int):
    """What a perfect wire would make of NACKs, transport ACKs and probes."""
    kind = {AckBatch: AckColumns, NackBatch: NackColumns, ProbeBatch: ProbeColumns}[type(batch)]
    n = len(batch)
    values = {f.name: getattr(batch, f.name) for f in fields(batch) if f.name not in ("ev_index", "in_control")}
    if kind is ProbeColumns:
        values |= {"tsr": np.ones(n, bool), "ce": np.zeros(n, bool), "ev": profile.evs[batch.ev_index]}
    return kind(**values, dqpn=np.full(n, dqpn, np.uint32), plane=0)


def profile_of(planes: int = 2, evs_per_plane: int = 8) -> EvProfile:
    plane = np.repeat(np.arange(planes, dtype=np.uint8), evs_per_plane)
    return EvProfile(np.arange(len(plane), dtype=np.uint32) + 0xC0001000, plane)


@dataclass
class End:
    """One host's queue pair, its memories and the direction it sends in."""

    qp: QueuePair
    source: MemoryRegion
    sink: MemoryRegion
    writes: Direction
    sacks: Direction
    controls: dict[type, Direction]
    events: list[Event] = field(default_factory=list)
    batches: list[WriteBatch] = field(default_factory=list)
    top: int = 0
    """Offset after the highest PSN sent."""
    base: int = 0
    """Offset after the highest cumulative point this end was told."""

    def note_sent(self, batch: WriteBatch) -> None:
        self.batches.append(batch)
        self.top = max(self.top, int(offsets_of(batch.psn, self.qp.start_psn, self.top).max()) + 1)
        assert self.top - self.base <= self.qp.config.send_window_psns

    def note_sacks(self, sacks: SackColumns) -> None:
        self.base = max(self.base, int(offsets_of(sacks.cack_psn, self.qp.start_psn, self.base).max()) + 1)


class QpPair:
    """Two connected ends and the time they share."""

    def __init__(
        self,
        seed: int,
        config: QpConfig,
        *,
        writes: Weather | None = None,
        sacks: Weather | None = None,
        memory_bytes: int = 1 << 16,
        profile: EvProfile | None = None,
        tick_ns: int = 5_000,
        limit: int = 256,
        completions: bool = False,
        control: Callable[[], CongestionControl] | None = None,
    ) -> None:
        self.now_ns = 1_000_000_000
        self.profile = profile or profile_of()
        self.tick_ns, self.limit = tick_ns, limit
        rng = np.random.default_rng(seed)
        evs = len(self.profile.evs)
        self.ends = []
        for number in range(2):
            queue = CompletionQueue() if completions else None
            source = MemoryRegion(LOCAL_VA, 1, rng.integers(0, 256, memory_bytes, dtype=np.uint8))
            sink = MemoryRegion(REMOTE_VA, RKEY, np.zeros(memory_bytes, np.uint8))
            regions = RegionTable()
            regions.register(sink)
            config_here = structs.replace(config, seed=seed + number)
            window = control() if control else None
            qp = QueuePair(100 + number, config_here, self.profile, regions, rng.spawn(1)[0], queue, window)
            ways = [Direction(w or Weather(), evs, rng.spawn(1)[0]) for w in (writes, sacks)]
            controls = {
                kind: Direction(way.weather, evs, rng.spawn(1)[0], beside=way)
                for kind, way in ((NackColumns, ways[1]), (AckColumns, ways[1]), (ProbeColumns, ways[0]))
            }
            self.ends.append(End(qp, source, sink, *ways, controls))
        one, two = self.ends
        one.qp.connect(two.qp.offer(), self.now_ns)
        two.qp.connect(one.qp.offer(), self.now_ns)

    def post(self, end: int, length: int, message_bytes: int, offset: int = 0) -> None:
        """Write the source's bytes to the same place in the other end's sink."""
        this = self.ends[end]
        this.qp.post_writes(this.source, offset, length, REMOTE_VA + offset, RKEY, message_bytes)

    def step(self) -> bool:
        """One turn of both ends; then to the next tick or event. False when nothing will ever happen."""
        for this, other in ((self.ends[0], self.ends[1]), (self.ends[1], self.ends[0])):
            self._turn(this, other)
        ways = [way for e in self.ends for way in (e.writes, e.sacks, *e.controls.values())]
        due = [*(way.next_ns() for way in ways), *(e.qp.next_deadline_ns() for e in self.ends)]
        due = [t for t in due if t is not None]
        if not due:
            return False
        self.now_ns = max(self.now_ns + self.tick_ns, min(due))
        return True

    def run(self, within_ns: int) -> None:
        """Until nothing is left to do; fails if virtual time exceeds the bound."""
        end_ns = self.now_ns + within_ns
        while self.step():
            assert self.now_ns <= end_ns, [e.qp.progress() for e in self.ends]

    def _turn(self, this: End, other: End) -> None:
        writes, sacks = other.writes.arrived(self.now_ns), other.sacks.arrived(self.now_ns)
        nacks, acks, probes = (other.controls[k].arrived(self.now_ns) for k in (NackColumns, AckColumns, ProbeColumns))
        if nacks is not None:
            this.qp.receive_nacks(nacks, self.now_ns)
        if writes is not None:
            this.qp.receive_writes(writes, self.now_ns)
        if sacks is not None:
            this.note_sacks(sacks)
            this.qp.receive_sacks(sacks, self.now_ns)
        if acks is not None:
            this.qp.receive_acks(acks, self.now_ns)
        if probes is not None:
            this.qp.receive_probes(probes, self.now_ns)
        this.qp.on_timer(self.now_ns)
        for control in this.qp.control(self.now_ns):
            columns = control_columns(control, self.profile, other.qp.qpn)
            this.controls[type(columns)].send(columns, control.ev_index, self.now_ns)
        while (answer := this.qp.acknowledge(self.now_ns)) is not None:
            this.sacks.send(sack_columns(answer, other.qp.qpn), answer.ev_index, self.now_ns)
        while (batch := this.qp.transmit(self.limit, self.now_ns)) is not None:
            assert 1 <= len(batch) <= self.limit
            this.note_sent(batch)
            this.writes.send(write_columns(batch, self.profile, other.qp.qpn), batch.ev_index, self.now_ns)
        this.events += this.qp.drain_events()

    def check_delivered(self) -> None:
        """All posted bytes are at the other end, each packet was accepted exactly once."""
        for this, other in ((self.ends[0], self.ends[1]), (self.ends[1], self.ends[0])):
            mine, theirs = this.qp.progress(), other.qp.progress()
            assert mine.state is QpState.RTS
            assert mine.acked_bytes == mine.posted_bytes == theirs.responder.received_bytes
            assert mine.completed_messages == mine.posted_messages == theirs.responder.messages
            assert theirs.responder.received == this.qp.posted_pkts == mine.requester.packets_tx
            assert (mine.backlog_pkts, mine.in_flight_pkts, theirs.held_pkts) == (0, 0, 0)
            size = mine.posted_bytes
            assert np.array_equal(other.sink.data[:size], this.source.data[:size])
            assert not other.sink.data[size:].any()
