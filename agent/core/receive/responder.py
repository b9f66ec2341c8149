"""Receive half of a queue pair: place payloads in any order and acknowledge what arrived.

Combines the receive ring, registered memory, SACKs, NACKs and message delivery; knows no clock and no queue pair state.
A trimmed packet is always refused, one out of window only if so configured. Other reasons need a simulated shortage,
because this responder never runs out of bitmap, buffers or resources. MRC Tables 7-3, 7-5, 7-16, 6.3.1.
"""

import numpy as np
from numpy.typing import NDArray

from agent.core.completion import CompletionQueue, ReceiveQueue
from agent.core.config import QpConfig
from agent.core.counters import ResponderCounters
from agent.core.ev.profile_sources import EvProfile
from agent.core.ev.reverse_evs import ReverseEvs
from agent.core.events import QpErrorReason
from agent.core.memory_regions import RegionTable
from agent.core.psn import offsets_of, psn_of
from agent.core.receive.arrivals import ReceiveRing, Reordering
from agent.core.receive.messages import Delivery, Sequence
from agent.core.receive.sack_writer import SackWriter
from agent.wire.array.columns import Rows, SackBatch, WriteColumns, total
from agent.wire.array.control_columns import AckBatch, NackBatch, ProbeColumns
from agent.wire.constants import NackReason, NakCode

_NAK_CODES = {
    QpErrorReason.LOCAL_ACCESS_ERROR: NakCode.REMOTE_ACCESS_ERROR,
    QpErrorReason.LOCAL_INVALID_REQUEST: NakCode.INVALID_REQUEST,
    QpErrorReason.LOCAL_WIMM_OVERFLOW: NakCode.INVALID_REQUEST,
    QpErrorReason.LOCAL_NO_RECEIVE: NakCode.REMOTE_OPERATIONAL_ERROR,
}
"""NAK code sent to the peer for each failure."""

_CUMULATIVE = np.array(0, np.int64)
"""Packets below this offset are known already."""


