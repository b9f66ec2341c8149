"""Send half of a queue pair: admission, spraying, acknowledgements, selective retransmission.

Combines the message table, the in-flight rings, the EV set, probes and the retry timer; knows no clock and no queue
pair state. MRC Tables 7-1, 7-3, 7-4.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from agent.core.config import QpConfig
from agent.core.congestion.interface import CongestionControl
from agent.core.counters import EvCounters, RequesterCounters
from agent.core.ev.ev_set import EvSet
from agent.core.ev.profile_sources import EvProfile
from agent.core.ev.spray_schedule import SpraySchedule
from agent.core.events import Event, MessagesCompleted
from agent.core.psn import offset_of, offsets_of, psns_of
from agent.core.send.inflight import InFlight
from agent.core.send.limits import Pacer, SendWindow
from agent.core.send.messages import FlowShares, MessageTable
from agent.core.send.probes import Prober
from agent.core.send.recovery import Recovery, Sending
from agent.core.send.rtt import is_valid, samples_of
from agent.core.send.sack_reader import SackNews, SackReader
from agent.core.timeouts import RetryTimer
from agent.wire.array.columns import SackColumns, WriteBatch
from agent.wire.array.control_columns import AckColumns, NackColumns, ProbeBatch
from agent.wire.constants import (
    BTH_ACK_REQUEST,
    BTH_RETRANSMISSION,
    MPR_UNIT_PSNS,
    TX_TIMESTAMP_TICK_NS,
    NackReason,
)


class Requester:
    """Sends posted messages until the responder has all of them."""

    def __init__(
        self,
        config: QpConfig,
        profile: EvProfile,
        start_psn: int,
        rng: np.random.Generator,
        report: Callable[[Event], None],
        qpn: int = 0,
        control: CongestionControl | None = None,
        evs: EvCounters | None = None,
    ) -> None:
        """Create a requester that counts packets in `evs`, which start at zero; None: in counters of its own."""
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
        self._pacer = Pacer(config.packet_interval_ns) if config.packet_interval_ns else None
        self._paced_until_ns: int | None = None
        """Time at which the pacer allows the next packet; None if it holds none back."""
        self._ack_asked = -1
        self._acked = 0
        self._unacked_ns: int | None = None
        self.messages = MessageTable(config.pmtu)
        self.ev_set = EvSet(
            config.ev,
            profile,
            lambda planes: SpraySchedule(config.policy, config.seed, planes, config.rotations_per_order),
            rng,
            report,
        )
        active = int(np.count_nonzero(self.ev_set.active))
        self._first_pkts = config.ev.start_rotations * active if config.ev.adapts else 0
        self.prober = Prober(config.ev, self.ev_set, self._in_flight.order_now, qpn, rng)
        self.timer = RetryTimer(config.ack_timeout_ns, config.linear_cnt, config.exp_cnt)
        self.counters = RequesterCounters()
        self.evs = EvCounters.zeros(ev_count) if evs is None else evs
        self.shares = FlowShares(ev_count)
        self.recovery = Recovery(
            Sending(
                config,
                profile,
                self._in_flight,
                self.ev_set,
                self.prober,
                self.timer,
                self._window,
                self.counters,
                self.evs,
                report,
            )
        )

    @property
    def in_flight_pkts(self) -> int:
        """Count packets sent, not known to have arrived and not waiting for retransmission."""
        return self._in_flight.sent

    @property
    def backlog_pkts(self) -> int:
        """Count posted packets not yet sent, and lost ones not yet sent again."""
        return self.messages.end - self._in_flight.end + self._in_flight.lost

    @property
    def acked_bytes(self) -> int:
        """Count bytes below the cumulative point."""
        return self.messages.bytes_below(self._in_flight.base)

    @property
    def window_psns(self) -> int:
        """Count PSNs that may be sent, from the oldest unacknowledged one on."""
        return self._window_psns

    @property
    def schedule_lead(self) -> int:
        """Return how far the spray schedule is ahead of the packet offset: skipped EVs use positions too."""
        return self.ev_set.position - self._in_flight.end

    @property
    def deadline_ns(self) -> int | None:
        """Latest time at which `on_timer` must run; None if never."""
        due = (self.recovery.deadline_ns, self._unacked_ns, self._paced_until_ns)
        known = [each for each in due if each is not None]
        return min(known) if known else None

    def expect(self, peer_qpn: int, mpr_dest: int | None, max_wimm: int | None, dynamic_mpr: bool) -> None:
        """Set the limits that the peer gives us."""
        self.prober.expect(peer_qpn)
        if mpr_dest is not None:
            self._window_psns = min(self._window_psns, mpr_dest * MPR_UNIT_PSNS)
        if max_wimm is not None:
            self._max_wimm = min(self._max_wimm, max_wimm)
        self._dynamic_mpr &= dynamic_mpr

    def transmit(self, limit: int, now_ns: int) -> WriteBatch | None:
        """Build up to `limit` packets, lost ones first, oldest first; None if there is nothing to send or no window.

        A batch reads from one source memory: it ends early where the next message lies in another.
        """
        flight = self._in_flight
        limit = self._allowed(limit, now_ns)
        if limit < 1:
            return None
        again = 0
        resend = None
        if flight.lost and now_ns >= self.recovery.resend_from_ns:
            resend = flight.lost_offsets(limit, self._window_end)
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
            self._window.on_sent(offsets, segments.payload_bytes, again)
        self.recovery.presume(offsets[again:], now_ns)
        if self._pacer is not None:
            self._pacer.on_sent(count, now_ns)
            self._paced_until_ns = self._pacer.due_ns if count == limit else None
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

    def uses(self, row: int) -> bool:
        """Report whether anything sent on an EV row is outstanding, or still to be declared."""
        return self._in_flight.is_on(row) or self.prober.is_on(row) or self.shares.watching

    def probes(self, now_ns: int) -> ProbeBatch | None:
        """Build the queued reliability probes; send them before the next packets of `transmit`."""
        batch = self.prober.batch(now_ns)
        if batch is not None:
            self.counters.probes += len(batch)
            self.evs.probes += np.bincount(batch.ev_index, minlength=len(self.evs.probes))
        return batch

    def receive_sacks(self, cols: SackColumns, now_ns: int) -> int | None:
        """Process (r,) SACKs, r >= 1, in order of arrival: what arrived and what is lost.

        Returns the peer's port mask of the newest SACK, bit N = port N; None if there is none.
        """
        flight, reader, recovery = self._in_flight, self._reader, self.recovery
        news = reader.read(cols, flight.base, flight.end, None if self._window is None else self._window.possible)
        counters = self.counters
        counters.sacks, counters.sacks_stale, counters.sacks_rejected = reader.read_count, reader.stale, reader.rejected
        if news is None:
            return None
        self._follow_peer(news, now_ns)
        recovery.sample_rtt(news, now_ns)
        if self._window is not None:
            self._steer(self._window, news, now_ns)
        progress = news.base > flight.base
        evs = flight.acknowledge(news.base, news.received(flight.end))
        if len(evs):
            reader.known_received += len(evs)
            self.evs.acked += np.bincount(evs, minlength=len(self.evs.acked))
            self.ev_set.on_arrivals(evs)
        if np.count_nonzero(news.cols.pr):
            recovery.hear_probes(news.cols, now_ns)
        settled = any(new and rtx for new, rtx in zip(news.newest, news.cols.rtx.tolist(), strict=True))
        recovery.find_lost(reader.missing(news, flight.end), True in news.newest, settled, now_ns)
        if progress:
            recovery.on_progress()
            self._complete(now_ns)
        if not flight.sent:
            self.recovery.rest()
        recovery.watch_tail(now_ns)
        return _peer_mask(news)

    def receive_nacks(self, cols: NackColumns, now_ns: int) -> bool:
        """Queue what the responder refused (n,) for retransmission.

        False if a NACK shows that the queue pair has failed.

        Only outstanding packets count: a NACK of anything else is forged or stale.
        """
        flight, counters = self._in_flight, self.counters
        offsets = offsets_of(cols.nack_psn, self._start_psn, flight.base)
        fatal = (cols.nack_reason == NackReason.UNEXP_EVENT) & flight.outstanding_at(offsets)
        sent = offsets < flight.end
        counters.nacks_rejected += int(len(sent) - np.count_nonzero(sent))
        offsets, cols = offsets[sent], cols.take(sent)
        offsets, first = np.unique(offsets, return_index=True)
        cols = cols.take(first)
        # A NACK of an earlier copy must not affect the copy sent since.
        current = flight.in_flight_at(offsets)
        current &= self._profile.evs[flight.evs_of(offsets)] == cols.ev
        counters.nacks_stale += int(len(current) - np.count_nonzero(current))
        # One iteration per reason.
        for reason in np.unique(cols.nack_reason[current]).tolist():
            refused = offsets[current & (cols.nack_reason == reason)]
            self.recovery.on_refused(NackReason(reason), refused, now_ns)
        if not flight.sent:
            self.recovery.rest()
        return not np.count_nonzero(fatal)

    def receive_acks(self, cols: AckColumns, now_ns: int) -> None:
        """Complete messages that (n,) positive transport ACKs cover, as far as SACKs have confirmed them."""
        flight = self._in_flight
        # One iteration per ACK: they are spaced in time.
        ends = [offset_of(psn, self._start_psn, flight.base) + 1 for psn in cols.psn.tolist()]
        possible = [end for end in ends if end <= flight.end]
        self.counters.acks += len(ends)
        self.counters.acks_rejected += len(ends) - len(possible)
        if possible:
            self._acked = max(self._acked, *possible)
            self._complete(now_ns)

    def first_nak(self, cols: AckColumns, rows: NDArray[np.intp]) -> int | None:
        """Return the first transport NAK, in (m,) rows of (n,) ACKs, that refuses a packet of an incomplete message."""
        low, high = self.messages.first_incomplete, self._in_flight.end
        for row in rows.tolist():
            if low <= offset_of(int(cols.psn[row]), self._start_psn, self._in_flight.base) < high:
                return int(row)
            self.counters.acks_rejected += 1
        return None

    def on_timer(self, now_ns: int) -> None:
        """Act on what is overdue; then the caller checks `timer.exhausted`."""
        self.recovery.on_timer(now_ns)
        if self._unacked_ns is not None and now_ns >= self._unacked_ns:
            # Only the transport ACK is missing: an answered probe makes the peer repeat it.
            self.timer.use_retry()
            self._unacked_ns = now_ns + self.timer.interval_ns
            if self.ev_set.sendable:
                self.prober.ask(self.ev_set.any_rows(1))

    def fail_acked(self, cols: AckColumns, row: int, now_ns: int) -> None:
        """Complete messages that a transport NAK still acknowledges: those before the message it refuses."""
        end = offset_of(int(cols.psn[row]), self._start_psn, self._in_flight.base)
        self._acked = max(self._acked, min(end, self._in_flight.base))
        self._complete(now_ns)

    def close(self) -> None:
        """Stop sending: the queue pair has failed; a shared controller stays with the others."""
        self._in_flight.forget()
        self.messages.release()
        self.shares.give_up()
        self.recovery.rest()

    @property
    def _window_end(self) -> int:
        """Return the offset after the last packet in PSN windows; more are allowed once the first rotations arrived."""
        base = self._in_flight.base
        end = base + self._window_psns
        return end if base >= self._first_pkts else min(end, self._first_pkts)

    def _allowed(self, limit: int, now_ns: int) -> int:
        """Count the packets, up to `limit`, that the congestion window, the EVs and the pacer allow now."""
        self._paced_until_ns = None
        if not self.backlog_pkts:
            return 0
        if self._window is not None:
            limit = self._window.room(limit, not self._in_flight.sent)
        if not self.ev_set.sendable:
            if self.timer.deadline_ns is None:
                self.timer.arm(now_ns)
            return 0
        if self._pacer is not None and limit > 0:
            limit = self._pacer.room(limit, now_ns)
            self._paced_until_ns = None if limit else self._pacer.due_ns
        return limit

    def _room(self, limit: int) -> int:
        flight = self._in_flight
        stop = min(self._window_end, self.messages.end_within(self._max_wimm))
        return max(0, min(limit, stop - flight.end))

    def _record(self, offsets: NDArray[np.int64], again: int, now_ns: int) -> NDArray[np.uint16]:
        """Choose an EV per packet, the first `again` being retransmissions, and record them as sent; (n,) EV rows."""
        flight = self._in_flight
        fresh = len(offsets) - again
        ev_count = len(self.evs.tx_first)
        if again:
            evs = self.ev_set.other_than(flight.evs_of(offsets[:again]), self.recovery.silent.rows())
            flight.record_again(offsets[:again], evs, now_ns)
            self.counters.packets_rtx += again
            self.evs.tx_rtx += np.bincount(evs, minlength=ev_count)
        ev_index = self.ev_set.take(fresh, now_ns)
        if fresh:
            self.shares.record(flight.end, ev_index)
            flight.record_first(flight.end + fresh, ev_index, now_ns)
            self.counters.packets_tx += fresh
            self.evs.tx_first += np.bincount(ev_index, minlength=ev_count)
        self.recovery.on_sent(fresh, offsets[:again], now_ns)
        if self.counters.first_tx_ns is None:
            self.counters.first_tx_ns = now_ns
        return np.concatenate((evs, ev_index)) if again else ev_index

    def _flags(self, offsets: NDArray[np.int64], again: int) -> NDArray[np.uint8]:
        """Set BTH flags of a batch just recorded: retransmissions, and AckReq where the backlog or the window ends."""
        flags = np.zeros(len(offsets), np.uint8)
        flags[:again] = BTH_RETRANSMISSION
        flight = self._in_flight
        backlog_ends = flight.end == self.messages.end
        window_ends = flight.end == self._window_end
        if self._window is not None:
            window_ends |= not self._window.room(1, False)
        # While a requested SACK is still due, a full window needs no second one.
        if backlog_ends or (window_ends and not flight.is_outstanding(self._ack_asked)):
            flags[-1] |= BTH_ACK_REQUEST
            self._ack_asked = int(offsets[-1])
        return flags

    def _follow_peer(self, news: SackNews, now_ns: int) -> None:
        """Apply the other contents of SACKs: the peer's window, and paths that met congestion."""
        cols = news.cols
        newest = [row for row, new in enumerate(news.newest) if new]
        if self._dynamic_mpr and newest:
            mpr = int(cols.mpr[newest[-1]])
            self._window_psns = min(self._most_psns, mpr * MPR_UNIT_PSNS) if mpr else self._window_psns
        if np.count_nonzero(cols.m):
            self.ev_set.on_verdicts(cols.ev, cols.m, now_ns)
            self.prober.follow(now_ns)

    def _steer(self, window: SendWindow, news: SackNews, now_ns: int) -> None:
        """Give congestion control the SACKs of a drain and the round trips of all packets they answer."""
        cols, flight = news.cols, self._in_flight
        answers = zip(news.answered(), cols.pr.tolist(), cols.rtx.tolist(), strict=True)
        sendings = [(flight.sending_of(offset), rtx) for offset, is_probe, rtx in answers if not is_probe]
        sent_ns = [sent[0] for sent, rtx in sendings if sent is not None and is_valid(sent[1], rtx)]
        window.on_sacks(news, samples_of(sent_ns, now_ns), now_ns)

    def _complete(self, now_ns: int) -> None:
        """Complete messages up to the transport ACK, and never beyond what SACKs have confirmed."""
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


def _peer_mask(news: SackNews) -> int | None:
    """Return the newest port mask that is not empty."""
    masks = news.cols.port_mask
    if masks is None:
        return None
    told = [mask for mask, new in zip(masks.tolist(), news.newest, strict=True) if new and mask]
    return told[-1] if told else None
