"""SACK generation: the five triggers, and columns built from one snapshot of the receive ring.

Decides nothing about acceptance and nothing about the reverse path. MRC chapter 10, Tables 7-12, 7-14.
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent.core.config import QpConfig
from agent.core.psn import psn_of
from agent.core.receive.arrivals import Bitmaps, ReceiveRing
from agent.wire.array.columns import Rows, SackBatch, WriteColumns, filled, total
from agent.wire.array.control_columns import ProbeColumns
from agent.wire.constants import BTH_ACK_REQUEST, BTH_RETRANSMISSION, EcnVerdict

_NEXT = np.array(1, np.int64)
_INT16_MIN = -(1 << 15)

_TRIGGER_MIN_BYTES = np.array(1024, np.uint32)
"""Least bytes that trigger 1 counts per packet (MRC, SACK triggers)."""

_ASKING = np.array(BTH_ACK_REQUEST | BTH_RETRANSMISSION, np.uint8)
_RESENT = np.array(BTH_RETRANSMISSION, np.uint8)


class _Urgency(IntEnum):
    """Order in which a SACK chooses the packet it answers: a mark, then a retransmission, then anything else."""

    PLAIN = 0
    RESENT = 1
    MARKED = 2


class _Trigger(NamedTuple):
    """The packets a SACK answers: one, or one per marked EV; copied, since receive memory is reused."""

    urgency: _Urgency
    offset: list[int]
    ev: list[int]
    tx_timestamp: list[int]
    rtx: list[bool]

    def then(self, later: "_Trigger") -> "_Trigger":
        """Merge with `later`, which came before the SACK was sent; return what remains to be answered."""
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

    def within(self, cack: int) -> "_Trigger":
        """Keep the packets that a SACK with the cumulative point at offset `cack` can name: 16 bits, signed."""
        if min(self.offset) - cack >= _INT16_MIN:
            return self
        near = [row for row, offset in enumerate(self.offset) if offset - cack >= _INT16_MIN]
        offset, ev, tx_timestamp = ([part[row] for row in near] for part in (self.offset, self.ev, self.tx_timestamp))
        return _Trigger(self.urgency, offset, ev, tx_timestamp, [self.rtx[row] for row in near])


class _Answered(NamedTuple):
    """Packets that the rows of a SACK batch answer, (a,) each."""

    ack_psn_offset: NDArray[np.int16]
    ev: NDArray[np.uint32]
    tx_timestamp: NDArray[np.uint16]
    rtx: NDArray[np.bool_]
    m: NDArray[np.uint8]
    pr: bool

    def repeated(self, rows: NDArray[np.int64]) -> "_Answered":
        """Return the given rows, in the given order."""
        return _Answered(
            self.ack_psn_offset[rows], self.ev[rows], self.tx_timestamp[rows], self.rtx[rows], self.m[rows], self.pr
        )


class SackWriter:
    """Writes the SACKs of one responder."""

    def __init__(self, config: QpConfig, qpn: int) -> None:
        self._mpr = config.offered_mpr if config.dynamic_mpr else 0
        self._threshold_bytes = config.sack_threshold_bytes
        self._delay_ns = config.sack_delay_ns
        self._qpn = qpn
        self._peer_qpn = 0
        self._start_psn = 0
        self._bytes_since = 0
        self._trigger: _Trigger | None = None
        self._probes: list[ProbeColumns] = []
        self._due = False
        self._penalty = 0
        self._has_braked = False
        self.deadline_ns: int | None = None
        """Latest time to send a SACK; None if there is nothing new."""
        self.ce_marked = 0
        self.written = 0

    def expect(self, peer_qpn: int, start_psn: int, follows_mpr: bool) -> None:
        """Set the peer's queue pair, the first PSN it will send, and whether it follows the windows we advertise."""
        self._mpr = self._mpr if follows_mpr else 0
        self._peer_qpn = peer_qpn
        self._start_psn = start_psn

    def note(
        self,
        cols: WriteColumns,
        offsets: NDArray[np.int64],
        answered: NDArray[np.bool_],
        has_duplicate: bool,
        now_ns: int,
    ) -> None:
        """Make a SACK due on triggers 1 to 4 (docs/transport.md, Receiving) and duplicates; otherwise start the delay.

        `offsets` (n,) belong to the rows of `cols`, `answered` (n,) marks those that are held by now.
        """
        self._bytes_since += total(np.maximum(cols.payload_bytes, _TRIGGER_MIN_BYTES))
        if self._bytes_since > self._threshold_bytes or has_duplicate:
            self._due = True
        row = len(answered) - 1 if answered[-1] else int(answered.nonzero()[0][-1])
        asking = (cols.flags & _ASKING).nonzero()[0]
        if len(asking):
            asking = asking[answered[asking]]
        if len(asking):
            self._due = True
            # A retransmission is answered before a request: its echo shows the requester that a suspicion is settled.
            resent = asking[(cols.flags[asking] & _RESENT).nonzero()[0]]
            row = int(resent[-1] if len(resent) else asking[-1])
        self._note_trigger(cols, offsets, row, answered)
        if self.deadline_ns is None:
            self.deadline_ns = now_ns + self._delay_ns

    def go_along(self) -> None:
        """Send a SACK along with a transport ACK: a message completes when a SACK has confirmed it too."""
        self._due = True

    def brake(self, penalty: int) -> None:
        """Send `penalty`, 0..127, in every SACK from now on.

        0 after another value also lets the peer restore its window.
        """
        self._penalty = penalty
        self._has_braked |= penalty > 0

    def note_probes(self, cols: ProbeColumns) -> None:
        """Record probes for trigger 5: the next `write` answers every one."""
        self._probes.append(cols)

    def write(self, ring: ReceiveRing, ev_index: int, port_mask: int | None, now_ns: int) -> SackBatch | None:
        """Build the SACKs that are due, (r,): one snapshot, in as many rows as needed; call again until None."""
        if self._probes:
            answered = _answers_of(self._probes)
            self._probes = []
            return self._batch(answered, ring, ev_index, port_mask)
        trigger, deadline_ns = self._trigger, self.deadline_ns
        if trigger is None or not (self._due or (deadline_ns is not None and now_ns >= deadline_ns)):
            return None
        self._trigger, self._due, self.deadline_ns, self._bytes_since = None, False, None, 0
        trigger = trigger.within(ring.next - 1)
        if not trigger.offset:
            return None
        verdict = EcnVerdict.SKIP_ONCE if trigger.urgency is _Urgency.MARKED else EcnVerdict.NONE
        answered = _Answered(
            np.array([offset - (ring.next - 1) for offset in trigger.offset], np.int16),
            np.array(trigger.ev, np.uint32),
            np.array(trigger.tx_timestamp, np.uint16),
            np.array(trigger.rtx, np.bool_),
            filled(verdict.value, len(trigger.offset), np.uint8),
            False,
        )
        return self._batch(answered, ring, ev_index, port_mask)

    def _note_trigger(
        self, cols: WriteColumns, offsets: NDArray[np.int64], row: int, answered: NDArray[np.bool_]
    ) -> None:
        """Record what the SACK answers: row `row`, or instead all EVs marked on the way (trigger 3)."""
        marked = (cols.ce & answered).nonzero()[0] if np.count_nonzero(cols.ce) else ()
        if len(marked):
            self._due = True
            self.ce_marked += len(marked)
            # Each marked EV is named once: the requester learns of marks from nothing else.
            rows: Rows = marked[np.unique(cols.ev[marked], return_index=True)[1]]
            urgency = _Urgency.MARKED
        else:
            rows = slice(row, row + 1)
            urgency = _Urgency.RESENT if int(cols.flags[row]) & BTH_RETRANSMISSION else _Urgency.PLAIN
        new = _Trigger(
            urgency,
            offsets[rows].tolist(),
            cols.ev[rows].tolist(),
            cols.tx_timestamp[rows].tolist(),
            [bool(flags & BTH_RETRANSMISSION) for flags in cols.flags[rows].tolist()],
        )
        self._trigger = new if self._trigger is None else self._trigger.then(new)

    def _batch(self, answered: _Answered, ring: ReceiveRing, ev_index: int, port_mask: int | None) -> SackBatch:
        """Build as many SACKs as there are blocks or answered packets, whichever is more.

        The shorter list repeats its last.
        """
        bitmaps = ring.bitmaps()
        blocks, answers = len(bitmaps.starts), len(answered.ev)
        count = max(blocks, answers)
        if blocks < count:
            block = np.minimum(np.arange(count), blocks - 1)
            bitmaps = Bitmaps(bitmaps.starts[block], bitmaps.bits[block])
        if answers < count:
            answered = answered.repeated(np.minimum(np.arange(count), answers - 1))
        self.written += count
        return SackBatch(
            cack_psn=filled(psn_of(ring.next - 1, self._start_psn), count, np.uint32),
            ack_psn_offset=answered.ack_psn_offset,
            pr=filled(answered.pr, count, np.bool_),
            rtx=answered.rtx,
            m=answered.m,
            ev=answered.ev,
            spdcid=filled(self._peer_qpn & 0xFFFF, count, np.uint16),
            dpdcid=filled(self._qpn & 0xFFFF, count, np.uint16),
            mpr=filled(self._mpr, count, np.uint8),
            sack_offset=(bitmaps.starts + _NEXT).astype(np.int16),
            bitmap=bitmaps.bits,
            tx_timestamp=answered.tx_timestamp,
            ooo_count=filled(ring.ooo_count, count, np.uint16),
            restore_cwnd=filled(self._has_braked and not self._penalty, count, np.bool_),
            rcv_cwnd_pen=filled(self._penalty, count, np.uint8),
            rcvd_bytes=filled(ring.rcvd_bytes, count, np.uint32),
            ev_index=filled(ev_index, count, np.uint16),
            port_mask=None if port_mask is None else filled(port_mask, count, np.uint32),
        )


def _answers_of(probes: list[ProbeColumns]) -> _Answered:
    """Convert probes of a drain, oldest first, to answers; each reports whether its probe met congestion."""
    ce = np.concatenate([cols.ce for cols in probes])
    return _Answered(
        np.concatenate([cols.probe_id for cols in probes]).view(np.int16),
        np.concatenate([cols.ev for cols in probes]),
        np.concatenate([cols.tx_timestamp for cols in probes]),
        np.zeros(len(ce), np.bool_),
        np.where(ce, np.uint8(EcnVerdict.SKIP_ONCE), np.uint8(EcnVerdict.NONE)),
        True,
    )
