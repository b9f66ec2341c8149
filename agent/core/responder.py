"""The receive half of a queue pair: place payloads in any order, tell the requester what arrived.

Composes the receive ring and the registered memory; knows no clock and no queue pair state. MRC Table 7-5, 6.3.1.
Trimmed rows, rows out of the window and access violations are counted and dropped; NACK and NAK are not built yet.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from agent.core.config import EvProfile, QpConfig
from agent.core.memory import RegionTable
from agent.core.psn import offsets_of, psn_of
from agent.core.ring import read_run, ring_size, write_run
from agent.core.sack import EMPTY, NEWS, REPORTED, Bitmaps, bitmaps_of
from agent.wire.columns import Rows, SackBatch, WriteColumns
from agent.wire.constants import (
    BTH_ACK_REQUEST,
    BTH_BYTES,
    BTH_RETRANSMISSION,
    ICRC_BYTES,
    IPV6_BYTES,
    METH_BYTES,
    OOO_COUNT_MAX,
    RCVD_BYTES_MASK,
    RCVD_BYTES_UNIT,
    RETH_BYTES,
    TSETH_BYTES,
    UDP_BYTES,
    EcnVerdict,
)

_NOMINAL_HEADER_BYTES = IPV6_BYTES + UDP_BYTES + BTH_BYTES + METH_BYTES + TSETH_BYTES + RETH_BYTES + ICRC_BYTES
"""nominal_pktsize is the UDP length plus 40 (MRC chapter 8, after UET)."""

T = TypeVar("T", bound=np.generic)

_INT16_MIN = -(1 << 15)

_NO_BITMAPS = Bitmaps(np.zeros(1, np.int64), np.zeros(1, np.uint64))
"""One block that says nothing: all there is while nothing is held above the cumulative point."""

_TRIGGER_MIN_BYTES = 1024
"""Trigger 1 counts at least this much a packet (MRC, SACK triggers)."""


@dataclass(slots=True)
class ResponderCounters:
    """Totals since the start, in packets unless said."""

    received: int = 0
    """New and placed: each PSN once."""
    received_bytes: int = 0
    """Their payload."""
    duplicates: int = 0
    out_of_window: int = 0
    trimmed: int = 0
    access_errors: int = 0
    ce_marked: int = 0
    sacks: int = 0


class _Urgency(IntEnum):
    """What a SACK would rather answer: a mark before a resend before anything else."""

    PLAIN = 0
    RESENT = 1
    MARKED = 2


class _Trigger(NamedTuple):
    """The packets a SACK answers, one or one for each marked EV; copied out, since receive memory is reused."""

    urgency: _Urgency
    offset: list[int]
    ev: list[int]
    tx_timestamp: list[int]
    rtx: list[bool]

    def then(self, later: "_Trigger") -> "_Trigger":
        """What remains to be answered when `later` comes before the SACK has gone out."""
        if self.urgency < later.urgency or self.urgency == later.urgency != _Urgency.MARKED:
            return later
        if later.urgency < self.urgency:
            return self
        return _Trigger(
            self.urgency,
            self.offset + later.offset,
            self.ev + later.ev,
            self.tx_timestamp + later.tx_timestamp,
            self.rtx + later.rtx,
        )


class Responder:
    """Accepts each packet once, wherever it stands in the window."""

    def __init__(self, config: QpConfig, profile: EvProfile, regions: RegionTable, qpn: int) -> None:
        self._regions = regions
        self._window_psns = config.receive_window_psns
        self._ring = np.zeros(ring_size(self._window_psns), np.uint8)
        self._row_of_slot = np.zeros(len(self._ring), np.int32)
        self._mpr = config.mpr if config.dynamic_mpr else 0
        self._sack_threshold_bytes = config.sack_threshold_bytes
        self._sack_delay_ns = config.sack_delay_ns
        # One EV of each plane (our choice); taking turns, a dead plane costs only its share of the SACKs.
        self._reverse_evs = np.unique(profile.planes, return_index=True)[1].astype(np.uint16)
        self._turn = 0
        self._walk = 0
        self._qpn = qpn
        self._peer_qpn = 0
        self._start_psn = 0
        self._next = 0
        """Offset after the cumulative point."""
        self._top = 0
        """Offset after the highest received."""
        self._nominal_bytes = 0
        self._bytes_since_sack = 0
        self._trigger: _Trigger | None = None
        self._due = False
        self.sack_deadline_ns: int | None = None
        """When the news must be told at the latest; None without news."""
        self.counters = ResponderCounters()

    @property
    def held_pkts(self) -> int:
        """Packets above the cumulative point."""
        return self.counters.received - self._next

    def expect(self, peer_qpn: int, start_psn: int) -> None:
        """The peer's queue pair and the first PSN it will send."""
        self._peer_qpn = peer_qpn
        self._start_psn = start_psn

    def receive_writes(self, cols: WriteColumns, now_ns: int) -> None:
        """Place what is new of (n,) write packets, n >= 1, in any order; decide whether a SACK is due."""
        counters = self.counters
        offsets = offsets_of(cols.psn, self._start_psn, self._next)
        ahead = offsets - self._next
        acceptable = ahead < self._window_psns
        trimmed = int(np.count_nonzero(cols.trimmed))
        if trimmed:
            acceptable &= ~cols.trimmed
        fresh = self._fresh(offsets, acceptable & (ahead >= 0))
        rows = _rows_of(fresh)
        known = int(np.count_nonzero(acceptable))
        duplicates = known - int(np.count_nonzero(fresh))
        counters.duplicates += duplicates
        counters.trimmed += trimmed
        counters.out_of_window += len(offsets) - trimmed - known
        if known > duplicates:
            placed = self._place(cols, rows)
            if np.count_nonzero(placed) < len(placed):
                counters.access_errors += len(placed) - int(np.count_nonzero(placed))
                rows = fresh.nonzero()[0][placed]
                acceptable &= ~fresh
                acceptable[rows] = True
            self._enter(offsets[rows], cols.payload_bytes[rows])
        if np.count_nonzero(acceptable):
            self._consider_sack(cols, offsets, acceptable, duplicates > 0, now_ns)

    def acknowledge(self, now_ns: int) -> SackBatch | None:
        """The SACKs that are due, (r,): one snapshot, in as many rows as the news takes; None if none is due."""
        deadline_ns = self.sack_deadline_ns
        trigger = self._trigger
        if trigger is None or not (self._due or (deadline_ns is not None and now_ns >= deadline_ns)):
            return None
        batch = self._batch(trigger, self._bitmaps())
        self._trigger, self._due, self.sack_deadline_ns, self._bytes_since_sack = None, False, None, 0
        self.counters.sacks += len(batch)
        return batch

    def _fresh(self, offsets: NDArray[np.int64], candidates: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which candidate rows bring a PSN not yet held; of equal ones in the batch only the last."""
        slots = offsets & (len(self._ring) - 1)
        rows = np.arange(len(offsets), dtype=np.int32)
        fresh: NDArray[np.bool_] = candidates & (self._ring[slots] == EMPTY)
        if np.count_nonzero(fresh) < len(fresh):
            slots, rows = slots[fresh], rows[fresh]
        self._row_of_slot[slots] = rows
        fresh[rows] = self._row_of_slot[slots] == rows
        return fresh

    def _place(self, cols: WriteColumns, rows: Rows) -> NDArray[np.bool_]:
        """Copy the rows' payloads to memory; False for those that may not be placed."""
        return self._regions.place(
            cols.rkey[rows], cols.va[rows], cols.payload_bytes[rows], cols.memory, cols.payload_offset[rows]
        )

    def _enter(self, offsets: NDArray[np.int64], payload_bytes: NDArray[np.uint32]) -> None:
        """Mark (m,) new packets as held, count them and move the cumulative point."""
        if not len(offsets):
            return
        self._ring[offsets & (len(self._ring) - 1)] = NEWS
        self.counters.received += len(offsets)
        self.counters.received_bytes += int(np.add.reduce(payload_bytes))
        padded = (payload_bytes + np.uint32(3)) & ~np.uint32(3)
        self._nominal_bytes += int(np.add.reduce(padded)) + _NOMINAL_HEADER_BYTES * len(offsets)
        self._top = max(self._top, int(np.maximum.reduce(offsets)) + 1)
        held = read_run(self._ring, self._next, self._top)
        gaps = held == EMPTY
        first_gap = int(gaps.argmax())
        filled = first_gap if gaps[first_gap] else len(held)
        write_run(self._ring, self._next, self._next + filled, EMPTY)
        self._next += filled

    def _consider_sack(
        self,
        cols: WriteColumns,
        offsets: NDArray[np.int64],
        answered: NDArray[np.bool_],
        has_duplicate: bool,
        now_ns: int,
    ) -> None:
        """Triggers 1 to 4 (docs/transport.md, Receiving) and duplicates make a SACK due; otherwise the delay starts."""
        self._bytes_since_sack += int(np.add.reduce(np.maximum(cols.payload_bytes, _TRIGGER_MIN_BYTES)))
        if self._bytes_since_sack > self._sack_threshold_bytes or has_duplicate:
            self._due = True
        flags = cols.flags & answered.view(np.uint8) * np.uint8(BTH_ACK_REQUEST | BTH_RETRANSMISSION)
        if np.count_nonzero(flags):
            self._due = True
            # A resend is answered before a request: its echo tells the requester that a doubt is settled.
            resent = (flags & BTH_RETRANSMISSION).nonzero()[0]
            row = int(resent[-1] if len(resent) else flags.nonzero()[0][-1])
        else:
            row = int(answered.nonzero()[0][-1])
        self._note_trigger(cols, offsets, row, answered)
        if self.sack_deadline_ns is None:
            self.sack_deadline_ns = now_ns + self._sack_delay_ns

    def _note_trigger(
        self, cols: WriteColumns, offsets: NDArray[np.int64], row: int, answered: NDArray[np.bool_]
    ) -> None:
        """Remember what the SACK answers: row `row`, or instead all EVs that were marked on the way (trigger 3)."""
        marked = (cols.ce & answered).nonzero()[0] if np.count_nonzero(cols.ce) else ()
        if len(marked):
            self._due = True
            self.counters.ce_marked += len(marked)
            # Each marked EV is named once: the requester learns from nothing else.
            rows = marked[np.unique(cols.ev[marked], return_index=True)[1]]
            urgency = _Urgency.MARKED
        else:
            rows = np.array([row])
            urgency = _Urgency.RESENT if cols.flags[row] & BTH_RETRANSMISSION else _Urgency.PLAIN
        columns = (offsets, cols.ev, cols.tx_timestamp, (cols.flags & BTH_RETRANSMISSION) != 0)
        new = _Trigger(urgency, *(column[rows].tolist() for column in columns))
        self._trigger = new if self._trigger is None else self._trigger.then(new)

    def _bitmaps(self) -> Bitmaps:
        if self._top == self._next:
            self._walk = 0
            return _NO_BITMAPS
        held = read_run(self._ring, self._next, self._top)
        bitmaps = bitmaps_of(held, self._walk)
        self._walk += 1
        write_run(self._ring, self._next, self._top, np.minimum(held, 1) * np.uint8(REPORTED))
        return bitmaps

    def _batch(self, trigger: _Trigger, bitmaps: Bitmaps) -> SackBatch:
        """As many SACKs as there are blocks or answered packets, whichever is more; the last of the fewer repeats."""
        blocks, answers = len(bitmaps.starts), len(trigger.offset)
        count = max(blocks, answers)
        block = np.minimum(np.arange(count), blocks - 1)
        answer = np.minimum(np.arange(count), answers - 1)
        offset = np.array(trigger.offset)[answer] - (self._next - 1)
        self._turn = (self._turn + 1) % len(self._reverse_evs)
        verdict = EcnVerdict.SKIP_ONCE if trigger.urgency is _Urgency.MARKED else EcnVerdict.NONE
        return SackBatch(
            cack_psn=_column(psn_of(self._next - 1, self._start_psn), count, np.uint32),
            ack_psn_offset=np.maximum(offset, _INT16_MIN).astype(np.int16),
            pr=_column(0, count, np.bool_),
            rtx=np.array(trigger.rtx)[answer],
            m=_column(verdict, count, np.uint8),
            ev=np.array(trigger.ev, np.uint32)[answer],
            spdcid=_column(self._peer_qpn & 0xFFFF, count, np.uint16),
            dpdcid=_column(self._qpn & 0xFFFF, count, np.uint16),
            mpr=_column(self._mpr, count, np.uint8),
            sack_offset=(bitmaps.starts[block] + 1).astype(np.int16),
            bitmap=bitmaps.bits[block],
            tx_timestamp=np.array(trigger.tx_timestamp, np.uint16)[answer],
            ooo_count=_column(min(self.held_pkts, OOO_COUNT_MAX), count, np.uint16),
            restore_cwnd=_column(0, count, np.bool_),
            rcv_cwnd_pen=_column(0, count, np.uint8),
            rcvd_bytes=_column(-(-self._nominal_bytes // RCVD_BYTES_UNIT) & RCVD_BYTES_MASK, count, np.uint32),
            ev_index=_column(int(self._reverse_evs[self._turn]), count, np.uint16),
        )


def _rows_of(mask: NDArray[np.bool_]) -> Rows:
    """The rows a mask selects, as a slice where that is all of them: a slice costs no copy."""
    return slice(None) if np.count_nonzero(mask) == len(mask) else mask.nonzero()[0]


def _column(value: int, count: int, dtype: type[T]) -> NDArray[T]:
    """`value` `count` times; a third of the cost of np.full, and a SACK has nine such columns."""
    column = np.empty(count, dtype)
    column.fill(value)
    return column
