"""A queue pair: a requester and a responder behind five verbs, and the states that allow them.

    receive_writes / receive_sacks   columns decoded by agent.wire, rows of this queue pair only
    on_timer                         act on the time that has passed
    acknowledge / transmit           what must go out: SACKs first, then at most `limit` writes
    next_deadline_ns                 when to come back although nothing arrives
    drain_events                     what happened

Time and chance are arguments: the same inputs give the same outputs, always. States: MRC API.
"""

from dataclasses import dataclass, replace

import numpy as np

from agent.core.config import EvProfile, PeerQp, QpConfig
from agent.core.errors import StateError
from agent.core.events import Event, QpErrorReason, QpFailed, QpState, QpStateChanged
from agent.core.memory import MemoryRegion, RegionTable
from agent.core.psn import psn_of
from agent.core.requester import EvCounters, Requester, RequesterCounters
from agent.core.responder import Responder, ResponderCounters
from agent.wire.columns import SackBatch, SackColumns, WriteBatch, WriteColumns
from agent.wire.constants import PSN_MASK

TRANSITIONS: dict[QpState, frozenset[QpState]] = {
    QpState.RESET: frozenset({QpState.INIT, QpState.ERROR}),
    QpState.INIT: frozenset({QpState.RTR, QpState.ERROR}),
    QpState.RTR: frozenset({QpState.RTS, QpState.ERROR}),
    QpState.RTS: frozenset({QpState.ERROR}),
    QpState.ERROR: frozenset(),
}
"""Which state may follow which."""

_RECEIVING = (QpState.RTR, QpState.RTS)


@dataclass(frozen=True, slots=True)
class PlaneShare:
    """The part of a flow's first transmissions that goes to one plane, known before they are sent."""

    plane: int
    packets: int
    last_psn: int
    """24-bit PSN of the last of them."""


@dataclass(frozen=True, slots=True)
class Progress:
    """A queue pair at one moment; `requester` and `responder` are copies."""

    state: QpState
    posted_messages: int
    completed_messages: int
    posted_bytes: int
    acked_bytes: int
    """Below the cumulative point."""
    backlog_pkts: int
    """Posted and not sent, or lost and not sent again."""
    in_flight_pkts: int
    held_pkts: int
    """Received above the cumulative point."""
    requester: RequesterCounters
    responder: ResponderCounters