class Responder:
    """Accepts each packet once, at any position in the window."""

    def __init__(
        self,
        config: QpConfig,
        profile: EvProfile,
        regions: RegionTable,
        qpn: int,
        receives: ReceiveQueue | None = None,
        completions: CompletionQueue | None = None,
    ) -> None:
        self._regions = regions
        self._window_psns = config.receive_window_psns
        self._nack_out_of_window = config.nack_out_of_window
        self._ring = ReceiveRing(self._window_psns)
        self.reordering = Reordering(self._window_psns)
        self._sequence = Sequence(self._ring.size, config.pmtu)
        self._sacks = SackWriter(config, qpn)
        self._delivery = Delivery(
            config,
            qpn,
            self._ring.size,
            ReceiveQueue() if receives is None else receives,
            CompletionQueue() if completions is None else completions,
        )
        self._refusals = Refusals(qpn)
        self._start_psn = 0
        self.reverse = ReverseEvs(profile)
        self.port_mask: int | None = None
        """Our ports that work, sent in every SACK; None: not sent."""
        self.failure: QpErrorReason | None = None
        """Reason why the queue pair must end."""
        self.counters = ResponderCounters()

    @property
    def held_pkts(self) -> int:
        """Count the packets above the cumulative point."""
        return self._ring.held

    @property
    def cack_psn(self) -> int:
        """Return the 24-bit PSN up to which all has arrived; before any arrival, the PSN before the first."""
        return psn_of(self._ring.next - 1, self._start_psn)

    @property
    def sack_deadline_ns(self) -> int | None:
        """Latest time to send a SACK; None if there is nothing new."""
        return self._sacks.deadline_ns

    @property
    def deadline_ns(self) -> int | None:
        """Latest time at which `acknowledge` or `acks` must be called."""
        sack_ns, ack_ns = self._sacks.deadline_ns, self._delivery.ack_deadline_ns
        if ack_ns is None:
            return sack_ns
        return ack_ns if sack_ns is None else min(sack_ns, ack_ns)

    def expect(self, peer_qpn: int, start_psn: int, follows_mpr: bool = True) -> None:
        """Set the peer's queue pair, the first PSN it will send, and whether it follows the windows we advertise."""
        self._start_psn = start_psn
        self._sacks.expect(peer_qpn, start_psn, follows_mpr)
        self._delivery.expect(start_psn)
        self._refusals.expect(peer_qpn)

    def feign(self, reason: NackReason, packets: int) -> None:
        """Refuse the next `packets` packets for `reason`, as a responder that lacks a resource would."""
        self._refusals.feign(reason, packets)

    def brake(self, penalty: int) -> None:
        """Ask the peer to send less, by `rcv_cwnd_pen` 0..127 (MRC chapter 8), as a slow responder would."""
        self._sacks.brake(penalty)

    def receive_writes(self, cols: WriteColumns, now_ns: int) -> None:
        """Place the new ones of (n,) write packets, n >= 1, in any order; decide whether a SACK is due."""
        counters, ring = self.counters, self._ring
        offsets = offsets_of(cols.psn, self._start_psn, ring.next)
        ahead = offsets - ring.next
        acceptable = ahead < self._window_psns
        trimmed = int(np.count_nonzero(cols.trimmed))
        if trimmed:
            acceptable &= ~cols.trimmed
            self._refusals.note_trimmed(cols)
        fresh = ring.fresh(offsets, acceptable & (ahead >= _CUMULATIVE))
        refused = self._refusals.feigned_rows(fresh)
        if refused is not None:
            fresh &= ~refused
            acceptable &= ~refused
            self._refusals.note_feigned(cols, refused)
        known = int(np.count_nonzero(acceptable))
        new = int(np.count_nonzero(fresh))
        counters.duplicates += known - new
        counters.trimmed += trimmed
        if known + trimmed < len(offsets):
            self._beyond(cols, ahead)
        if new:
            self._take(cols, offsets, fresh, acceptable, now_ns)
        if known > new:
            self._delivery.again(now_ns)
            # A packet older than a window is no retransmission, as its sender has its acknowledgement. No SACK names
            # it.
            acceptable &= ahead >= -self._window_psns
        if np.count_nonzero(acceptable):
            self._sacks.note(cols, offsets, acceptable, known > new, now_ns)

    def receive_probes(self, cols: ProbeColumns, now_ns: int) -> None:
        """Answer reliability probes, and repeat the transport ACK: the requester may wait for it."""
        self.counters.probes += len(cols)
        self._sacks.note_probes(cols)
        self._delivery.again(now_ns)

    def nacks(self) -> NackBatch | None:
        """Build NACKs of what was refused since the last call; send them before the SACKs."""
        batch = self._refusals.nacks(self.reverse.row)
        if batch is not None:
            self.counters.nacks += len(batch)
        return batch

    def acks(self, now_ns: int) -> AckBatch | None:
        """Build the transport ACK, or the NAK after which nothing more is accepted."""
        batch = self._delivery.ack(self.reverse.row, now_ns)
        if batch is not None:
            self.counters.acks += len(batch)
        return batch

    def acknowledge(self, now_ns: int) -> SackBatch | None:
        """Build the SACKs that are due, (r,): one snapshot, in as many rows as needed; call again until None."""
        batch = self._sacks.write(self._ring, self.reverse.row, self.port_mask, now_ns)
        if batch is not None:
            self.reverse.turn()
            self.counters.sacks += len(batch)
            self.counters.ce_marked = self._sacks.ce_marked
        return batch

    def _beyond(self, cols: WriteColumns, ahead: NDArray[np.int64]) -> None:
        """Drop packets beyond the window (6.3.1 rule 6); NACK them only if so configured (Table 7-3)."""
        beyond = (ahead >= self._window_psns) & ~cols.trimmed
        self.counters.out_of_window += int(np.count_nonzero(beyond))
        if self._nack_out_of_window:
            self._refusals.note_out_of_window(cols, beyond)

    def _place(self, cols: WriteColumns, rows: Rows) -> NDArray[np.bool_]:
        """Copy the rows' payloads to memory; False for those that may not be placed."""
        return self._regions.place(
            cols.rkey[rows], cols.va[rows], cols.payload_bytes[rows], cols.memory, cols.payload_offset[rows]
        )

    def _take(
        self,
        cols: WriteColumns,
        offsets: NDArray[np.int64],
        fresh: NDArray[np.bool_],
        acceptable: NDArray[np.bool_],
        now_ns: int,
    ) -> None:
        """Check, place and record the fresh rows, n >= 1; wrong ones are removed from both masks (n,)."""
        rows: Rows = slice(None) if np.count_nonzero(fresh) == len(fresh) else fresh.nonzero()[0]
        malformed = self._sequence.malformed(cols, rows)
        if malformed is not None:
            self._refuse(malformed, fresh, acceptable, offsets, QpErrorReason.LOCAL_INVALID_REQUEST)
            rows = fresh.nonzero()[0]
            if not len(rows):
                return
        placed = self._place(cols, rows)
        if np.count_nonzero(placed) < len(placed):
            self._refuse(~placed, fresh, acceptable, offsets, QpErrorReason.LOCAL_ACCESS_ERROR)
            rows = fresh.nonzero()[0]
        self._accept(cols, rows, offsets[rows], now_ns)

    def _refuse(
        self,
        wrong: NDArray[np.bool_],
        fresh: NDArray[np.bool_],
        acceptable: NDArray[np.bool_],
        offsets: NDArray[np.int64],
        reason: QpErrorReason,
    ) -> None:
        """Count and NAK those of the m fresh rows that are `wrong` (m,), and remove them from both masks (n,)."""
        rows = fresh.nonzero()[0][wrong]
        fresh[rows] = acceptable[rows] = False
        self._fail(reason, int(offsets[rows[0]]), len(rows))

    def _accept(self, cols: WriteColumns, rows: Rows, offsets: NDArray[np.int64], now_ns: int) -> None:
        """Record placed packets, and complete the messages that the cumulative point passes."""
        if not len(offsets):
            return
        ring, delivery, counters = self._ring, self._delivery, self.counters
        payload_bytes = total(cols.payload_bytes[rows])
        start = ring.next
        ring.enter(offsets, payload_bytes)
        self.reordering.note(offsets, cols.flags[rows])
        counters.received = ring.received
        counters.received_bytes += payload_bytes
        self._sequence.note(offsets, cols, rows)
        agreed = delivery.note(offsets, cols, rows)
        if not agreed:
            self._fail(QpErrorReason.LOCAL_WIMM_OVERFLOW, int(offsets[-1]))
        elif ring.next > start:
            self._advance(start, ring.next, now_ns)
        if delivery.ack_deadline_ns is not None and now_ns >= delivery.ack_deadline_ns:
            self._sacks.go_along()
        counters.messages, counters.immediates = delivery.messages, delivery.delivered

    def _advance(self, start: int, stop: int, now_ns: int) -> None:
        """Complete correct messages at offsets start .. stop - 1, which the cumulative point has just passed."""
        broken = self._sequence.first_wrong(start, stop)
        failed = self._delivery.advance(start, stop if broken is None else broken, now_ns)
        if failed is None and broken is not None:
            failed = QpErrorReason.LOCAL_INVALID_REQUEST, broken
        if failed is not None:
            self._fail(*failed)

    def _fail(self, reason: QpErrorReason, offset: int, packets: int = 1) -> None:
        """Fail the queue pair because of the packet at `offset`; `packets` is how many were invalid together."""
        self.counters.access_errors += packets * (reason is QpErrorReason.LOCAL_ACCESS_ERROR)
        self.counters.invalid += packets * (reason is QpErrorReason.LOCAL_INVALID_REQUEST)
        if self.failure is None:
            self.failure = reason
            self._delivery.refuse(_NAK_CODES[reason], offset)


