"""Message completion at the responder: message ends, immediates in order, and the transport ACK.

A message is complete when the cumulative point passes its last packet. An immediate is delivered then, so everything
sent before it is in memory. Knows opcodes and offsets, not memory or SACKs. MRC chapter 8, else our choice.
"""

import numpy as np
from numpy.typing import NDArray

from agent.core.completion import CompletionQueue, ImmediateArrived, ReceiveQueue
from agent.core.config import QpConfig
from agent.core.events import QpErrorReason
from agent.core.psn import psn_of, read_run, write_run
from agent.wire.array.columns import Rows, WriteColumns
from agent.wire.array.control_columns import AckBatch
from agent.wire.constants import AETH_ACK, AETH_NAK, BTH_ACK_REQUEST, NakCode, Opcode

_MSN_MASK = 0xFFFFFF
_RQMSN_MASK = 0xFFFF
_LAST = np.array(Opcode.WRITE_LAST.value, np.uint8)
"""Least opcode that ends a message; all above it do too."""
_HAS_IMM = np.array(1, np.uint8)
"""Bit that is set in those of them that carry an immediate."""
_ASKS = np.array(BTH_ACK_REQUEST, np.uint8)


class Delivery:
    """Message ends of one responder."""

    def __init__(
        self, config: QpConfig, qpn: int, slots: int, receives: ReceiveQueue, completions: CompletionQueue
    ) -> None:
        self._acks = config.transport_ack
        self._coalesce_ns = config.ack_coalesce_ns
        self._max_wimm = config.max_wimm
        self._qpn = qpn
        self._start_psn = 0
        self._slots = np.array(slots - 1, np.int64)
        self._ends = np.zeros(slots, np.uint8)
        """Opcode of each message's last packet in its slot, 0 elsewhere."""
        self._immediates: dict[int, tuple[int, int, int]] = {}
        """Immediates not yet delivered, by offset: immediate, message length and RQMSN."""
        self._receives = receives
        self._completions = completions
        self._end = 0
        """Offset after the last packet of the last complete message."""
        self._asked = -1
        """Offset of the newest packet that ends a message and requests an acknowledgement."""
        self._told_ns: int | None = None
        self._nak: tuple[NakCode, int] | None = None
        self._nak_told = False
        self.messages = 0
        """Number of complete messages."""
        self.delivered = 0
        """Number of immediates delivered."""
        self.ack_deadline_ns: int | None = None
        """Latest time to send the transport ACK; None if nothing is to be acknowledged."""

    def expect(self, start_psn: int) -> None:
        """Set the first PSN that the peer will send."""
        self._start_psn = start_psn

    def note(self, offsets: NDArray[np.int64], cols: WriteColumns, rows: Rows) -> bool:
        """Record which of the new packets at (m,) offsets, rows `rows` of `cols`, end a message.

        Returns False if the peer has more immediates in flight than agreed.
        """
        opcodes = cols.opcode[rows]
        ending = opcodes >= _LAST
        if not np.count_nonzero(ending):
            return True
        ends, last = offsets[ending], opcodes[ending]
        self._ends[ends & self._slots] = last
        asked = ends[(cols.flags[rows][ending] & _ASKS).nonzero()[0]]
        if len(asked):
            self._asked = max(self._asked, int(asked[asked.argmax()]))
        if not np.count_nonzero(last & _HAS_IMM):
            return True
        with_imm = (ending & (opcodes & _HAS_IMM != 0)).nonzero()[0]
        ahead = cols.rqmsn[rows][with_imm].astype(np.int64) - self.delivered & _RQMSN_MASK
        columns = (cols.imm, cols.dmalen, cols.rqmsn)
        values = zip(*(column[rows][with_imm].tolist() for column in columns), strict=True)
        # One iteration per immediate, and few of those are in flight.
        self._immediates.update(zip(offsets[with_imm].tolist(), values, strict=True))
        return int(ahead.max()) < self._max_wimm

    def advance(self, start: int, stop: int, now_ns: int) -> tuple[QpErrorReason, int] | None:
        """Complete messages at offsets start .. stop - 1, which are received now.

        Return an immediate's error and its offset.
        """
        run = read_run(self._ends, start, stop)
        count = int(np.count_nonzero(run))
        if not count:
            return None
        self.messages += count
        places = run.nonzero()[0]
        self._end = start + int(places[-1]) + 1
        write_run(self._ends, start, stop, 0)
        self._want_ack(now_ns, at_once=start <= self._asked < stop)
        return self._deliver(stop) if self._immediates else None

    def again(self, now_ns: int) -> None:
        """Repeat the transport ACK after a duplicate or a probe: the peer may have missed it."""
        if self.messages:
            self._want_ack(now_ns)

    def refuse(self, code: NakCode, offset: int) -> None:
        """Send a NAK, once; only the first counts."""
        if self._nak is None:
            self._nak = code, offset

    def ack(self, ev_index: int, now_ns: int) -> AckBatch | None:
        """Build the transport ACK or NAK that is due."""
        if self._nak is not None:
            code, offset = self._nak
            told, self._nak_told = self._nak_told, True
            return None if told else self._batch(offset, AETH_NAK | code, ev_index)
        if self.ack_deadline_ns is None or now_ns < self.ack_deadline_ns:
            return None
        self._told_ns, self.ack_deadline_ns = now_ns, None
        return self._batch(self._end - 1, AETH_ACK, ev_index)

    def _deliver(self, stop: int) -> tuple[QpErrorReason, int] | None:
        # One iteration per immediate; they are in memory in order of offset.
        for offset in sorted(self._immediates):
            if offset >= stop:
                break
            imm, length, rqmsn = self._immediates.pop(offset)
            if rqmsn != self.delivered & _RQMSN_MASK:
                return QpErrorReason.LOCAL_INVALID_REQUEST, offset
            wr_id = self._receives.take()
            if wr_id is None:
                return QpErrorReason.LOCAL_NO_RECEIVE, offset
            self.delivered += 1
            self._completions.add(ImmediateArrived(self._qpn, wr_id, imm, length))
        return None

    def _want_ack(self, now_ns: int, *, at_once: bool = False) -> None:
        if not self._acks:
            return
        if at_once or self._told_ns is None:
            self.ack_deadline_ns = now_ns
        elif self.ack_deadline_ns is None:
            self.ack_deadline_ns = max(now_ns, self._told_ns + self._coalesce_ns)

    def _batch(self, offset: int, syndrome: int, ev_index: int) -> AckBatch:
        return AckBatch(
            psn=np.array([psn_of(offset, self._start_psn)], np.uint32),
            syndrome=np.array([syndrome], np.uint8),
            msn=np.array([self.messages & _MSN_MASK], np.uint32),
            ev_index=np.array([ev_index], np.uint16),
        )
