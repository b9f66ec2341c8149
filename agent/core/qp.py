"""A queue pair: a requester and a responder behind five verbs, and the states that allow them.

    receive_...                      columns decoded by agent.wire, rows of this queue pair only
    on_timer, on_port_state          act on the time that has passed, on a port that went up or down
    control, acknowledge, transmit   what must go out, in this order: NACKs, ACKs, probes; SACKs; at most `limit` writes
    next_deadline_ns                 when to come back although nothing arrives
    drain_events                     what happened

Time and chance are arguments: the same inputs give the same outputs, always. States: MRC API.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from agent.core.completion import CompletionQueue, CompletionStatus, ReceiveQueue, Reports
from agent.core.config import PeerQp, QpConfig
from agent.core.congestion.interface import CongestionControl
from agent.core.counters import EvCounters, PlaneShare, Progress
from agent.core.errors import ConfigError, StateError
from agent.core.ev.controlled_profile import Replacements
from agent.core.ev.profile_sources import EvProfile
from agent.core.ev.reverse_evs import Ways
from agent.core.ev.state import EvState
from agent.core.events import (
    Event,
    PortOwner,
    PortsChanged,
    QpErrorReason,
    QpFailed,
    QpState,
    QpStateChanged,
)
from agent.core.memory_regions import MemoryRegion, RegionTable
from agent.core.psn import psn_of
from agent.core.receive.arrivals import ReorderCounts
from agent.core.receive.responder import Responder
from agent.core.send.messages import FlowShare
from agent.core.send.requester import Requester
from agent.wire.array.columns import SackBatch, SackColumns, WriteBatch, WriteColumns
from agent.wire.array.control_columns import AckBatch, AckColumns, NackBatch, NackColumns, ProbeBatch, ProbeColumns
from agent.wire.constants import AETH_ACK, AETH_NAK, PSN_MASK, RCV_CWND_PEN_MAX, NackReason, NakCode

TRANSITIONS: dict[QpState, frozenset[QpState]] = {
    QpState.RESET: frozenset({QpState.INIT, QpState.ERROR}),
    QpState.INIT: frozenset({QpState.RTR, QpState.ERROR}),
    QpState.RTR: frozenset({QpState.RTS, QpState.ERROR}),
    QpState.RTS: frozenset({QpState.ERROR}),
    QpState.ERROR: frozenset(),
}
"""States that may follow each state."""

_RECEIVING = (QpState.RTR, QpState.RTS)

_NEVER_NS = 1 << 62

_REVERSE_PERIOD_NS = 100_000
"""Shortest time between updates of a reverse EV from SACKs of our own data. Our choice: about one round trip, as for
probes."""

Control = NackBatch | AckBatch | ProbeBatch

_NAK_REASONS: dict[int, tuple[QpErrorReason, CompletionStatus]] = {
    NakCode.INVALID_REQUEST: (QpErrorReason.REMOTE_INVALID_REQUEST, CompletionStatus.REMOTE_INVALID_REQUEST),
    NakCode.REMOTE_ACCESS_ERROR: (QpErrorReason.REMOTE_ACCESS_ERROR, CompletionStatus.REMOTE_ACCESS_ERROR),
    NakCode.REMOTE_OPERATIONAL_ERROR: (QpErrorReason.REMOTE_OPERATION_ERROR, CompletionStatus.REMOTE_OPERATION_ERROR),
}
"""What a transport NAK does to the queue pair and to the message it refuses."""


_P = ParamSpec("_P")
_R = TypeVar("_R")


def _wakes(verb: Callable[Concatenate["QueuePair", _P], _R]) -> Callable[Concatenate["QueuePair", _P], _R]:
    """Mark a verb after which a resting queue pair may have work to do (`QueuePair.is_due`)."""

    @wraps(verb)
    def woken(self: "QueuePair", /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        self._rests_until_ns = 0
        return verb(self, *args, **kwargs)

    return woken


class QueuePair:
    """One end of a reliable connection. Packets are rows of arrays; only the pair is an object."""

    def __init__(
        self,
        qpn: int,
        config: QpConfig,
        profile: EvProfile,
        regions: RegionTable,
        rng: np.random.Generator,
        completions: CompletionQueue | None = None,
        control: CongestionControl | None = None,
    ) -> None:
        """Create a queue pair in RESET.

        `control` may be shared by all queue pairs to one destination; None: only PSN windows limit.
        """
        self.qpn = qpn
        self.config = config
        # A controller may replace values (`replace_ev`): only our copy changes.
        self.profile = profile = EvProfile(profile.evs.copy(), profile.planes)
        self.start_psn = int(rng.integers(PSN_MASK + 1)) if config.start_psn is None else config.start_psn
        self.receives = ReceiveQueue()
        """Receives posted for the peer's immediates."""
        self.completions = CompletionQueue() if completions is None else completions
        """Immediates of the peer, and our own writes if the caller supplied the queue and polls it."""
        self._state = QpState.RESET
        self._peer_qpn: int | None = None
        evs = EvCounters.zeros(len(profile.evs))
        self._reports = Reports(qpn, evs, completions)
        self._requester = Requester(config, profile, self.start_psn, rng, self._reports.add, qpn, control, evs)
        self._congestion = control
        self._responder = Responder(config, profile, regions, qpn, self.receives, self.completions)
        self._planes = np.unique(profile.planes)
        self._row_of_ev = {ev: row for row, ev in enumerate(profile.evs.tolist())}
        self._coming = Replacements(profile, self._requester.ev_set, self._requester.uses, self._reports.add)
        self._learnt_ns = -_REVERSE_PERIOD_NS
        self._ev_version = 0
        self._peer_ports: int | None = None
        self._heard_writes_ns: int | None = None
        self._reverse_probe_ns: int | None = None
        self._rests_until_ns = 0
        """Nothing is due before this time, unless a verb marked `_wakes` is called."""
        self._masks_agreed = False
        """True if SACKs carry port masks in both directions."""

    @property
    def state(self) -> QpState:
        """Return the state of the queue pair."""
        return self._state

    @property
    def peer_qpn(self) -> int | None:
        """Return the number of the queue pair at the other end; None before `connect`."""
        return self._peer_qpn

    @property
    def posted_pkts(self) -> int:
        """Count packets posted since the start; the next posted message starts at this offset."""
        return self._requester.messages.end

    @property
    def completed_messages(self) -> int:
        """Count our messages that are complete."""
        return self._requester.messages.completed

    @property
    def has_backlog(self) -> bool:
        """Report whether posted packets wait for their first transmission or a retransmission."""
        return self._requester.backlog_pkts > 0

    def offer(self) -> PeerQp:
        """Return the parameters that the other end needs out of band (MRC Table 10-1)."""
        config = self.config
        return PeerQp(
            self.qpn,
            self.start_psn,
            config.offered_mpr,
            config.max_wimm,
            config.dynamic_mpr,
            port_mask=config.ev.port_mask,
        )

    @_wakes
    def connect(self, peer: PeerQp, now_ns: int) -> None:
        """Go through RESET, INIT, RTR, RTS with the peer's parameters. Raises StateError unless in RESET."""
        if self._state is QpState.RESET:
            self._peer_qpn = peer.qpn
        self._go(QpState.INIT, now_ns)
        follows = self.config.dynamic_mpr and peer.dynamic_mpr is not False
        self._masks_agreed = self.config.ev.port_mask and peer.port_mask is not False
        self._tell_ports()
        self._responder.expect(peer.qpn, peer.start_psn, follows)
        self._go(QpState.RTR, now_ns)
        self._requester.expect(peer.qpn, peer.mpr, peer.max_wimm, follows)
        self._go(QpState.RTS, now_ns)

    def post_write(
        self,
        region: MemoryRegion,
        offset: int,
        length: int,
        remote_va: int,
        remote_rkey: int,
        imm: int | None = None,
    ) -> int:
        """Write `region.data[offset:offset + length]` to the peer as one message; return its number, counted from 0.

        With `imm`, 32 bits, the peer gets a completion when this message and all before it are in its memory. Raises
        StateError unless in RTS, RegionError if the bytes are not inside the region.
        """
        return self.post_writes(region, offset, length, remote_va, remote_rkey, length, imm)[0]

    def post_writes(
        self,
        region: MemoryRegion,
        offset: int,
        length: int,
        remote_va: int,
        remote_rkey: int,
        message_bytes: int,
        imm: int | None = None,
    ) -> range:
        """Post the write in messages of `message_bytes`, the last one shorter; return their numbers.

        Raises as `post_write`.
        """
        if self._state is not QpState.RTS:
            raise StateError(self._state.value, "posting")
        messages = self._requester.messages
        return messages.post(region.data, offset, length, remote_va, remote_rkey, message_bytes, imm)

    def post_receives(self, wr_id: int, count: int = 1) -> None:
        """Post `count` receives for immediates, numbered from `wr_id`.

        Raises StateError in RESET and ERROR, ConfigError for an impossible number.
        """
        if self._state in (QpState.RESET, QpState.ERROR):
            raise StateError(self._state.value, "posting a receive")
        self.receives.post(wr_id, count)

    def plane_shares(self, first: int, packets: int) -> list[PlaneShare]:
        """Compute how the packets at offsets first .. first + packets - 1 will spread over planes.

        Unused planes are absent.

        Offsets count from the queue pair's start, as `posted_pkts` does; the packets need not be posted yet. Exact
        while no port changes and no EV is skipped; replacement EVs are of the same plane.
        """
        schedule = self._requester.ev_set.schedule
        start = first + self._requester.schedule_lead
        last = schedule.last_index_per_plane(start, packets)
        counts = schedule.count_per_plane(start, packets)
        lead = start - first
        return [PlaneShare(p, counts[p], psn_of(last[p] - lead, self.start_psn)) for p in sorted(last)]

    def watch(self, first: int, packets: int) -> None:
        """Count first transmissions of the packets at offsets first .. first + packets - 1 per EV.

        None may be sent yet.
        """
        self._requester.shares.watch(first, packets)

    def drain_watched(self) -> list[FlowShare]:
        """Return watched flows that were sent completely since the last call."""
        return self._requester.shares.drain_ended()

    @_wakes
    def receive_writes(self, cols: WriteColumns, now_ns: int) -> None:
        """Place and record received write packets."""
        if len(cols) and self._state in _RECEIVING:
            self._responder.receive_writes(cols, now_ns)
            self._heard_writes_ns = now_ns
            if self._responder.failure is not None:
                self._fail(self._responder.failure, CompletionStatus.FLUSHED, now_ns)

    @_wakes
    def receive_sacks(self, cols: SackColumns, now_ns: int) -> None:
        """Process received SACKs, oldest first."""
        if len(cols) and self._state is QpState.RTS:
            mask = self._requester.receive_sacks(cols, now_ns)
            if self._requester.timer.retries:
                self._check_retries(now_ns)
            if self._masks_agreed and mask is not None:
                self.on_peer_ports(mask, now_ns)
            if now_ns - self._learnt_ns >= _REVERSE_PERIOD_NS:
                self._learnt_ns = now_ns
                self._learn_reverse(int(cols.ev[-1]))

    @_wakes
    def receive_nacks(self, cols: NackColumns, now_ns: int) -> None:
        """Process received NACKs; call this before `receive_sacks` of the same drain."""
        if len(cols) and self._state is QpState.RTS:
            if not self._requester.receive_nacks(cols, now_ns):
                self._fail(QpErrorReason.REMOTE_OPERATION_ERROR, CompletionStatus.REMOTE_OPERATION_ERROR, now_ns)
            else:
                self._check_retries(now_ns)

    @_wakes
    def receive_acks(self, cols: AckColumns, now_ns: int) -> None:
        """Complete the messages that transport ACKs cover; a NAK ends the queue pair."""
        if not len(cols) or self._state is not QpState.RTS:
            return
        refused = (cols.syndrome != AETH_ACK).nonzero()[0]
        if len(refused) < len(cols):
            self._requester.receive_acks(cols.take(cols.syndrome == AETH_ACK) if len(refused) else cols, now_ns)
        if len(refused) and (row := self._requester.first_nak(cols, refused)) is not None:
            self._requester.fail_acked(cols, row, now_ns)
            reason, status = _NAK_REASONS[int(cols.syndrome[row]) - AETH_NAK]
            self._fail(reason, status, now_ns)

    @_wakes
    def receive_probes(self, cols: ProbeColumns, now_ns: int) -> None:
        """Queue answers to received reliability probes for the next `acknowledge`."""
        if len(cols) and self._state in _RECEIVING:
            self._responder.receive_probes(cols, now_ns)

    @_wakes
    def on_port_state(self, plane: int, up: bool, now_ns: int) -> None:
        """Remove or restore all EVs of a plane at once when our port of that plane goes down or up (our choice)."""
        ev_set = self._requester.ev_set
        ports = ev_set.local_up.copy()
        ports[plane] = up
        ev_set.on_local_ports(ports, now_ns)
        self._ports_changed(PortOwner.LOCAL, ports, now_ns)
        self._tell_ports()

    @_wakes
    def on_peer_ports(self, mask: int, now_ns: int) -> None:
        """Apply the peer's port mask, bit N = port N = plane N - 1 (from a Port Status Update or a SACK).

        A mask without any of our ports changes nothing: the packet did leave by some port, and an empty mask would stop
        all sending.
        """
        if mask == self._peer_ports:
            return
        up = np.ones(256, np.bool_)
        up[self._planes] = (mask >> (self._planes.astype(np.int64) + 1)) & 1
        if not np.count_nonzero(up[self._planes]):
            return
        self._peer_ports = mask
        ev_set = self._requester.ev_set
        if not np.array_equal(up, ev_set.remote_up):
            ev_set.on_remote_ports(up, now_ns)
            self._ports_changed(PortOwner.PEER, up, now_ns)

    @_wakes
    def deny(self, rows: NDArray[np.int64], now_ns: int) -> None:
        """Stop using EV rows (m,) by order of a controller."""
        self._requester.ev_set.deny(rows, now_ns)

    @_wakes
    def allow(self, rows: NDArray[np.int64], now_ns: int) -> None:
        """Allow rows (m,) again by order of a controller."""
        self._requester.ev_set.allow(self._coming.others(rows), now_ns)

    @_wakes
    def set_evs(self, rows: NDArray[np.int64], state: EvState, now_ns: int) -> None:
        """Set rows (m,) to GOOD, ASSUMED_BAD or DENIED by order of a controller, whatever they were.

        Source: API, MODIFY_EV_STATE.
        """
        self._coming.set_states(rows, state)
        self._requester.ev_set.set_states(self._coming.others(rows), state, now_ns)

    @_wakes
    def replace_ev(self, row: int, ev: int, state: EvState, now_ns: int) -> None:
        """Put another value of the same plane in a row, to continue in `state` (a controller's API, REPLACE_EV).

        The row is not used any more at once. Its value changes in a later `control`, when nothing sent on it is
        outstanding and no watched flow is under way: what is known of a row must belong to one path. See
        `drain_replaced`.
        """
        self._coming.add(row, ev, state, now_ns)

    def drain_replaced(self) -> list[int]:
        """Return rows whose value has changed since the last call; packets encoded from now on carry the new value."""
        return self._coming.drain_replaced()

    def report_evs(self, states: frozenset[EvState]) -> None:
        """Report EV changes to these states only (API, event mask); until then all are reported."""
        self._reports.ev_states = states

    def refuse(self, reason: NackReason, packets: int) -> None:
        """Refuse the next packets for a reason, as a responder that lacks a resource would; for experiments."""
        self._responder.feign(reason, packets)

    def brake(self, penalty: int) -> None:
        """Ask the peer to send less, as a responder that cannot keep up would; for experiments.

        `penalty` is CC_STATE's `rcv_cwnd_pen`, sent in every SACK until it is 0 again: 64 halves the peer's congestion
        window per round trip, 127 leaves one packet per round trip; without congestion control it has no effect. Raises
        ConfigError outside 0..127.
        """
        if not 0 <= penalty <= RCV_CWND_PEN_MAX:
            raise ConfigError((f"penalty is {penalty}, must be 0..{RCV_CWND_PEN_MAX}",))
        self._responder.brake(penalty)

    @_wakes
    def probe(self, rows: NDArray[np.uint16]) -> None:
        """Send a reliability probe on each of these EV rows (m,) with the next `control`."""
        self._requester.prober.ask(rows)

    def wanted_ev_probe(self, now_ns: int) -> int | None:
        """Choose an EV to probe for the reverse set: a random one per interval while we only receive.

        None if none is due.
        """
        interval_ns, heard_ns = self.config.ev.reverse_probe_ns, self._heard_writes_ns
        if interval_ns is None or heard_ns is None or self._state is not QpState.RTS:
            return None
        if now_ns - heard_ns > interval_ns or self._requester.in_flight_pkts:
            return None
        if self._reverse_probe_ns is not None and now_ns - self._reverse_probe_ns < interval_ns:
            return None
        if not self._requester.ev_set.sendable:
            return None
        self._reverse_probe_ns = now_ns
        return int(self.profile.evs[self._requester.ev_set.any_rows(1)[0]])

    @_wakes
    def on_ev_probe(self, ev: int, answered: bool) -> None:
        """Process the result of an EV probe; an answered EV becomes the reverse EV of its plane."""
        if answered:
            self._learn_reverse(ev)
        elif ev in self._row_of_ev:
            self._responder.reverse.doubt(self._row_of_ev[ev])

    def on_timer(self, now_ns: int) -> None:
        """Act on timeouts. Process received packets first: otherwise answered packets may be sent again."""
        if self._state is not QpState.RTS:
            return
        self._requester.on_timer(now_ns)
        self._check_retries(now_ns)

    def control(self, now_ns: int) -> list[Control]:
        """Build the NACKs, transport ACKs and probes that are due.

        Send them before the SACKs and writes of the same turn.
        """
        if self._state in _RECEIVING:
            self._follow_evs()
            if self._coming and not self._reports:
                # Values change only after the events under the old values were reported.
                self._coming.settle(now_ns)
                self._row_of_ev = {ev: row for row, ev in enumerate(self.profile.evs.tolist())}
            found = (self._responder.nacks(), self._responder.acks(now_ns), self._requester.probes(now_ns))
            return [batch for batch in found if batch is not None]
        if self._state is QpState.ERROR and self._responder.failure is not None:
            nak = self._responder.acks(now_ns)
            return [] if nak is None else [nak]
        return []

    def acknowledge(self, now_ns: int) -> SackBatch | None:
        """Build the SACKs that are due; after all arrivals of a drain were processed, call it until it returns None."""
        return self._responder.acknowledge(now_ns) if self._state in _RECEIVING else None

    def is_due(self, now_ns: int) -> bool:
        """Report whether `on_timer`, `control`, `acknowledge` or `wanted_ev_probe` may have work to do."""
        return now_ns >= self._rests_until_ns

    def rest(self, now_ns: int) -> None:
        """Mark the queue pair as idle: it is not due before a new event or its next deadline."""
        if self._coming or self._requester.ev_set.version != self._ev_version:
            return
        due = [each for each in (self.next_deadline_ns(), self._ev_probe_due_ns(now_ns)) if each is not None]
        self._rests_until_ns = min(due, default=_NEVER_NS)

    @_wakes
    def transmit(self, limit: int, now_ns: int) -> WriteBatch | None:
        """Build at most `limit` write packets with EVs chosen, in transmit order; None if nothing may be sent.

        Packets of one EV must leave in the order of the batch. A batch reads from one source memory, so it may be
        shorter than possible: call again until None.
        """
        if self._state is not QpState.RTS or limit < 1:
            return None
        return self._requester.transmit(limit, now_ns)

    def next_deadline_ns(self) -> int | None:
        """Earliest time at which a verb has work to do although nothing arrives; None if never."""
        if self._state not in _RECEIVING:
            return None
        due = [d for d in (self._requester.deadline_ns, self._responder.deadline_ns) if d is not None]
        return min(due) if due else None

    @_wakes
    def fail(self, now_ns: int) -> None:
        """Go to ERROR by request; posted messages are flushed."""
        if self._state is not QpState.ERROR:
            self._fail(QpErrorReason.ASKED, CompletionStatus.FLUSHED, now_ns)

    def drain_events(self) -> list[Event]:
        """Remove and return the events since the last call, oldest first."""
        return self._reports.drain()

    def progress(self) -> Progress:
        """Return all counters, copied."""
        requester, responder = self._requester, self._responder
        return Progress(
            state=self._state,
            posted_messages=requester.messages.posted,
            completed_messages=requester.messages.completed,
            posted_bytes=requester.messages.posted_bytes,
            acked_bytes=requester.acked_bytes,
            backlog_pkts=requester.backlog_pkts,
            in_flight_pkts=requester.in_flight_pkts,
            silent_evs=self._silent_evs(),
            held_pkts=responder.held_pkts,
            window_psns=requester.window_psns,
            cwnd_bytes=None if self._congestion is None else self._congestion.cwnd_bytes,
            cwnd_in_flight_bytes=None if self._congestion is None else self._congestion.in_flight_bytes,
            rtt=replace(requester.recovery.rtt),
            cack_psn=responder.cack_psn,
            requester=replace(requester.counters),
            responder=replace(responder.counters),
        )

    def _silent_evs(self) -> tuple[int, ...]:
        silent = self._requester.recovery.silent.rows()
        return () if silent is None else tuple(np.unique(self.profile.evs[silent]).tolist())

    def reordering(self) -> ReorderCounts:
        """Return how far the peer's first transmissions arrived behind later ones."""
        return self._responder.reordering.counts()

    def ev_counters(self) -> EvCounters:
        """Return packets per row of the EV profile, copied."""
        return self._requester.evs.copy()

    def ev_states(self) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """Return the EvState (e,) and whether active (e,), per row of the EV profile, copied."""
        ev_set = self._requester.ev_set
        return ev_set.states.copy(), ev_set.active.copy()

    def ways(self) -> Ways | None:
        """Return what acknowledgements of our data show about paths to the peer; None before the first."""
        if self._learnt_ns < 0:
            return None
        evs = self.profile.evs[self._responder.reverse.rows]
        return Ways(self._learnt_ns, self._requester.ev_set.live_planes, tuple(evs.tolist()))

    def reverse_rows(self) -> list[int]:
        """Return the row per plane that carries SACKs, NACKs and ACKs at the moment, in order of planes."""
        return self._responder.reverse.rows

    def _ev_probe_due_ns(self, now_ns: int) -> int | None:
        """Time at which `wanted_ev_probe` may return one; None: not before more packets arrive."""
        interval_ns, heard_ns = self.config.ev.reverse_probe_ns, self._heard_writes_ns
        if interval_ns is None or heard_ns is None:
            return None
        due_ns = now_ns if self._reverse_probe_ns is None else max(now_ns, self._reverse_probe_ns + interval_ns)
        return due_ns if due_ns <= heard_ns + interval_ns else None

    def _ports_changed(self, owner: PortOwner, up: NDArray[np.bool_], now_ns: int) -> None:
        working = up[self._planes]
        down = tuple(self._planes[~working].tolist())
        self._reports.add(PortsChanged(now_ns, owner, tuple(self._planes[working].tolist()), down))
        self._requester.recovery.on_ports(now_ns)

    def _tell_ports(self) -> None:
        if self._masks_agreed:
            up = self._planes[self._requester.ev_set.local_up[self._planes]]
            self._responder.port_mask = sum(2 << plane for plane in up.tolist())

    def _follow_evs(self) -> None:
        """Avoid planes for SACKs in which our own data found that nothing works."""
        ev_set = self._requester.ev_set
        if ev_set.version != self._ev_version:
            self._ev_version = ev_set.version
            self._responder.reverse.on_planes(ev_set.live_planes)

    def _learn_reverse(self, ev: int) -> None:
        row = self._row_of_ev.get(ev)
        if row is not None:
            self._responder.reverse.learn(row)

    def _check_retries(self, now_ns: int) -> None:
        if self._requester.timer.exhausted:
            self._fail(QpErrorReason.RETRY_EXCEEDED, CompletionStatus.RETRY_EXCEEDED, now_ns)

    def _go(self, state: QpState, now_ns: int) -> None:
        if state not in TRANSITIONS[self._state]:
            raise StateError(self._state.value, f"going to {state.value}")
        self._reports.add(QpStateChanged(now_ns, self._state, state, self._peer_qpn))
        self._state = state

    @_wakes
    def _fail(self, reason: QpErrorReason, first: CompletionStatus, now_ns: int) -> None:
        """Go to ERROR: the oldest incomplete message ends with status `first`, the others are flushed."""
        messages = self._requester.messages
        self._go(QpState.ERROR, now_ns)
        left = messages.posted - messages.completed
        self._reports.add(QpFailed(now_ns, reason, left))
        self._requester.close()
        self.receives.flush()
        self._reports.flush(messages.completed, left, first)
