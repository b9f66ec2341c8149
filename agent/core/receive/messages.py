"""Messages at the responder: what is a segment of a message, which messages are complete, and the transport ACK.

`Sequence` checks each packet alone and against its neighbours. A packet's data are kept until the cumulative point
passes it, because its neighbours are known only then. `Delivery` completes a message when the cumulative point passes
its last packet. An immediate is delivered then, so everything sent before it is in memory. Knows no memory and no
SACKs. Sources: MRC 1 (message size), 2.4, 6.2.2 (METH, RETH), 8 (segmentation, completion), else our choice.
"""

import numpy as np
from numpy.typing import NDArray

from agent.core.completion import CompletionQueue, ImmediateArrived, ReceiveQueue
from agent.core.config import QpConfig
from agent.core.events import QpErrorReason
from agent.core.psn import psn_of, read_run, write_run
from agent.wire.array.columns import FEW_ROWS, Rows, WriteColumns
from agent.wire.array.control_columns import AckBatch
from agent.wire.constants import AETH_ACK, AETH_NAK, BTH_ACK_REQUEST, MSN_MASK, RQMSN_MASK, NakCode, Opcode

_STARTS, _ENDS = np.zeros((2, 256), np.uint16)
_STARTS[[Opcode.WRITE_FIRST, Opcode.WRITE_ONLY, Opcode.WRITE_ONLY_IMM]] = 1
_ENDS[[Opcode.WRITE_LAST, Opcode.WRITE_LAST_IMM, Opcode.WRITE_ONLY, Opcode.WRITE_ONLY_IMM]] = 1
"""Flags by opcode: the packet starts a message, the packet ends a message."""
_FIRST_END = np.array(Opcode.WRITE_LAST.value, np.uint8)
"""Least opcode that ends a message; all above it do too."""

_PACKET = np.dtype(
    [
        ("msn", "<u2"),
        ("starts", "<u2"),
        ("next_msn", "<u2"),
        ("ends", "<u2"),
        ("dmalen", "<u4"),
        ("rkey", "<u4"),
        ("base", "<u8"),
    ]
)
"""A packet. `next_msn` is the MSN of the packet after it; `base`, address - offset * PMTU, is constant in a message."""
_HEAD, _TAIL, _DMALEN = range(3)
"""The packet in 32-bit words: the head of a packet is the tail of the one before it."""
_ORDER, _REGION, _BASE = range(3)
"""The packet in 64-bit words: head below tail; DMALen below R_Key; base."""
_WORDS = 3
_WHOLE = np.dtype((np.void, 8 * _WORDS))
_FLAG = 1 << 16
"""Flag of a head: starts a message; of a tail: ends one."""
_MASK = (1 << 32) - 1
_BEFORE_ALL = [_FLAG << 32, 0, 0]
"""Packet before the first: the first message has MSN 0."""


