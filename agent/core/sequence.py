"""Whether packets are cut from messages as MRC says, each by itself and one behind another.

What is known of a packet is kept until the cumulative point passes it, for only then its neighbours are known. Knows no
memory and no SACKs. Sources: MRC 1 (message size), 2.4, 6.2.2 (METH, RETH), 8 (segmentation).
"""

import numpy as np
from numpy.typing import NDArray

from agent.core.ring import read_run
from agent.wire.columns import FEW_ROWS, Rows, WriteColumns
from agent.wire.constants import Opcode

_STARTS, _ENDS = 1, 2
_ROLES = np.zeros(256, np.uint8)
_ROLES[[Opcode.WRITE_FIRST, Opcode.WRITE_ONLY, Opcode.WRITE_ONLY_IMM]] |= _STARTS
_ROLES[[Opcode.WRITE_LAST, Opcode.WRITE_LAST_IMM, Opcode.WRITE_ONLY, Opcode.WRITE_ONLY_IMM]] |= _ENDS
"""By opcode, whether a packet starts and whether it ends a message."""
_FIRST_END = np.array(Opcode.WRITE_LAST.value, np.uint8)
"""From here on opcodes end a message."""

_REGION, _BASE, _MESSAGE = range(3)
_WORDS = 3
"""A packet as uint64: DMALen below R_Key; address - offset * PMTU, which stays in a message; MSN below its role."""
_ROLE_SHIFT = 16
_PACKET = np.dtype(
    [("dmalen", "<u4"), ("rkey", "<u4"), ("base", "<u8"), ("msn", "<u2"), ("role", "<u2"), ("res", "<u4")]
)
"""The same words field by field."""
_WHOLE = np.dtype((np.void, 8 * _WORDS))
_MSN_MASK, _DMALEN_MASK = (1 << 16) - 1, (1 << 32) - 1
_BEFORE_ALL = [0, 0, _MSN_MASK | _ENDS << _ROLE_SHIFT]
"""The first message has MSN 0."""


class Sequence:
    """The packets of one responder that the cumulative point has not passed."""

    def __init__(self, slots: int, pmtu: int) -> None:
        self._pmtu = pmtu
        self._full = np.array(pmtu, np.uint32)
        self._step = np.array(pmtu, np.int64)
        self._slots = np.array(slots - 1, np.int64)
        self._ring = np.zeros((slots, _WORDS), "<u8")
        self._wholes = self._ring.view(_WHOLE)[:, 0]
        self._last = _BEFORE_ALL
        """The packet before the cumulative point."""
        self._first = 0
        """Offset at which its message starts."""

    def malformed(self, cols: WriteColumns, rows: Rows) -> NDArray[np.bool_] | None:
        """Which of the (m,) rows do not hold as many bytes as their place in a message asks for; None: all do."""
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
        """Remember the new packets at (m,) offsets, rows `rows` of `cols`."""
        packets = np.zeros(len(offsets), _PACKET)
        for name in ("dmalen", "rkey", "msn"):
            packets[name] = getattr(cols, name)[rows]
        np.subtract(cols.va[rows], (offsets * self._step).view(np.uint64), out=packets["base"])
        packets["role"] = _ROLES[cols.opcode[rows]]
        self._wholes[offsets & self._slots] = packets.view(_WHOLE)

    def first_wrong(self, start: int, stop: int) -> int | None:
        """The first of the packets at offsets start .. stop - 1 that does not follow the one before it; None: all do.

        They are the ones the cumulative point passes now.
        """
        run = read_run(self._ring, start, stop)
        if len(run) <= FEW_ROWS:
            return self._first_wrong_of_few(run.tolist(), start)
        last, self._last = self._last, run[-1].tolist()
        if not last[_MESSAGE] >> _ROLE_SHIFT and not np.count_nonzero(run != np.array(last, np.uint64)):
            # In the middle of a message all packets are alike.
            end = self._first + self._packets(last) - 1
            return None if stop <= end else max(start, end)
        return self._first_wrong_of_many(np.concatenate(([np.array(last, np.uint64)], run)), start)

    def _first_wrong_of_few(self, packets: list[list[int]], start: int) -> int | None:
        for offset, packet in enumerate(packets, start):
            last, self._last = self._last, packet
            role, was_end = packet[_MESSAGE] >> _ROLE_SHIFT, last[_MESSAGE] >> _ROLE_SHIFT + 1
            if (role & _STARTS) != was_end or (packet[_MESSAGE] - last[_MESSAGE] & _MSN_MASK) != was_end:
                return offset
            if role & _STARTS:
                self._first = offset
            elif packet[:_MESSAGE] != last[:_MESSAGE]:
                return offset
            if (offset - self._first + 1 == self._packets(packet)) != (role >= _ENDS):
                return offset
        return None

    def _first_wrong_of_many(self, packets: NDArray[np.uint64], start: int) -> int | None:
        """As `_first_wrong_of_few`, of rows behind the first one, which came before them."""
        region, base, message = packets.T.copy()
        role = message >> _ROLE_SHIFT
        starts, was_end = role[1:] & _STARTS, role[:-1] >> 1
        wrong = (starts ^ was_end) | (message[1:] - message[:-1] & _MSN_MASK ^ was_end)
        wrong |= ((region[1:] ^ region[:-1]) | (base[1:] ^ base[:-1])) * (starts ^ 1)
        offsets = np.arange(start, start + len(wrong))
        first = np.maximum.accumulate(np.where(starts != 0, offsets, self._first))
        dmalen = (region[1:] & _DMALEN_MASK).view(np.int64)
        is_end = offsets - first + 1 == -(-dmalen // self._step)
        wrong |= is_end != role[1:] >> 1
        self._first = int(first[-1])
        return start + int((wrong != 0).argmax()) if np.count_nonzero(wrong) else None

    def _packets(self, packet: list[int]) -> int:
        """Of the whole message."""
        return -(-(packet[_REGION] & _DMALEN_MASK) // self._pmtu)