class QueuePair:
    """One end of a reliable connection; packets are arrays, only the pair is an object."""

    def __init__(
        self,
        qpn: int,
        config: QpConfig,
        profile: EvProfile,
        regions: RegionTable,
        rng: np.random.Generator,
    ) -> None:
        self.qpn = qpn
        self.config = config
        self.profile = profile
        self.start_psn = int(rng.integers(PSN_MASK + 1)) if config.start_psn is None else config.start_psn
        self._state = QpState.RESET
        self._events: list[Event] = []
        self._requester = Requester(config, profile, self.start_psn, rng, self._events.append)
        self._responder = Responder(config, profile, regions, qpn)

    @property
    def state(self) -> QpState:
        """Where the queue pair stands."""
        return self._state

    @property
    def posted_pkts(self) -> int:
        """Packets posted since the start; the next posted message starts at this offset."""
        return self._requester.messages.end

    def connect(self, peer: PeerQp, now_ns: int) -> None:
        """Walk RESET, INIT, RTR, RTS with what the peer told us. Raises StateError unless in RESET."""
        self._go(QpState.INIT, now_ns)
        self._responder.expect(peer.qpn, peer.start_psn)
        self._go(QpState.RTR, now_ns)
        self._go(QpState.RTS, now_ns)

    def post_write(self, region: MemoryRegion, offset: int, length: int, remote_va: int, remote_rkey: int) -> int:
        """Write `region.data[offset:offset + length]` to the peer as one message; its number, counting from 0.

        Raises StateError unless in RTS, RegionError if the bytes are not inside the region.
        """
        return self.post_writes(region, offset, length, remote_va, remote_rkey, length)[0]

    def post_writes(
        self, region: MemoryRegion, offset: int, length: int, remote_va: int, remote_rkey: int, message_bytes: int
    ) -> range:
        """As `post_write`, cut into messages of `message_bytes`, the last one shorter; their numbers."""
        if self._state is not QpState.RTS:
            raise StateError(self._state.value, "posting")
        return self._requester.messages.post(region.data, offset, length, remote_va, remote_rkey, message_bytes)

    def plane_shares(self, first: int, packets: int) -> list[PlaneShare]:
        """How the packets at offsets first .. first + packets - 1 will fall on the planes; planes with none absent.

        Offsets count from the queue pair's start, as `posted_pkts` does; posted or not makes no difference.
        """
        schedule = self._requester.schedule
        last = schedule.last_index_per_plane(first, packets)
        counts = schedule.count_per_plane(first, packets)
        return [PlaneShare(p, counts[p], psn_of(last[p], self.start_psn)) for p in sorted(last)]

    def receive_writes(self, cols: WriteColumns, now_ns: int) -> None:
        """Place and note arrived write packets."""
        if len(cols) and self._state in _RECEIVING:
            self._responder.receive_writes(cols, now_ns)

    def receive_sacks(self, cols: SackColumns, now_ns: int) -> None:
        """Learn from arrived SACKs, oldest first."""
        if len(cols) and self._state is QpState.RTS:
            self._requester.receive_sacks(cols, now_ns)

    def on_timer(self, now_ns: int) -> None:
        """Act on timeouts. Receive what has arrived first, or a late caller resends what is already answered."""
        if self._state is not QpState.RTS:
            return
        self._requester.on_timer(now_ns)
        if self._requester.timer.exhausted:
            self._fail(QpErrorReason.RETRY_EXCEEDED, now_ns)

    def acknowledge(self, now_ns: int) -> SackBatch | None:
        """The SACKs that are due; call once after all arrivals of a drain were given."""
        return self._responder.acknowledge(now_ns) if self._state in _RECEIVING else None

    def transmit(self, limit: int, now_ns: int) -> WriteBatch | None:
        """At most `limit` write packets, EV chosen, in transmit order; None if nothing may be sent.

        Packets of one EV must leave in the order of the batch. A batch may be shorter than could be sent: it holds
        packets of one source memory, so ask again until None.
        """
        if self._state is not QpState.RTS or limit < 1:
            return None
        return self._requester.transmit(limit, now_ns)

    def next_deadline_ns(self) -> int | None:
        """The earliest time at which `on_timer` or `acknowledge` will have something to do; None if never."""
        if self._state not in _RECEIVING:
            return None
        due = [d for d in (self._requester.timer.deadline_ns, self._responder.sack_deadline_ns) if d is not None]
        return min(due, default=None)

    def drain_events(self) -> list[Event]:
        """The events since the last call, oldest first."""
        events = self._events.copy()
        self._events.clear()
        return events

    def progress(self) -> Progress:
        """All counters, copied."""
        requester, responder = self._requester, self._responder
        return Progress(
            state=self._state,
            posted_messages=requester.messages.posted,
            completed_messages=requester.messages.completed,
            posted_bytes=requester.messages.posted_bytes,
            acked_bytes=requester.acked_bytes,
            backlog_pkts=requester.backlog_pkts,
            in_flight_pkts=requester.in_flight_pkts,
            held_pkts=responder.held_pkts,
            requester=replace(requester.counters),
            responder=replace(responder.counters),
        )

    def ev_counters(self) -> EvCounters:
        """Packets by row of the EV profile, copied."""
        evs = self._requester.evs
        return EvCounters(
            evs.tx_first.copy(), evs.tx_rtx.copy(), evs.acked.copy(), evs.lost.copy(), evs.timed_out.copy()
        )

    def _go(self, state: QpState, now_ns: int) -> None:
        if state not in TRANSITIONS[self._state]:
            raise StateError(self._state.value, f"going to {state.value}")
        self._events.append(QpStateChanged(now_ns, self._state, state))
        self._state = state

    def _fail(self, reason: QpErrorReason, now_ns: int) -> None:
        messages = self._requester.messages
        self._go(QpState.ERROR, now_ns)
        self._events.append(QpFailed(now_ns, reason, messages.posted - messages.completed))
