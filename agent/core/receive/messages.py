"""Checks that packets are segments of messages as MRC requires: each packet alone, and against its neighbours.

A packet's data are kept until the cumulative point passes it, because its neighbours are known only then. Knows no
memory and no SACKs. Sources: MRC 1 (message size), 2.4, 6.2.2 (METH, RETH), 8 (segmentation).
"""

import numpy as np
from numpy.typing import NDArray

from agent.core.psn import read_run
from agent.wire.array.columns import FEW_ROWS, Rows, WriteColumns
from agent.wire.constants import Opcode

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