_OOR_PER_BATCH = 1
"""Out-of-window NACKs sent per batch (rate-limited: our choice)."""


class Refusals:
    """NACKs that wait to be sent; their fields are copied, since receive memory is reused."""

    def __init__(self, qpn: int) -> None:
        self._qpn = qpn
        self._peer_qpn = 0
        self._parts: list[tuple[NDArray[np.uint32], NDArray[np.uint8], NDArray[np.uint32], NDArray[np.uint16]]] = []
        self._feigned: tuple[NackReason, int] | None = None
        self.sent = 0

    def expect(self, peer_qpn: int) -> None:
        """Set the peer's queue pair number."""
        self._peer_qpn = peer_qpn

    def feign(self, reason: NackReason, packets: int) -> None:
        """Refuse the next `packets` acceptable packets for `reason`, to simulate a shortage."""
        self._feigned = reason, packets

    def feigned_rows(self, acceptable: NDArray[np.bool_]) -> NDArray[np.bool_] | None:
        """Choose the acceptable rows (n,) that are refused now; None if none is."""
        if self._feigned is None:
            return None
        _, left = self._feigned
        within: NDArray[np.bool_] = np.cumsum(acceptable) <= left
        return acceptable & within

    def note_feigned(self, cols: WriteColumns, refused: NDArray[np.bool_]) -> None:
        """Record NACKs of the rows (n,) chosen by `feigned_rows`."""
        if self._feigned is not None:
            reason, left = self._feigned
            left -= int(np.count_nonzero(refused))
            self._feigned = (reason, left) if left > 0 else None
            self.note(cols, refused, reason)

    def note_trimmed(self, cols: WriteColumns) -> None:
        """Record NACKs of trimmed rows, by where they were trimmed."""
        self.note(cols, cols.trimmed & ~cols.trimmed_lasthop, NackReason.TRIMMED)
        self.note(cols, cols.trimmed & cols.trimmed_lasthop, NackReason.TRIMMED_LASTHOP)

    def note_out_of_window(self, cols: WriteColumns, rows: NDArray[np.bool_]) -> None:
        """Record NACKs of some of the rows (n,) beyond the window."""
        self.note(cols, rows.nonzero()[0][:_OOR_PER_BATCH], NackReason.PSN_OOR_WINDOW)

    def note(self, cols: WriteColumns, rows: Rows, reason: NackReason) -> None:
        """Record NACKs of rows of `cols` for `reason`."""
        psn = cols.psn[rows].copy()
        if len(psn):
            reasons = np.full(len(psn), reason, np.uint8)
            self._parts.append((psn, reasons, cols.ev[rows].copy(), cols.tx_timestamp[rows].copy()))

    def nacks(self, ev_index: int) -> NackBatch | None:
        """Build all NACKs that wait."""
        if not self._parts:
            return None
        psn, reason, ev, timestamp = (np.concatenate(part) for part in zip(*self._parts, strict=True))
        self._parts = []
        count = len(psn)
        self.sent += count
        return NackBatch(
            nack_psn=psn,
            nack_reason=reason,
            vendor_info=np.zeros(count, np.uint8),
            ev=ev,
            spdcid=np.full(count, self._peer_qpn & 0xFFFF, np.uint16),
            dpdcid=np.full(count, self._qpn & 0xFFFF, np.uint16),
            tx_timestamp=timestamp,
            ev_index=np.full(count, ev_index, np.uint16),
        )
