"""Packet rings without a kernel: what one port sends lies in the ring of the port it is joined to when send() returns.

For counting what our own code does. The rings and the port are the real ones, only their socket is not.
"""

import mmap
import os
import socket
from typing import cast

import numpy as np

from agent.io.packet_ring import RX_DATA, TX_DATA, PacketRingPort, RingGeometry

_RX_STATUS, _RX_LENGTH, _RX_SNAPLEN = 0, 1, 2
_FRAME_BYTES = 4242
_SLOTS = 2048


class _Wire:
    """In the place of a socket: `send` does what the kernel and the fabric do."""

    def __init__(self, rx: RingGeometry, tx: RingGeometry) -> None:
        self._fd = os.memfd_create("joined-ring")
        os.truncate(self._fd, rx.total_bytes + tx.total_bytes)
        raw = np.frombuffer(mmap.mmap(self._fd, rx.total_bytes + tx.total_bytes), np.uint8)
        self._rx = raw[: rx.total_bytes].reshape(rx.slots, rx.slot_bytes)
        self._tx = raw[rx.total_bytes :].reshape(tx.slots, tx.slot_bytes)
        self._rx_words, self._tx_words = self._rx.view(np.uint32), self._tx.view(np.uint32)
        self._rx_head = self._tx_head = 0
        self.other: _Wire = self

    def fileno(self) -> int:
        return self._fd

    def getsockname(self) -> tuple[str, int]:
        return "joined", 0

    def getsockopt(self, level: int, option: int, size: int) -> bytes:
        return bytes(size)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def send(self, data: bytes, flags: int) -> int:
        while self._tx_words[self._tx_head, 0] == 1:
            self.other.take(self._tx[self._tx_head, TX_DATA:], int(self._tx_words[self._tx_head, 1]))
            self._tx_words[self._tx_head, 0] = 0
            self._tx_head = (self._tx_head + 1) % len(self._tx)
        return 0

    def take(self, frame: "np.ndarray[tuple[int], np.dtype[np.uint8]]", length: int) -> None:
        row, words = self._rx[self._rx_head], self._rx_words[self._rx_head]
        if words[_RX_STATUS]:
            return  # the ring is full: lost, as in the kernel
        row[RX_DATA : RX_DATA + length] = frame[:length]
        words[_RX_LENGTH] = words[_RX_SNAPLEN] = length
        words[_RX_STATUS] = 1
        self._rx_head = (self._rx_head + 1) % len(self._rx)


class JoinedPort(PacketRingPort):
    """A port whose cable is always plugged in."""

    def carrier(self) -> bool:
        """There is no interface to ask."""
        return True


def joined_ports(plane: int) -> tuple[JoinedPort, JoinedPort]:
    """Two ports of a plane, joined back to back."""
    rx, tx = RingGeometry.holding(_SLOTS, _FRAME_BYTES, RX_DATA), RingGeometry.holding(_SLOTS, _FRAME_BYTES, TX_DATA)
    wires = _Wire(rx, tx), _Wire(rx, tx)
    wires[0].other, wires[1].other = wires[1], wires[0]
    first, second = (JoinedPort(cast(socket.socket, wire), plane, rx, tx) for wire in wires)
    return first, second
