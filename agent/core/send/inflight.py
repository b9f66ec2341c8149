"""Packets sent and not acknowledged, and the proof that one of them is lost.

Each EV is one FIFO path (docs/transport.md, Loss), so a packet is lost if and only if some SACK shows it missing and a
packet sent later on the same EV had arrived when that SACK was written. Where paths reorder, several later arrivals and
a minimum time take the place of that proof. Knows no messages, timers or windows.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent.core.psn import read_run, ring_size, write_run

ACKED, SENT, LOST = 0, 1, 2
"""Values of the state ring: not outstanding, in flight, waiting for retransmission."""

_ACKED = np.array(ACKED, np.uint8)
_COPIES_MAX = 255
_MOST_DOUBLINGS = 7
"""Most doublings of the tolerance; the same as for NACKed retransmissions (our choice)."""


class Tolerance(NamedTuple):
    """Tolerance of the generic rule: a packet last sent `ns` before `news_ns`, and before `pkts` arrivals, is lost.

    `ns` (e,) is per EV row. It doubles with every retransmission, as timeouts do, because each copy may wait in the
    same queue that delayed the first one.
    """

    pkts: int
    news_ns: int
    ns: NDArray[np.int64]


class InFlight:
    """Parallel rings over packet offsets `base` .. `end - 1`, and the newest arrival known on each EV."""

    def __init__(self, window_psns: int, ev_count: int) -> None:
        size = ring_size(window_psns)
        self._mask = size - 1
        self._slots = np.array(self._mask, np.int64)
        self._state = np.zeros(size, np.uint8)
        self._ev = np.zeros(size, np.uint16)
        self._order = np.zeros(size, np.int64)
        self._sent_ns = np.zeros(size, np.int64)
        self._copies = np.zeros(size, np.uint8)
        self._ambiguous = np.zeros(size, np.bool_)
        self._timeouts = np.zeros(size, np.uint8)
        """Timeouts in a row of each packet, without an answer and without another reason for a retransmission."""
        self._timeout_ns = np.zeros(size, np.int64)
        self._any_timeouts = False
        self.most_timeouts = 0
        """Highest count of timeouts in a row among the packets that `expire_due` found last."""
        self._seen_order = np.full(ev_count, -1, np.int64)
        self._newest_orders = np.full(0, -1, np.int64)
        self._next_order = 0
        self._suspect_end = 0
        self._resent_end = 0
        """Offset after the highest packet that was ever sent again."""
        self.base = 0
        """Offset of the oldest packet not cumulatively acknowledged."""
        self.end = 0
        """Offset after the newest packet sent."""
        self.top = 0
        """Offset after the newest packet known to have arrived."""
        self.sent = 0
        """Number of packets in flight."""
        self.lost = 0
        """Number of packets that wait for retransmission."""

    @property
    def seen_order(self) -> NDArray[np.int64]:
        """Return, (e,) per EV row, the latest position in transmission order known to have arrived; -1: none."""
        return self._seen_order

    @property
    def base_copies(self) -> int:
        """Count transmissions of the oldest unacknowledged packet, at most 255; 0 if there is none."""
        return int(self._copies[self.base & self._mask]) if self.base < self.end else 0

    def is_outstanding(self, offset: int) -> bool:
        """Report whether a sent packet is not yet known to have arrived."""
        return offset >= self.base and self._state[offset & self._mask] != ACKED

    def lost_offsets(self, limit: int, stop: int) -> NDArray[np.int64]:
        """Return up to `limit` of the oldest lost packets below offset `stop`, (m,)."""
        stop = min(stop, self.end)
        found = (read_run(self._state, self.base, stop) == LOST).nonzero()[0][:limit]
        offsets: NDArray[np.int64] = found + self.base
        return offsets

    def evs_of(self, offsets: NDArray[np.int64]) -> NDArray[np.uint16]:
        """Return the EV rows on which packets at (m,) offsets were last sent."""
        evs: NDArray[np.uint16] = self._ev[offsets & self._mask]
        return evs

    def record_first(self, stop: int, evs: NDArray[np.uint16], now_ns: int) -> None:
        """Record the first transmission of packets `end` .. `stop - 1` on (n,) EV rows, in this order."""
        start, count = self.end, stop - self.end
        write_run(self._state, start, stop, SENT)
        write_run(self._ev, start, stop, evs)
        write_run(self._order, start, stop, np.arange(self._next_order, self._next_order + count))
        write_run(self._sent_ns, start, stop, now_ns)
        write_run(self._copies, start, stop, 1)
        write_run(self._ambiguous, start, stop, 0)
        if self._any_timeouts:
            write_run(self._timeouts, start, stop, 0)
        self._next_order += count
        self.end = stop
        self.sent += count

    def record_again(self, offsets: NDArray[np.int64], evs: NDArray[np.uint16], now_ns: int) -> None:
        """Record the retransmission of lost packets at (m,) offsets on (m,) EV rows, in this order."""
        slots = offsets & self._mask
        count = len(offsets)
        self._resent_end = max(self._resent_end, int(offsets[-1]) + 1)
        self._state[slots] = SENT
        self._ev[slots] = evs
        self._order[slots] = np.arange(self._next_order, self._next_order + count)
        self._sent_ns[slots] = now_ns
        self._copies[slots] = np.minimum(self._copies[slots], _COPIES_MAX - 1) + 1
        self._next_order += count
        self.lost -= count
        self.sent += count

    def acknowledge(self, base: int, received: NDArray[np.bool_] | None) -> NDArray[np.uint16]:
        """Mark packets below `base`, and `base + i` where (n,) `received[i]`, as arrived.

        Return EV rows of the new ones.

        A packet sent again without proof of loss (a timeout, lateness) is ambiguous: either copy may have arrived, so
        it gives no evidence about an EV.
        """
        old_base, stop = self.base, base if received is None else base + len(received)
        outstanding = read_run(self._state, old_base, stop) != _ACKED
        if received is not None:
            outstanding[base - old_base :] &= received
        found = outstanding.nonzero()[0]
        self.base = base
        self.top = max(self.top, base)
        if not len(found):
            return np.empty(0, np.uint16)
        self.top = max(self.top, old_base + int(found[-1]) + 1)
        slots = found + old_base & self._slots
        lost = int(np.count_nonzero(self._state[slots] == LOST)) if self.lost else 0
        self.lost -= lost
        self.sent -= len(slots) - lost
        self._state[slots] = ACKED
        evs: NDArray[np.uint16] = self._ev[slots]
        self._learn(slots, evs, old_base < self._resent_end)
        return evs

    def forget(self) -> None:
        """Clear everything: nothing is in flight and nothing will be sent again."""
        self._state.fill(ACKED)
        self.sent = self.lost = 0

    def is_on(self, ev_row: int) -> bool:
        """Report whether a packet in flight was last sent on an EV row."""
        state, evs = (read_run(ring, self.base, self.end) for ring in (self._state, self._ev))
        return bool(np.count_nonzero((state == SENT) & (evs == ev_row)))

    def evs_at(self, slots: NDArray[np.int64]) -> NDArray[np.uint16]:
        """Return the EV rows on which packets at slots (m,) were last sent."""
        evs: NDArray[np.uint16] = self._ev[slots]
        return evs

    def refuse(self, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        """Mark packets in flight at (m,) distinct offsets as refused: they wait for retransmission."""
        return self._mark_lost(offsets & self._mask)

    def in_flight_at(self, offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Report, (n,) per packet, whether it is sent, not acknowledged and not waiting for retransmission."""
        known = (offsets >= self.base) & (offsets < self.end)
        known &= self._state[offsets & self._mask] == SENT
        return known

    def outstanding_at(self, offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Report, (n,) per packet, whether it is sent and not acknowledged."""
        known = (offsets >= self.base) & (offsets < self.end)
        known &= self._state[offsets & self._mask] != ACKED
        return known

    def sending_of(self, offset: int) -> tuple[int, int] | None:
        """Return when the packet at `offset` was last sent, ns, and its retransmissions; None if that is forgotten."""
        if not max(0, self.end - len(self._state)) <= offset < self.end:
            return None
        slot = offset & self._mask
        return int(self._sent_ns[slot]), int(self._copies[slot]) - 1

    def unheard(self, slots: NDArray[np.int64], planes: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Report whether nothing sent later than the packets at slots (m,) is known to have arrived in their plane.

        `planes` (e,) is the plane of each EV row.
        """
        seen = np.full(256, -1, np.int64)
        np.maximum.at(seen, planes, self._seen_order)
        unheard: NDArray[np.bool_] = self._order[slots] > seen[planes[self._ev[slots]]]
        return unheard

    def order_now(self) -> int:
        """Return the position in transmission order of a probe that is sent now."""
        self._next_order += 1
        return self._next_order - 1

    def heard_of(self, ev_row: int, order: int) -> None:
        """Record that a transmission at this position on an EV has arrived."""
        self._seen_order[ev_row] = max(int(self._seen_order[ev_row]), order)
        self._suspect_end = self.end
        self._note_newest(np.array([order]))

    def waiting_evs(self, before_ns: int, limit: int) -> NDArray[np.uint16]:
        """Return EV rows of packets in flight last sent at or before `before_ns`.

        Distinct, oldest first, (m <= limit,).
        """
        slots = self._suspects(None, self.end)
        evs = self._ev[slots[self._sent_ns[slots] <= before_ns]]
        first = np.unique(evs, return_index=True)[1]
        rows: NDArray[np.uint16] = evs[np.sort(first)[:limit]]
        return rows

    def infer_lost_late(self, missing: NDArray[np.bool_] | None, tolerance: Tolerance) -> NDArray[np.int64]:
        """Mark packets as lost by the generic rule for paths that reorder (`Tolerance`); return their slots, (m,)."""
        slots = self._suspects(missing, self.end)
        if not len(slots) or len(self._newest_orders) < tolerance.pkts:
            return slots
        doublings = np.minimum(self._copies[slots].astype(np.int64) - 1, _MOST_DOUBLINGS)
        late = self._sent_ns[slots] + (tolerance.ns[self._ev[slots]] << doublings) <= tolerance.news_ns
        late &= self._order[slots] < self._newest_orders.min()
        lost = slots[late]
        self._ambiguous[lost] = True
        return self._mark_lost(lost)

    def note_arrivals(self, orders: int) -> None:
        """Keep the newest `orders` positions in transmission order known to have arrived, for the generic rule."""
        self._newest_orders = np.full(orders, -1, np.int64)

    def infer_lost(self, missing: NDArray[np.bool_] | None) -> NDArray[np.int64]:
        """Mark as lost each missing packet that is older on its EV than an arrival; return the slots, (m,).

        `missing` shows which packets from `base` on were explicitly missing at the newest SACK; None: all
        unacknowledged packets.
        """
        # First transmissions go out in order of offset: only a later retransmission can prove one above `top` lost.
        slots = self._suspects(missing, max(self.top, self._suspect_end))
        evs: NDArray[np.uint16] = self._ev[slots]
        if not len(slots):
            return slots
        lost = self._order[slots] < self._seen_order[evs]
        return self._mark_lost(slots[lost])

    def expire(self, missing: NDArray[np.bool_] | None, before_ns: int, limit: int) -> NDArray[np.int64]:
        """Mark as lost up to `limit` of the oldest missing packets last sent at or before `before_ns`.

        Return slots, (m,).

        `missing` is that of `infer_lost`.
        """
        slots = self._suspects(missing, self.end)
        slots = slots[self._sent_ns[slots] <= before_ns][:limit]
        self._ambiguous[slots] = True
        return self._give_up(slots)

    def expire_due(self, intervals_ns: NDArray[np.int64], now_ns: int, limit: int) -> NDArray[np.int64]:
        """Mark as lost up to `limit` of the oldest packets whose own timeout has passed; return their slots, (m,).

        `intervals_ns` (t,) is the timeout after 0, 1, ... timeouts in a row of the same packet. Packets beyond `limit`
        start their next interval too: the answers to the others show what became of them.
        """
        slots = self._suspects(None, self.end)
        slots = slots[self._expiry_ns(slots, intervals_ns) <= now_ns]
        if not len(slots):
            return slots
        self._any_timeouts = True
        self._timeouts[slots] = np.minimum(self._timeouts[slots], _COPIES_MAX - 1) + 1
        self._timeout_ns[slots] = now_ns
        self.most_timeouts = int(self._timeouts[slots].max())
        slots = slots[:limit]
        self._ambiguous[slots] = True
        return self._give_up(slots)

    def forget_timeouts(self) -> bool:
        """Reset the timeout counts of all packets; report whether one was above zero."""
        had, self._any_timeouts = self._any_timeouts, False
        if had:
            self._timeouts.fill(0)
        return had

    def next_expiry_ns(
        self, intervals_ns: NDArray[np.int64], default_ns: int, offsets: NDArray[np.int64] | None = None
    ) -> int:
        """Time at which `expire_due` finds a packet in flight, or one of those at (n,) offsets.

        The default if there is none.
        """
        slots = self._suspects(None, self.end) if offsets is None else offsets & self._mask
        return int(np.minimum.reduce(self._expiry_ns(slots, intervals_ns))) if len(slots) else default_ns

    def overtaken(self, order: int, before_ns: int, missing: NDArray[np.bool_] | None) -> NDArray[np.int64]:
        """Count, (e,) per EV row, missing packets sent before a position in the order and not after `before_ns`.

        Packets that a later arrival on their row proves lost are not counted. `missing` is that of `infer_lost`.
        """
        slots = self._suspects(missing, self.end)
        slots = slots[self._sent_ns[slots] <= before_ns]
        evs, sent = self._ev[slots], self._order[slots]
        return np.bincount(evs[(sent > self._seen_order[evs]) & (sent < order)], minlength=len(self._seen_order))

    def lose_on(self, rows: NDArray[np.bool_], offsets: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """Mark as lost what is in flight on EV rows (e,): all packets, or those at (n,) offsets; return slots, (m,).

        This is no proof: if a packet arrives later, it may be either copy.
        """
        slots = self._suspects(None, self.end) if offsets is None else offsets & self._mask
        slots = slots[rows[self._ev[slots]]]
        self._ambiguous[slots] = True
        return self._mark_lost(slots)

    def oldest_sent_ns(self, default_ns: int) -> int:
        """Return when the packet longest in flight was last sent; the default if nothing is in flight."""
        sent_ns = self._sent_ns[self._suspects(None, self.end)]
        return int(np.minimum.reduce(sent_ns)) if len(sent_ns) else default_ns

    def _suspects(self, missing: NDArray[np.bool_] | None, stop: int) -> NDArray[np.int64]:
        """Return slots of missing packets in flight below offset `stop`, oldest first."""
        if missing is not None:
            stop = min(stop, self.base + len(missing))
        suspect = read_run(self._state, self.base, max(stop, self.base)) == SENT
        if missing is not None:
            suspect &= missing[: len(suspect)]
        slots: NDArray[np.int64] = (suspect.nonzero()[0] + self.base) & self._mask
        return slots

    def _learn(self, slots: NDArray[np.int64], evs: NDArray[np.uint16], may_be_resent: bool) -> None:
        order = self._order[slots]
        if may_be_resent and np.count_nonzero(self._copies[slots] > 1):
            self._suspect_end = self.end
            clear = ~self._ambiguous[slots]
            evs, order = evs[clear], order[clear]
        self._note_newest(order)
        if may_be_resent:
            np.maximum.at(self._seen_order, evs, order)
        else:
            # First transmissions went out in this order, so of those on one EV the last assignment is the greatest.
            self._seen_order[evs] = np.maximum(self._seen_order[evs], order)

    def _note_newest(self, orders: NDArray[np.int64]) -> None:
        """Record that transmissions at these positions (m,) have arrived, packets or probes."""
        if kept := len(self._newest_orders):
            self._newest_orders = np.sort(np.concatenate((self._newest_orders, orders)))[-kept:]

    def _expiry_ns(self, slots: NDArray[np.int64], intervals_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        since_ns, past = self._sent_ns[slots], self._timeouts[slots]
        since_ns = np.where(past > 0, np.maximum(since_ns, self._timeout_ns[slots]), since_ns)
        expiry_ns: NDArray[np.int64] = since_ns + intervals_ns[np.minimum(past, len(intervals_ns) - 1)]
        return expiry_ns

    def _mark_lost(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Queue these packets for retransmission with the default timeout (Table 7-1)."""
        if self._any_timeouts:
            self._timeouts[slots] = 0
        return self._give_up(slots)

    def _give_up(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        self._state[slots] = LOST
        self.sent -= len(slots)
        self.lost += len(slots)
        return slots