class Sequence:
    """Packets of one responder that the cumulative point has not passed."""

    def __init__(self, slots: int, pmtu: int) -> None:
        self._pmtu = pmtu
        self._full = np.array(pmtu, np.uint32)
        self._step = np.array(pmtu, np.int64)
        self._slots = np.array(slots - 1, np.int64)
        self._ring = np.zeros((slots, _WORDS), "<u8")
        self._wholes = self._ring.view(_WHOLE)[:, 0]
        self._last = _BEFORE_ALL
        """The packet before the cumulative point."""
        self._end = 0
        """Offset after the last packet of its message, by the length that the message states."""

    def malformed(self, cols: WriteColumns, rows: Rows) -> NDArray[np.bool_] | None:
        """Report which of the (m,) rows have a wrong number of bytes for their place in a message; None: no row."""
        payload_bytes, opcodes = cols.payload_bytes[rows], cols.opcode[rows]
        unusual = ((payload_bytes != self._full) | (opcodes >= _FIRST_END)).nonzero()[0]
        if not len(unusual):
            return None
        rest = (cols.dmalen[rows][unusual] - np.uint32(1)) % self._full + np.uint32(1)
        wrong = payload_bytes[unusual] != np.where(opcodes[unusual] >= _FIRST_END, rest, self._full)
        if not np.count_nonzero(wrong):
            return None
        found = np.zeros(len(opcodes), np.bool_)
        found[unusual[wrong]] = True
        return found

    def note(self, offsets: NDArray[np.int64], cols: WriteColumns, rows: Rows) -> None:
        """Record the new packets at (m,) offsets, rows `rows` of `cols`."""
        packets, opcodes, msn = np.empty(len(offsets), _PACKET), cols.opcode[rows], cols.msn[rows]
        ends = _ENDS[opcodes]
        packets["msn"], packets["starts"], packets["ends"] = msn, _STARTS[opcodes], ends
        np.add(msn, ends, out=packets["next_msn"])
        packets["dmalen"], packets["rkey"] = cols.dmalen[rows], cols.rkey[rows]
        np.subtract(cols.va[rows], (offsets * self._step).view(np.uint64), out=packets["base"])
        self._wholes[offsets & self._slots] = packets.view(_WHOLE)

    def first_wrong(self, start: int, stop: int) -> int | None:
        """Find the first packet at offsets start .. stop - 1 that does not follow the one before it; None: all do.

        These are the packets that the cumulative point passes now.
        """
        run = read_run(self._ring, start, stop)
        if len(run) > FEW_ROWS and self._all_follow(run, start, stop):
            return None
        for offset, packet in enumerate(run.tolist(), start):
            if not self._follows(packet, offset):
                return offset
        return None

    def _all_follow(self, run: NDArray[np.uint64], start: int, stop: int) -> bool:
        """Report whether all of (n, 3) packets are right.

        If so, the last of them becomes the packet before the cumulative point.

        Heads and tails must fit together, all packets of a message have the same region and base, and each message ends
        where its length says.
        """
        words, last = run.view("<u4"), self._last
        heads, tails = words[:, _HEAD], words[:, _TAIL]
        starts = heads >= _FLAG
        changed = (run[1:, _REGION] != run[:-1, _REGION]) | (run[1:, _BASE] != run[:-1, _BASE])
        if np.count_nonzero(heads[1:] != tails[:-1]) or np.count_nonzero(changed > starts[1:]):
            return False
        if int(heads[0]) != last[_ORDER] >> 32 or not (starts[0] or run[0, _REGION:].tolist() == last[_REGION:]):
            return False
        firsts, done = starts.nonzero()[0], (tails >= _FLAG).nonzero()[0] + (start + 1)
        ends = start + firsts + -(-words[firsts, _DMALEN].astype(np.int64) // self._step)
        if not starts[0]:
            ends = np.concatenate(([self._end], ends))
        if np.count_nonzero(ends[: len(done)] != done) or (len(ends) > len(done) and ends[-1] <= stop):
            return False
        self._last, self._end = run[-1].tolist(), int(ends[-1])
        return True

    def _follows(self, packet: list[int], offset: int) -> bool:
        """Report whether a packet follows the one before the cumulative point, and put it in that one's place."""
        last, self._last = self._last, packet
        head, tail = packet[_ORDER] & _MASK, packet[_ORDER] >> 32
        if head != last[_ORDER] >> 32:
            return False
        if head >= _FLAG:
            self._end = offset - (-(packet[_REGION] & _MASK) // self._pmtu)
        elif packet[_REGION:] != last[_REGION:]:
            return False
        return (offset + 1 >= self._end) == (tail >= _FLAG)


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
        ahead = cols.rqmsn[rows][with_imm].astype(np.int64) - self.delivered & RQMSN_MASK
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
            if rqmsn != self.delivered & RQMSN_MASK:
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
            msn=np.array([self.messages & MSN_MASK], np.uint32),
            ev_index=np.array([ev_index], np.uint16),
        )
