"""Handling of packets that do not arrive: proof, suspicion, timeouts and refusals, and the EVs and planes blamed.

Combines the in-flight rings, the retry timer and probes; informs the EV set and congestion control. Knows no messages.
MRC chapter 11, Tables 7-1, 7-3.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agent.core.config import LossRule, QpConfig
from agent.core.counters import EvCounters, RequesterCounters
from agent.core.ev.ev_set import EvSet
from agent.core.ev.profile_sources import EvProfile
from agent.core.events import Event, PacketsLost, PacketsNacked, PacketsTimedOut, PlaneLossy, PlaneTried
from agent.core.send.inflight import InFlight, Tolerance
from agent.core.send.limits import SendWindow
from agent.core.send.path_health import ENOUGH, WITNESSES, LossyPlane, PlaneLosses, SilentPaths
from agent.core.send.probes import Prober
from agent.core.send.rtt import RoundTrip, RoundTrips, elapsed_ns, is_valid
from agent.core.send.sack_reader import SackNews
from agent.core.timeouts import OutstandingProbe, RetryTimer
from agent.wire.array.columns import SackColumns
from agent.wire.constants import NackReason

_TIMEOUT_RESENDS = 4
"""Packets sent again at a timeout before any answer. Our choice: at 20 % loss one of four arrives in 998 of 1000 cases,
and four needless packets do no harm."""

_TAIL_PROBES = 32
"""EVs probed at a time about packets without any answer. Our choice: a dead plane of 32 spines is found at once."""

_MOST_COPIES = 64
"""Transmissions of the oldest packet, each proven lost, before each further one uses a retry. Otherwise a path that
carries probes but no data would be tried for ever. Our choice."""

_DOUBTFUL = 2
"""Packets missing in a row on one EV, while others arrived, for a timeout to start a probe. Our choice: one is
chance."""

_RTT_PERIOD_NS, _RTT_SACKS = 1_000_000, 4
"""Shortest time between round trip samples for loss detection. Our choice: a sample costs as much as a SACK's
bitmap."""

_TRIMS = (NackReason.TRIMMED, NackReason.TRIMMED_LASTHOP)


@dataclass(frozen=True, slots=True)
class Sending:
    """Parts of a requester that its recovery works on; the requester owns them all."""

    config: QpConfig
    profile: EvProfile
    flight: InFlight
    ev_set: EvSet
    prober: Prober
    timer: RetryTimer
    window: SendWindow | None
    counters: RequesterCounters
    evs: EvCounters
    report: Callable[[Event], None]


class Recovery:
    """Finds lost packets and queues them for retransmission."""

    def __init__(self, sending: Sending) -> None:
        self._config = sending.config
        self._profile = sending.profile
        self._planes = np.unique(sending.profile.planes)
        self._flight = sending.flight
        self._ev_set = sending.ev_set
        self._prober = sending.prober
        self._timer = sending.timer
        self._window = sending.window
        self._counters = sending.counters
        self._evs = sending.evs
        self._report = sending.report
        self._sampled_ns = -_RTT_PERIOD_NS
        self._late_ns: int | None = None
        self._tail_ns: int | None = None
        self._silent_ns: int | None = None
        self._try_planes_ns: int | None = None
        self._plane_losses = PlaneLosses(sending.profile, sending.evs)
        self.silent = SilentPaths(sending.flight)
        """Paths from which nothing comes back while others answer."""
        self._trips = RoundTrips(sending.profile.planes)
        self._missing: NDArray[np.bool_] | None = None
        """Packets that the newest SACK showed missing, from the cumulative point on; None: all that are
        unacknowledged."""
        self._news_ns = 0
        """Time at which the newest SACK came."""
        self.resend_from_ns = 0
        """Lost packets wait until this time, because the responder lacks a resource."""
        if sending.config.loss_rule is not LossRule.SAME_EV:
            sending.flight.note_arrivals(sending.config.reorder_pkts)

    @property
    def rtt(self) -> RoundTrip:
        """Return the round trip over all paths."""
        return self._trips.all

    @property
    def deadline_ns(self) -> int | None:
        """Latest time at which `on_timer` must run; None if never."""
        first = self._timer.deadline_ns
        for due in (self._prober.deadline_ns, self._late_ns, self._tail_ns, self._silent_ns, self._try_planes_ns):
            if due is not None and (first is None or due < first):
                first = due
        return first

    def on_sent(self, fresh: int, again: NDArray[np.int64], now_ns: int) -> None:
        """Start timers: `fresh` packets were sent, and those at (m,) offsets again."""
        if fresh:
            self._timer.arm(now_ns)
        else:
            self._timer.arm_at(self._flight.next_expiry_ns(self._timer.intervals_ns, now_ns, again))
        if self._silent_ns is None and self.silent.rows() is not None:
            self._silent_ns = now_ns
        if self._tail_ns is None and self._config.ev.tail_probe_ns is not None:
            self._tail_ns = now_ns + self._config.ev.tail_probe_ns

    def on_progress(self) -> None:
        """Reset what progress of the cumulative point resets."""
        timer, flight = self._timer, self._flight
        timer.on_progress()
        self.resend_from_ns = 0
        if flight.forget_timeouts() and timer.deadline_ns is not None:
            timer.look_at(flight.next_expiry_ns(timer.intervals_ns, timer.deadline_ns))

    def on_timer(self, now_ns: int) -> None:
        """Queue the oldest packets for retransmission after a timeout; then the caller checks `timer.exhausted`.

        Only a few are sent again at once: their SACK will show which others are missing. So a lost SACK or a process
        that slept does not cause a whole window to be sent twice.
        """
        self._on_early_timers(now_ns)
        deadline_ns = self._timer.deadline_ns
        if deadline_ns is None or now_ns < deadline_ns:
            return
        flight, timer = self._flight, self._timer
        overtaken = self.silent.overtaken(now_ns - timer.default_ns, None)
        slots = flight.expire_due(timer.intervals_ns, now_ns, _TIMEOUT_RESENDS)
        if len(slots):
            timer.on_timeout(now_ns, flight.most_timeouts)
            self._report_timed_out(slots, now_ns)
            timer.look_at(flight.next_expiry_ns(timer.intervals_ns, now_ns + timer.interval_ns))
            evs = flight.evs_at(slots)
            evs = evs[overtaken[evs] > 0]
            self._doubt_paths(evs, np.maximum(self.silent.on_lost(evs), overtaken) >= _DOUBTFUL)
        elif not self._ev_set.sendable and not flight.sent:
            # No port is left: nothing can be sent, and that must end too.
            timer.on_timeout(now_ns)
        else:
            timer.look_at(flight.next_expiry_ns(timer.intervals_ns, now_ns + timer.default_ns))

    def _on_early_timers(self, now_ns: int) -> None:
        """Run what is due before a timeout: probes, late packets, silence at the tail."""
        prober = self._prober
        if prober.deadline_ns is not None and now_ns >= prober.deadline_ns:
            self._on_unanswered(prober.on_timer(now_ns), now_ns)
        if self._silent_ns is not None and now_ns >= self._silent_ns:
            self._ask_silent(now_ns)
        if self._try_planes_ns is not None and now_ns >= self._try_planes_ns:
            self._try_planes(now_ns)
        if self._late_ns is not None and now_ns >= self._late_ns:
            self._ask_late(now_ns)
        if self._tail_ns is not None and now_ns >= self._tail_ns:
            self._probe_tail(now_ns)

    def sample_rtt(self, news: SackNews, now_ns: int) -> None:
        """Take round trips from time to time, of packets that a drain's SACKs answer, by the table of send times.

        A sample is valid if it is known which transmission is answered (UET). If not, the echoed timestamp decides:
        without it the estimate would stop just when a queue makes all retransmissions needless. Probes have their own
        samples.
        """
        if now_ns - self._sampled_ns < _RTT_PERIOD_NS:
            return
        cols, flight = news.cols, self._flight
        answered = news.answered()
        # A few samples from SACKs all over the drain: a slow plane's may never be the last.
        for number in range(len(answered) - 1, -1, -max(1, len(answered) // _RTT_SACKS)):
            offset = answered[number]
            sent = None if cols.pr[number] else flight.sending_of(offset)
            if sent is None:
                continue
            self._sampled_ns = now_ns
            is_clear = is_valid(sent[1], bool(cols.rtx[number]))
            rtt_ns = now_ns - sent[0] if is_clear else elapsed_ns(int(cols.tx_timestamp[number]), now_ns)
            self._learn_rtt(rtt_ns, int(flight.evs_of(np.array([offset]))[0]))

    def _learn_rtt(self, rtt_ns: int, row: int) -> None:
        self._trips.add(rtt_ns, row)
        # A queue on the path must not make probes fail.
        self._prober.wait_at_least(self.rtt.tolerance_ns(0))

    def hear_probes(self, cols: SackColumns, now_ns: int) -> None:
        """Process those of (r,) SACKs that answer probes.

        Packets before them on their EVs have arrived, or are lost.
        """
        rows = cols.pr
        for answer in self._prober.on_answers(cols.ack_psn_offset[rows], cols.m[rows], now_ns):
            self._flight.heard_of(answer.row, answer.order)
            self._ev_set.on_arrivals(np.array([answer.row], np.uint16))
            self._learn_rtt(answer.rtt_ns, answer.row)
            self._counters.probes_answered += 1

    def find_lost(self, missing: NDArray[np.bool_] | None, has_news: bool, settled: bool, now_ns: int) -> None:
        """Mark packets proven lost; if a retransmission was answered (`settled`), also suspected ones that are missing.

        `missing` (m,) is what the newest SACK shows, as in `InFlight.infer_lost`; `has_news`: it has just come.
        """
        self._missing = missing
        if has_news:
            self._news_ns = now_ns
        flight, doubt_ns = self._flight, self._timer.doubt_ns
        if not flight.sent:
            return
        rule = self._config.loss_rule
        if rule is not LossRule.GENERIC:
            self._report_lost(flight.infer_lost(missing), now_ns)
        if rule is not LossRule.SAME_EV:
            self._find_late(now_ns)
        if settled and doubt_ns is not None:
            slots = flight.expire(missing, doubt_ns, flight.sent)
            self._timer.doubt_ns = None if missing is None else doubt_ns
            self._report_timed_out(slots, now_ns)

    def _find_late(self, now_ns: int) -> None:
        """Apply the generic rule; lateness is measured at the newest SACK, not at the present time."""
        flight = self._flight
        tolerances_ns = self._trips.tolerances_ns(self._config.reorder_floor_ns)
        late = Tolerance(self._config.reorder_pkts, self._news_ns, tolerances_ns)
        slots = flight.infer_lost_late(self._missing, late)
        if len(slots):
            evs = flight.evs_at(slots)
            self._report_lost(slots, now_ns)
            self._doubt_paths(evs, self.silent.on_lost(evs) >= ENOUGH)
        waits = flight.sent and flight.base < flight.top
        self._late_ns = max(now_ns, flight.oldest_sent_ns(now_ns)) + int(tolerances_ns.max()) if waits else None

    def _ask_late(self, now_ns: int) -> None:
        """Ask for a SACK when packets are overdue and none has come since.

        It sends as many probes as the arrivals that prove lateness: where nothing more may be sent, no later packet
        exists.
        """
        self._late_ns = None
        if self._flight.sent and self._ev_set.sendable:
            self._prober.ask(self._ev_set.any_rows(self._config.reorder_pkts))
            self._late_ns = now_ns + 2 * self.rtt.tolerance_ns(self._config.reorder_floor_ns)

    def on_refused(self, reason: NackReason, offsets: NDArray[np.int64], now_ns: int) -> None:
        """Process a refusal of packets at (m,) rising offsets, which are in flight."""
        slots = self._flight.refuse(offsets)
        evs = self._flight.evs_at(slots)
        self._counters.nacked += len(slots)
        self._report(PacketsNacked(now_ns, *self._tally(evs, self._evs.trimmed if reason in _TRIMS else None), reason))
        if self._window is not None and reason in _TRIMS:
            self._window.on_trimmed(slots, now_ns)
        elif self._window is not None:
            self._window.on_refused(slots)
        if reason is NackReason.TRIMMED:
            self._ev_set.on_trimmed(evs, now_ns)
        if int(offsets[0]) == self._flight.base:
            # A refusal of the oldest packet uses a retry: any progress of the cumulative point gives all back.
            self._timer.use_retry()
        if reason not in _TRIMS:
            # The responder's shortage may last: wait twice as long per refusal in a row.
            self.resend_from_ns = now_ns + (self.rtt.tolerance_ns(0) << min(self._timer.retries, 7))

    def _probe_tail(self, now_ns: int) -> None:
        """Probe EVs of packets that had no answer for a while (MRC 11.2, tail loss)."""
        after_ns = self._config.ev.tail_probe_ns
        if after_ns is None or not self._flight.sent:
            self._tail_ns = None
            return
        rows = self._flight.waiting_evs(now_ns - after_ns, _TAIL_PROBES)
        self._ask_about(rows)
        self._tail_ns = now_ns + (2 * after_ns if len(rows) else after_ns)

    def _ask_about(self, rows: NDArray[np.uint16]) -> None:
        """Probe EV rows (m,), and others: if those of the packets are dead, answers over others prove them late."""
        if len(rows) and self._ev_set.sendable:
            self._prober.ask(rows)
            others = max(self._config.reorder_pkts, WITNESSES + 1)
            self._prober.ask(self._ev_set.any_rows(others, except_for=rows))

    def _doubt_paths(self, evs: NDArray[np.uint16], doubtful: NDArray[np.bool_]) -> None:
        """Probe the `doubtful` ones of EV rows (m,), whose packets were given up and overtaken by others."""
        rows = [row for row in np.unique(evs[doubtful[evs]]).tolist() if not self._prober.is_on(row)]
        self._ask_about(np.array(rows, np.uint16))

    def _on_unanswered(self, probes: list[OutstandingProbe], now_ns: int) -> None:
        """Process probes that were given up.

        Paths that others have overtaken are silent, or are probed again, more often.
        """
        if not probes or (not self._flight.sent and not self._flight.lost):
            return
        counts = np.where(self._ev_set.usable, self.silent.on_unanswered(probes, self._missing), 0)
        if np.count_nonzero(counts) and (silent := self.silent.rows()) is not None:
            self._report_lost(self._flight.lose_on(silent), now_ns)
            counts[silent] = 0
        rows = counts.nonzero()[0].astype(np.uint16)
        self._ask_about(rows.repeat(ENOUGH - counts[rows]))

    def _ask_silent(self, now_ns: int) -> None:
        """Probe silent paths in use from time to time: only an answer shows that they work again."""
        silent = self.silent.rows()
        if silent is None:
            self._silent_ns = None
            return
        self._prober.ask((silent & self._ev_set.usable).nonzero()[0].astype(np.uint16))
        self._silent_ns = now_ns + self._config.ev.probe_interval_ns

    def presume(self, offsets: NDArray[np.int64], now_ns: int) -> None:
        """Mark first transmissions at (n,) offsets, just sent, as lost if they are on silent paths."""
        silent = self.silent.rows()
        if silent is not None:
            self._report_lost(self._flight.lose_on(silent, offsets), now_ns)

    def watch_tail(self, now_ns: int) -> None:
        """Restart the tail timer after SACKs."""
        after_ns = self._config.ev.tail_probe_ns
        if after_ns is not None:
            self._tail_ns = now_ns + after_ns if self._flight.sent else None

    def on_ports(self, now_ns: int) -> None:
        """Update EVs and the planes' share of the rate after ports changed."""
        self._trips.forget_spread()
        self._prober.follow(now_ns)
        if self._window is not None:
            self._window.control.on_ports(int(np.count_nonzero(self._ev_set.plane_up[self._planes])))

    def rest(self) -> None:
        """Disarm the timers: nothing is in flight."""
        self._timer.disarm()
        self._silent_ns = None
        if self._window is not None:
            self._window.settle()

    def _report_lost(self, slots: NDArray[np.int64], now_ns: int) -> None:
        if len(slots):
            evs = self._flight.evs_at(slots)
            if self._window is not None:
                self._window.on_lost(slots)
            if self._flight.base_copies >= _MOST_COPIES:
                self._timer.use_retry()
            self._counters.lost += len(slots)
            self._report(PacketsLost(now_ns, *self._tally(evs, self._evs.lost)))
            self._blame(slots, now_ns)

    def _report_timed_out(self, slots: NDArray[np.int64], now_ns: int) -> None:
        if not len(slots):
            return
        if self._window is not None:
            self._window.on_lost(slots)
        self._counters.timed_out += len(slots)
        evs = self._flight.evs_at(slots)
        self._report(PacketsTimedOut(now_ns, *self._tally(evs, self._evs.timed_out), self._timer.retries))
        self._blame(slots, now_ns)

    def _blame(self, slots: NDArray[np.int64], now_ns: int) -> None:
        """Count the lost packets at slots (m,) against their EVs and planes."""
        for lossy in self._plane_losses.judge(now_ns):
            self._on_lossy_plane(lossy, now_ns)
        if self._config.ev.adapts:
            before = self._ev_set.version
            unheard = self._flight.unheard(slots, self._profile.planes)
            self._ev_set.on_losses(self._flight.evs_at(slots), unheard, now_ns)
            if self._ev_set.version != before:
                self._trips.forget_spread()
            self._prober.follow(now_ns)

    def _on_lossy_plane(self, lossy: LossyPlane, now_ns: int) -> None:
        """Report a lossy plane, and avoid it if so configured."""
        config = self._config.ev
        leaves = config.leave_lossy_planes and config.adapts and self._ev_set.leave_plane(lossy.plane, now_ns)
        self._report(PlaneLossy(now_ns, *lossy, left=leaves))
        if leaves:
            self._try_planes_ns = now_ns + config.plane_retry_ns
            self.on_ports(now_ns)

    def _try_planes(self, now_ns: int) -> None:
        self._try_planes_ns = None
        for plane in self._ev_set.try_planes(now_ns):
            self._report(PlaneTried(now_ns, plane))
        self.on_ports(now_ns)

    def _tally(
        self, evs: NDArray[np.uint16], counter: NDArray[np.int64] | None
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        counts = np.bincount(evs, minlength=len(self._evs.lost))
        if counter is not None:
            counter += counts
        indices = counts.nonzero()[0]
        return tuple(indices.tolist()), tuple(counts[indices].tolist())
