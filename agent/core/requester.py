"""The send half of a queue pair: admission, spraying, acknowledgements in, selective retransmission.

Composes the message table, the in-flight rings, the EV set, probes and the retry timer; knows no clock and no queue
pair state. MRC Tables 7-1, 7-3, 7-4.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from agent.core.config import EvProfile, LossRule, QpConfig
from agent.core.congestion.base import CongestionControl, RttSamples
from agent.core.counters import EvCounters, RequesterCounters
from agent.core.ev_set import EvSet
from agent.core.events import Event, MessagesCompleted, PacketsLost, PacketsNacked, PacketsTimedOut
from agent.core.inflight import InFlight, Tolerance
from agent.core.messages import MessageTable
from agent.core.probe import Prober
from agent.core.psn import offsets_of, psns_of
from agent.core.retry import RetryTimer
from agent.core.round_trip import RoundTrip
from agent.core.rtt import samples_of
from agent.core.sack_reader import SackNews, SackReader
from agent.core.send_window import SendWindow
from agent.core.spray import SpraySchedule
from agent.wire.columns import SackColumns, WriteBatch
from agent.wire.constants import (
    BTH_ACK_REQUEST,
    BTH_RETRANSMISSION,
    MPR_UNIT_PSNS,
    TX_TIMESTAMP_TICK_NS,
    NackReason,
)
from agent.wire.control_columns import AckColumns, NackColumns, ProbeBatch

_TIMEOUT_RESENDS = 4
"""Packets sent again at a timeout before anything is heard. Our choice: one of four gets through 20 % loss 998 times
of 1000, and four for nothing do no harm."""

_TAIL_PROBES = 8
"""EVs asked at a time about packets that nobody speaks of. Our choice."""

_MOST_COPIES = 64
"""So many transmissions of the oldest packet, each proven lost: further ones use a retry each, or a path that carries
probes but no data would be tried for ever. Our choice."""

_TRIMS = (NackReason.TRIMMED, NackReason.TRIMMED_LASTHOP)


class Requester:
    """Sends what is posted until the responder has all of it."""

    def __init__(
        self,
        config: QpConfig,
        profile: EvProfile,
        start_psn: int,
        rng: np.random.Generator,
        report: Callable[[Event], None],
        qpn: int = 0,
        control: CongestionControl | None = None,
    ) -> None:
        ev_count = len(profile.evs)
        self._config = config
        self._profile = profile
        self._start_psn = start_psn
        self._dynamic_mpr = config.dynamic_mpr
        self._most_psns = config.window_pkts
        self._window_psns = config.send_window_psns
        self._max_wimm = config.max_wimm_dest
        self._report = report
        self._in_flight = InFlight(config.window_pkts, ev_count)
        self._reader = SackReader(start_psn)
        self._window = None if control is None else SendWindow(control, config.window_pkts)
        self._ack_asked = -1
        self._acked = 0
        self._missing: NDArray[np.bool_] | None = None
        self._news_ns = 0
        """When the newest SACK came."""
        self._late_ns: int | None = None
        self._tail_ns: int | None = None
        self._unacked_ns: int | None = None
        self._resend_from_ns = 0
        self.peer_mask: int | None = None
        """The peer's ports as the newest SACK told them, bit N = port N; None before one did."""
        self.rtt = RoundTrip()
        self.messages = MessageTable(config.pmtu)
        self.ev_set = EvSet(
            config.ev,
            profile,
            lambda planes: SpraySchedule(config.policy, config.seed, planes, config.rotations_per_order),
            rng,
            report,
        )
        self.prober = Prober(config.ev, self.ev_set, self._in_flight.order_now, qpn, rng)
        self.timer = RetryTimer(config.ack_timeout_ns, config.linear_cnt, config.exp_cnt)
        self.counters = RequesterCounters()
        self.evs = EvCounters.zeros(ev_count)
        if config.loss_rule is not LossRule.SAME_EV:
            self._in_flight.note_arrivals(config.reorder_pkts)

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

    @property
    def schedule_lead(self) -> int:
        """How far the spray schedule is ahead of the packet offset: EVs passed over take a place too."""
        return self.ev_set.position - self._in_flight.end

    @property
    def deadline_ns(self) -> int | None:
        """When `on_timer` has something to do at the latest; None if never."""
        due = (self.timer.deadline_ns, self.prober.deadline_ns, self._late_ns, self._tail_ns, self._unacked_ns)
        return min((time for time in due if time is not None), default=None)

    def expect(self, peer_qpn: int, mpr_dest: int | None, max_wimm: int | None, dynamic_mpr: bool) -> None:
        """What the peer allows us."""
        self.prober.expect(peer_qpn)
        if mpr_dest is not None:
            self._window_psns = min(self._window_psns, mpr_dest * MPR_UNIT_PSNS)
        if max_wimm is not None:
            self._max_wimm = min(self._max_wimm, max_wimm)
        self._dynamic_mpr &= dynamic_mpr

    def transmit(self, limit: int, now_ns: int) -> WriteBatch | None:
        """Up to `limit` packets, lost ones first, oldest first; None if there is nothing to send or no room.

        One batch reads from one source memory: it ends early where the next message lies in another.
        """
        flight = self._in_flight
        if not self.backlog_pkts:
            return None
        if self._window is not None:
            limit = self._window.room(limit, not self._in_flight.sent)
        if not self.ev_set.sendable:
            if self.timer.deadline_ns is None and self.backlog_pkts:
                self.timer.arm(now_ns)
            return None
        if limit < 1:
            return None
        again = 0
        resend = None
        if flight.lost and now_ns >= self._resend_from_ns:
            resend = flight.lost_offsets(limit, flight.base + self._window_psns)
            again = len(resend)
        room = self._room(limit - again)
        if not room and not again:
            return None
        fresh = np.arange(flight.end, flight.end + room, dtype=np.int64)
        offsets = fresh if resend is None else np.concatenate((resend, fresh))
        segments = self.messages.segments(offsets)
        count = len(segments)
        again = min(again, count)
        offsets = offsets[:count]
        ev_index = self._record(offsets, again, now_ns)
        if self._window is not None:
            self._window.on_sent(offsets, segments.payload_bytes)
        return WriteBatch(
            psn=psns_of(offsets, self._start_psn),
            opcode=segments.opcode,
            flags=self._flags(offsets, again),
            ev_index=ev_index,
            msn=segments.msn,
            rqmsn=segments.rqmsn,
            va=segments.va,
            rkey=segments.rkey,
            dmalen=segments.dmalen,
            source_offset=segments.source_offset,
            payload_bytes=segments.payload_bytes,
            tx_timestamp=(now_ns // TX_TIMESTAMP_TICK_NS) & 0xFFFF,
            source=segments.source,
            imm=segments.imm,
        )

    def probes(self, now_ns: int) -> ProbeBatch | None:
        """The reliability probes that are wanted, to leave before what `transmit` gives next."""
        batch = self.prober.batch(now_ns)
        if batch is not None:
            self.counters.probes += len(batch)
            self.evs.probes += np.bincount(batch.ev_index, minlength=len(self.evs.probes))
        return batch

    def receive_sacks(self, cols: SackColumns, now_ns: int) -> None:
        """Learn what arrived and what is lost from (r,) SACKs, r >= 1, in order of arrival."""
        flight, reader = self._in_flight, self._reader
        news = reader.read(cols, flight.base, flight.end)
        counters = self.counters
        counters.sacks, counters.sacks_stale, counters.sacks_rejected = reader.read_count, reader.stale, reader.rejected
        if news is None:
            return
        self._follow_peer(news, now_ns)
        samples = self._sample_rtt(news, now_ns)
        if self._window is not None:
            self._window.on_sacks(news, samples, now_ns)
        progress = news.base > flight.base
        evs = flight.acknowledge(news.base, news.received(flight.end))
        if len(evs):
            reader.known_received += len(evs)
            self.evs.acked += np.bincount(evs, minlength=len(self.evs.acked))
            self.ev_set.on_arrivals(evs)
        if np.count_nonzero(news.cols.pr):
            self._hear_probes(news.cols, now_ns)
        self._missing = reader.missing(news, flight.end)
        if np.count_nonzero(news.newest):
            self._news_ns = now_ns
        self._find_lost(bool(np.count_nonzero(news.newest & news.cols.rtx)), now_ns)
        if progress:
            self.timer.on_progress()
            self._resend_from_ns = 0
            self._complete(now_ns)
        if not flight.sent:
            self._rest()
        self._watch_tail(now_ns)

    def receive_nacks(self, cols: NackColumns, now_ns: int) -> bool:
        """Send again what the responder refused (n,); False if it says that the queue pair has failed."""
        flight, counters = self._in_flight, self.counters
        offsets = offsets_of(cols.nack_psn, self._start_psn, flight.base)
        offsets, first = np.unique(offsets, return_index=True)
        cols = cols.take(first)
        # A NACK of an earlier copy must not touch the one sent since.
        current = flight.in_flight_at(offsets)
        current &= self._profile.evs[flight.evs_of(offsets)] == cols.ev
        counters.nacks_stale += int(len(current) - np.count_nonzero(current))
        # One turn a reason.
        for reason in np.unique(cols.nack_reason[current]).tolist():
            refused = offsets[current & (cols.nack_reason == reason)]
            evs = flight.evs_of(refused)
            flight.refuse(refused)
            counters.nacked += len(refused)
            self._on_refused(NackReason(reason), refused, evs, now_ns)
        if not flight.sent:
            self._rest()
        return not np.count_nonzero(cols.nack_reason == NackReason.UNEXP_EVENT)

    def receive_acks(self, cols: AckColumns, now_ns: int) -> None:
        """Complete the messages that (n,) positive transport ACKs cover, as far as SACKs have told the same."""
        flight = self._in_flight
        ends = offsets_of(cols.psn, self._start_psn, flight.base) + 1
        possible = ends <= flight.end
        self.counters.acks += len(ends)
        self.counters.acks_rejected += int(len(ends) - np.count_nonzero(possible))
        if np.count_nonzero(possible):
            self._acked = max(self._acked, int(ends[possible].max()))
            self._complete(now_ns)

    def on_timer(self, now_ns: int) -> None:
        """After a timeout put the oldest packets back in line; the caller looks at `timer.exhausted` afterwards.

        Only a few are sent again at once: their SACK will tell which of the others are missing, so that a lost SACK
        or a process that slept does not send a whole window twice.
        """
        self._on_early_timers(now_ns)
        deadline_ns = self.timer.deadline_ns
        if deadline_ns is None or now_ns < deadline_ns:
            return
        flight = self._in_flight
        evs = flight.expire(None, now_ns - self.timer.interval_ns, _TIMEOUT_RESENDS)
        if len(evs):
            self.timer.on_timeout(now_ns)
            self._report_timed_out(evs, now_ns)
        elif not self.ev_set.sendable:
            # No port is left: nothing can be sent, and that cannot last for ever either.
            self.timer.on_timeout(now_ns)
        else:
            self.timer.arm(flight.oldest_sent_ns(now_ns))

    def fail_acked(self, cols: AckColumns, row: int, now_ns: int) -> None:
        """Complete what a transport NAK still acknowledges: the messages before the one it refuses."""
        end = int(offsets_of(cols.psn[row : row + 1], self._start_psn, self._in_flight.base)[0])
        self._acked = max(self._acked, min(end, self._in_flight.base))
        self._complete(now_ns)

    def close(self) -> None:
        """The queue pair has failed: nothing more is sent, and the controller is left to others."""
        self._in_flight.forget()
        self._rest()

    def _on_early_timers(self, now_ns: int) -> None:
        """What comes before a timeout: probes, late packets, silence at the tail, a lost transport ACK."""
        prober = self.prober
        if prober.deadline_ns is not None and now_ns >= prober.deadline_ns:
            prober.on_timer(now_ns)
        if self._late_ns is not None and now_ns >= self._late_ns:
            self._ask_late(now_ns)
        if self._tail_ns is not None and now_ns >= self._tail_ns:
            self._probe_tail(now_ns)
        if self._unacked_ns is not None and now_ns >= self._unacked_ns:
            self.timer.retries += 1
            self._unacked_ns = now_ns + self.timer.interval_ns
            if self.ev_set.sendable:
                prober.ask(self.ev_set.any_rows(1))

    def _room(self, limit: int) -> int:
        flight = self._in_flight
        stop = min(flight.base + self._window_psns, self.messages.end_within(self._max_wimm))
        return max(0, min(limit, stop - flight.end))

    def _record(self, offsets: NDArray[np.int64], again: int, now_ns: int) -> NDArray[np.uint16]:
        """Choose an EV for each packet, `again` resends first, and enter them as sent; (n,) EV rows."""
        flight = self._in_flight
        fresh = len(offsets) - again
        ev_count = len(self.evs.tx_first)
        if again:
            evs = self.ev_set.other_than(flight.evs_of(offsets[:again]))
            flight.record_again(offsets[:again], evs, now_ns)
            self.counters.packets_rtx += again
            self.evs.tx_rtx += np.bincount(evs, minlength=ev_count)
        ev_index = self.ev_set.take(fresh, now_ns)
        if fresh:
            flight.record_first(flight.end + fresh, ev_index, now_ns)
            self.counters.packets_tx += fresh
            self.evs.tx_first += np.bincount(ev_index, minlength=ev_count)
        if self.timer.deadline_ns is None:
            self.timer.arm(now_ns)
        if self._tail_ns is None and self._config.ev.tail_probe_ns is not None:
            self._tail_ns = now_ns + self._config.ev.tail_probe_ns
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
        window_ends |= self._window is not None and not self._window.room(1, False)
        # While an asked-for SACK is still due, a full window needs no second one.
        if backlog_ends or (window_ends and not flight.is_outstanding(self._ack_asked)):
            flags[-1] |= BTH_ACK_REQUEST
            self._ack_asked = int(offsets[-1])
        return flags

    def _follow_peer(self, news: SackNews, now_ns: int) -> None:
        """What SACKs say besides arrivals: the peer's window and ports, and paths that met congestion."""
        cols, newest = news.cols, news.newest
        if self._dynamic_mpr and np.count_nonzero(newest):
            mpr = int(cols.mpr[newest][-1])
            self._window_psns = min(self._most_psns, mpr * MPR_UNIT_PSNS) if mpr else self._window_psns
        if cols.port_mask is not None and np.count_nonzero(told := cols.port_mask[newest]):
            self.peer_mask = int(told[told != 0][-1])
        if np.count_nonzero(cols.m):
            self.ev_set.on_verdicts(cols.ev, cols.m, now_ns)
            self.prober.follow(now_ns)

    def _sample_rtt(self, news: SackNews, now_ns: int) -> RttSamples | None:
        """Round trips of the packets that SACKs answer, by the table of send times; probes have their own."""
        cols = news.cols
        sent_ns, resends, known = self._in_flight.sendings_of(news.cack + cols.ack_psn_offset)
        known &= ~cols.pr
        if np.count_nonzero(known) < len(known):
            sent_ns, resends = sent_ns[known], resends[known]
            samples = samples_of(sent_ns, resends, cols.rtx[known], now_ns)
        else:
            samples = samples_of(sent_ns, resends, cols.rtx, now_ns)
        if samples is not None:
            self.rtt.add(int(samples.mean_ns))
        return samples

    def _hear_probes(self, cols: SackColumns, now_ns: int) -> None:
        rows = cols.pr
        for answer in self.prober.on_answers(cols.ack_psn_offset[rows], cols.m[rows], now_ns):
            self._in_flight.heard_of(answer.row, answer.order)
            self.ev_set.on_arrivals(np.array([answer.row], np.uint16))
            self.rtt.add(answer.rtt_ns)
            self.counters.probes_answered += 1

    def _find_lost(self, settled: bool, now_ns: int) -> None:
        """Mark what is proven lost, and, if a resend was answered (`settled`), what was doubted and is missing."""
        flight, doubt_ns, missing = self._in_flight, self.timer.doubt_ns, self._missing
        rule = self._config.loss_rule
        if rule is not LossRule.GENERIC:
            self._report_lost(flight.infer_lost(missing), now_ns)
        if rule is not LossRule.SAME_EV:
            self._find_late(now_ns)
        if settled and doubt_ns is not None:
            evs = flight.expire(missing, doubt_ns, flight.sent)
            self.timer.doubt_ns = None if missing is None else doubt_ns
            if len(evs):
                self._report_timed_out(evs, now_ns)

    def _find_late(self, now_ns: int) -> None:
        """The generic rule; a packet is as late as the newest SACK is young, whatever the time is now."""
        flight = self._in_flight
        tolerance_ns = self.rtt.tolerance_ns(self._config.reorder_floor_ns)
        late = Tolerance(self._config.reorder_pkts, self._news_ns - tolerance_ns)
        self._report_lost(flight.infer_lost_late(self._missing, late), now_ns)
        waits = flight.sent and flight.base < flight.top
        self._late_ns = max(now_ns, flight.oldest_sent_ns(now_ns)) + tolerance_ns if waits else None

    def _ask_late(self, now_ns: int) -> None:
        """Packets are overdue and no SACK has come since: have one sent."""
        self._late_ns = None
        if self._in_flight.sent and self.ev_set.sendable:
            self.prober.ask(self.ev_set.any_rows(1))
            self._late_ns = now_ns + 2 * self.rtt.tolerance_ns(self._config.reorder_floor_ns)

    def _on_refused(self, reason: NackReason, offsets: NDArray[np.int64], evs: NDArray[np.uint16], now_ns: int) -> None:
        self._report(PacketsNacked(now_ns, *self._tally(evs, self.evs.trimmed if reason in _TRIMS else None), reason))
        if self._window is not None and reason in _TRIMS:
            self._window.on_trimmed(self._in_flight.newly_lost, now_ns)
        elif self._window is not None:
            self._window.on_refused(self._in_flight.newly_lost)
        if reason is NackReason.TRIMMED:
            self.ev_set.on_trimmed(evs, now_ns)
        if int(offsets[0]) == self._in_flight.base:
            # A retry each time the oldest packet is refused: any move of the cumulative point gives them back.
            self.timer.retries += 1
        if reason not in _TRIMS:
            # What the responder is short of takes a while; twice as long each time it is refused in a row.
            self._resend_from_ns = now_ns + (self.rtt.tolerance_ns(0) << min(self.timer.retries, 7))

    def _probe_tail(self, now_ns: int) -> None:
        """Ask about packets that nobody has spoken of for a while, on their own EVs (MRC 11.2, tail loss)."""
        after_ns = self._config.ev.tail_probe_ns
        if after_ns is None or not self._in_flight.sent:
            self._tail_ns = None
            return
        rows = self._in_flight.waiting_evs(now_ns - after_ns, _TAIL_PROBES)
        self.prober.ask(rows)
        self._tail_ns = now_ns + (2 * after_ns if len(rows) else after_ns)

    def _watch_tail(self, now_ns: int) -> None:
        after_ns = self._config.ev.tail_probe_ns
        if after_ns is not None:
            self._tail_ns = now_ns + after_ns if self._in_flight.sent else None

    def _rest(self) -> None:
        """Nothing is in flight."""
        self.timer.disarm()
        if self._window is not None:
            self._window.settle()

    def _report_lost(self, evs: NDArray[np.uint16], now_ns: int) -> None:
        if len(evs):
            if self._window is not None:
                self._window.on_lost(self._in_flight.newly_lost)
            if self._in_flight.base_copies >= _MOST_COPIES:
                self.timer.retries += 1
            self.counters.lost += len(evs)
            self._report(PacketsLost(now_ns, *self._tally(evs, self.evs.lost)))
            self._blame(evs, now_ns)

    def _report_timed_out(self, evs: NDArray[np.uint16], now_ns: int) -> None:
        if self._window is not None:
            self._window.on_lost(self._in_flight.newly_lost)
        self.counters.timed_out += len(evs)
        self._report(PacketsTimedOut(now_ns, *self._tally(evs, self.evs.timed_out), self.timer.retries))
        self._blame(evs, now_ns)

    def _blame(self, evs: NDArray[np.uint16], now_ns: int) -> None:
        """The packets just marked as lost speak against their EVs, (m,) rows."""
        if self._config.ev.adapts:
            self.ev_set.on_losses(evs, self._in_flight.newly_lost_unheard(self._profile.planes), now_ns)
            self.prober.follow(now_ns)

    def _tally(
        self, evs: NDArray[np.uint16], counter: NDArray[np.int64] | None
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        counts = np.bincount(evs, minlength=len(self.evs.lost))
        if counter is not None:
            counter += counts
        indices = counts.nonzero()[0]
        return tuple(indices.tolist()), tuple(counts[indices].tolist())

    def _complete(self, now_ns: int) -> None:
        """Complete messages up to the transport ACK, and never beyond what SACKs have told."""
        flight, messages = self._in_flight, self.messages
        stop = min(self._acked, flight.base) if self._config.transport_ack else flight.base
        first, count, length = messages.complete_below(stop)
        if count:
            self.counters.last_completed_ns = now_ns
            self._report(MessagesCompleted(now_ns, first, count, length))
        waits = self._config.transport_ack and not flight.sent and messages.has_ended_below(flight.base)
        if not waits:
            self._unacked_ns = None
        elif self._unacked_ns is None:
            self._unacked_ns = now_ns + self.timer.interval_ns
