"""The send half of a queue pair: admission, spraying, acknowledgements in, selective retransmission.

Composes the message table, the in-flight rings, the spray schedule and the retry timer; knows no clock and no
queue pair state. MRC Tables 7-1, 7-4. EV states, congestion control, NACKs and probes are not built yet: an EV
state would filter what `_record` takes from the schedule, a congestion window would bound `_room`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agent.core.config import EvProfile, QpConfig
from agent.core.events import Event, MessagesCompleted, PacketsLost, PacketsTimedOut
from agent.core.inflight import InFlight
from agent.core.messages import MessageTable
from agent.core.psn import offsets_of, psns_of
from agent.core.retry import RetryTimer
from agent.core.sack import bits_of, spread
from agent.core.spray import SpraySchedule
from agent.wire.columns import SackColumns, WriteBatch
from agent.wire.constants import BTH_ACK_REQUEST, BTH_RETRANSMISSION, MPR_UNIT_PSNS, TX_TIMESTAMP_TICK_NS

_TIMEOUT_RESENDS = 4
"""Packets sent again at a timeout before anything is heard. Our choice: one of four gets through 20 % loss 998 times
of 1000, and four for nothing do no harm."""

_Shown = tuple[NDArray[np.int64], NDArray[np.bool_]]
"""SACK bitmaps: first positions (r,) and bits (r, 64)."""


@dataclass(slots=True)
class EvCounters:
    """Packets by EV row since the start, (e,) each."""

    tx_first: NDArray[np.int64]
    tx_rtx: NDArray[np.int64]
    acked: NDArray[np.int64]
    """By the EV of the last transmission."""
    lost: NDArray[np.int64]
    """Proven lost by a later arrival on the same EV."""
    timed_out: NDArray[np.int64]
    """No answer for a whole timeout."""

    @classmethod
    def zeros(cls, ev_count: int) -> "EvCounters":
        """All counters of `ev_count` EVs at zero."""
        return cls(*(np.zeros(ev_count, np.int64) for _ in range(5)))


@dataclass(slots=True)
class RequesterCounters:
    """Totals since the start."""

    packets_tx: int = 0
    """First transmissions."""
    packets_rtx: int = 0
    """Retransmissions."""
    lost: int = 0
    timed_out: int = 0
    """Packets sent again for want of an answer."""
    sacks: int = 0
    sacks_stale: int = 0
    """Written before one already read: used for what arrived, not for what is missing."""
    sacks_rejected: int = 0
    """They acknowledge what was never sent."""
    first_tx_ns: int | None = None
    last_completed_ns: int | None = None


class Requester:
    """Sends what is posted until the responder has all of it."""

    def __init__(
        self,
        config: QpConfig,
        profile: EvProfile,
        start_psn: int,
        rng: np.random.Generator,
        report: Callable[[Event], None],
    ) -> None:
        ev_count = len(profile.evs)
        self._start_psn = start_psn
        self._dynamic_mpr = config.dynamic_mpr
        self._most_psns = config.window_pkts
        self._window_psns = config.send_window_psns
        self._rng = rng
        self._report = report
        self._in_flight = InFlight(config.window_pkts, ev_count)
        self._ack_asked = -1
        self._known_received = 0
        self._newest_received = 0
        self.messages = MessageTable(config.pmtu)
        self.schedule = SpraySchedule(config.policy, config.seed, profile.planes, config.rotations_per_order)
        self.timer = RetryTimer(config.ack_timeout_ns, config.linear_cnt, config.exp_cnt)
        self.counters = RequesterCounters()
        self.evs = EvCounters.zeros(ev_count)

    @property
    def in_flight_pkts(self) -> int:
        """Packets sent and neither known to have arrived nor waiting to be sent again."""
        return self._in_flight.sent

    @property
    def backlog_pkts(self) -> int:
        """Posted packets not yet sent, and lost ones not yet sent again."""
        return self.messages.end - self._in_flight.end + self._in_flight.lost

    @property
    def acked_bytes(self) -> int:
        """Bytes below the cumulative point."""
        return self.messages.bytes_below(self._in_flight.base)

    def transmit(self, limit: int, now_ns: int) -> WriteBatch | None:
        """Up to `limit` packets, lost ones first, oldest first; None if there is nothing to send or no room.

        One batch reads from one source memory: it ends early where the next message lies in another.
        """
        flight = self._in_flight
        resend = flight.lost_offsets(limit, flight.base + self._window_psns) if flight.lost else None
        again = 0 if resend is None else len(resend)
        fresh = np.arange(flight.end, flight.end + self._room(limit - again), dtype=np.int64)
        offsets = fresh if resend is None else np.concatenate((resend, fresh))
        if not len(offsets):
            return None
        segments = self.messages.segments(offsets)
        count = len(segments)
        again = min(again, count)
        offsets = offsets[:count]
        ev_index = self._record(offsets, again, now_ns)
        return WriteBatch(
            psn=psns_of(offsets, self._start_psn),
            opcode=segments.opcode,
            flags=self._flags(offsets, again),
            ev_index=ev_index,
            msn=segments.msn,
            rqmsn=np.zeros(count, np.uint16),
            va=segments.va,
            rkey=segments.rkey,
            dmalen=segments.dmalen,
            source_offset=segments.source_offset,
            payload_bytes=segments.payload_bytes,
            tx_timestamp=(now_ns // TX_TIMESTAMP_TICK_NS) & 0xFFFF,
            source=segments.source,
        )

    def receive_sacks(self, cols: SackColumns, now_ns: int) -> None:
        """Learn what arrived and what is lost from (r,) SACKs, r >= 1, in order of arrival."""
        flight = self._in_flight
        cack = offsets_of(cols.cack_psn, self._start_psn, flight.base)
        received = cack + cols.ooo_count
        received += 1
        if int(np.maximum.reduce(received)) > flight.end:
            cols, cack, received = self._reject(cols, cack, received)
            if not len(cack):
                return
        self._newest_received = max(self._newest_received, int(np.maximum.reduce(received)))
        newest = received == self._newest_received
        self.counters.sacks += len(received)
        self.counters.sacks_stale += len(received) - int(np.count_nonzero(newest))
        self._follow_mpr(cols, newest)
        base = max(flight.base, int(np.maximum.reduce(cack)) + 1)
        progress = base > flight.base
        shown = self._shown(cols, cack, base)
        evs = flight.acknowledge(base, None if shown is None else spread(*shown, flight.end - base))
        if len(evs):
            self._known_received += len(evs)
            self.evs.acked += np.bincount(evs, minlength=len(self.evs.acked))
        settled = bool(np.count_nonzero(newest & cols.rtx))
        self._find_lost(self._missing(cack, newest, shown, base), settled, now_ns)
        if progress:
            self.timer.on_progress()
            self._complete(now_ns)
        if not flight.sent:
            self.timer.disarm()

    def on_timer(self, now_ns: int) -> None:
        """After a timeout put the oldest packets back in line; the caller looks at `timer.exhausted` afterwards.

        Only a few are sent again at once: their SACK will tell which of the others are missing, so that a lost SACK
        or a process that slept does not send a whole window twice.
        """
        deadline_ns = self.timer.deadline_ns
        if deadline_ns is None or now_ns < deadline_ns:
            return
        flight = self._in_flight
        evs = flight.expire(None, now_ns - self.timer.interval_ns, _TIMEOUT_RESENDS)
        if len(evs):
            self.timer.on_timeout(now_ns)
            self._report_timed_out(evs, now_ns)
        else:
            self.timer.arm(flight.oldest_sent_ns(now_ns))

    def _room(self, limit: int) -> int:
        flight = self._in_flight
        return max(0, min(limit, flight.base + self._window_psns - flight.end, self.messages.end - flight.end))

    def _record(self, offsets: NDArray[np.int64], again: int, now_ns: int) -> NDArray[np.uint16]:
        """Choose an EV for each packet, `again` resends first, and enter them as sent; (n,) EV rows."""
        flight = self._in_flight
        fresh = len(offsets) - again
        ev_index = self.schedule.run(flight.end, fresh)
        ev_count = len(self.evs.tx_first)
        if again:
            evs = self.schedule.retransmit_evs(flight.evs_of(offsets[:again]), self._rng)
            flight.record_again(offsets[:again], evs, now_ns)
            self.counters.packets_rtx += again
            self.evs.tx_rtx += np.bincount(evs, minlength=ev_count)
        if fresh:
            flight.record_first(flight.end + fresh, ev_index, now_ns)
            self.counters.packets_tx += fresh
            self.evs.tx_first += np.bincount(ev_index, minlength=ev_count)
        if self.timer.deadline_ns is None:
            self.timer.arm(now_ns)
        if self.counters.first_tx_ns is None:
            self.counters.first_tx_ns = now_ns
        return np.concatenate((evs, ev_index)) if again else ev_index

    def _flags(self, offsets: NDArray[np.int64], again: int) -> NDArray[np.uint8]:
        """BTH flags of a batch just recorded: resends marked, and AckReq where the backlog or the window ends."""
        flags = np.zeros(len(offsets), np.uint8)
        flags[:again] = BTH_RETRANSMISSION
        flight = self._in_flight
        backlog_ends = flight.end == self.messages.end
        window_ends = flight.end == flight.base + self._window_psns
        # While an asked-for SACK is still due, a full window needs no second one.
        if backlog_ends or (window_ends and not flight.is_outstanding(self._ack_asked)):
            flags[-1] |= BTH_ACK_REQUEST
            self._ack_asked = int(offsets[-1])
        return flags

    def _reject(
        self, cols: SackColumns, cack: NDArray[np.int64], received: NDArray[np.int64]
    ) -> tuple[SackColumns, NDArray[np.int64], NDArray[np.int64]]:
        possible = received <= self._in_flight.end
        self.counters.sacks_rejected += int(len(possible) - np.count_nonzero(possible))
        return cols.take(possible), cack[possible], received[possible]

    def _follow_mpr(self, cols: SackColumns, newest: NDArray[np.bool_]) -> None:
        if self._dynamic_mpr and np.count_nonzero(newest):
            mpr = int(cols.mpr[newest][-1])
            self._window_psns = min(self._most_psns, mpr * MPR_UNIT_PSNS) if mpr else self._window_psns

    def _shown(self, cols: SackColumns, cack: NDArray[np.int64], base: int) -> _Shown | None:
        """The bitmaps relative to `base`; None if they hold nothing above it, as while all arrives in order."""
        if base == self._in_flight.end or not np.count_nonzero(cols.ooo_count):
            return None
        starts = cack + cols.sack_offset
        starts -= base
        return starts, bits_of(cols.bitmap)

    def _missing(
        self, cack: NDArray[np.int64], newest: NDArray[np.bool_], shown: _Shown | None, base: int
    ) -> NDArray[np.bool_] | None:
        """Which packets from `base` on had not arrived when the newest SACK was written, (m,); None: all unknown ones.

        Older SACKs tell nothing here: what they show as missing may have arrived since.
        """
        if self._known_received == self._newest_received:
            # We know of as many arrivals as the responder had counted, so there were no others.
            return None
        if shown is None:
            missing = np.zeros(1, np.bool_)
        else:
            starts, bits = shown
            telling = newest & bits.any(axis=1)
            missing = spread(starts[telling], ~bits[telling], self._in_flight.end - base)
        # The PSN after the cumulative point is missing by definition.
        missing[:1] |= bool(np.count_nonzero(newest & (cack + 1 == base)))
        return missing

    def _find_lost(self, missing: NDArray[np.bool_] | None, settled: bool, now_ns: int) -> None:
        """Mark what is proven lost, and, if a resend was answered (`settled`), what was doubted and is missing."""
        flight, doubt_ns = self._in_flight, self.timer.doubt_ns
        evs = flight.infer_lost(missing)
        if len(evs):
            self.counters.lost += len(evs)
            self._report(PacketsLost(now_ns, *self._tally(evs, self.evs.lost)))
        if settled and doubt_ns is not None:
            evs = flight.expire(missing, doubt_ns, flight.sent)
            self.timer.doubt_ns = None if missing is None else doubt_ns
            if len(evs):
                self._report_timed_out(evs, now_ns)

    def _report_timed_out(self, evs: NDArray[np.uint16], now_ns: int) -> None:
        self.counters.timed_out += len(evs)
        self._report(PacketsTimedOut(now_ns, *self._tally(evs, self.evs.timed_out), self.timer.retries))

    def _tally(self, evs: NDArray[np.uint16], counter: NDArray[np.int64]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        counts = np.bincount(evs, minlength=len(counter))
        counter += counts
        indices = counts.nonzero()[0]
        return tuple(indices.tolist()), tuple(counts[indices].tolist())

    def _complete(self, now_ns: int) -> None:
        # The transport ACK (AETH) will decide this once it exists; until then the cumulative point does.
        first, count, length = self.messages.complete_below(self._in_flight.base)
        if count:
            self.counters.last_completed_ns = now_ns
            self._report(MessagesCompleted(now_ns, first, count, length))
