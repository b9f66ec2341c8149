"""Host port over one of Scapy's own sockets, and the codec that builds and dissects every packet with Scapy.

The port has the same interface as the packet rings, one system call per frame; it knows frames as bytes only. Importing
this loads Scapy: most of a second.
"""

import contextlib
import socket
from collections import deque

import numpy as np
from numpy.typing import NDArray
from scapy.arch.linux import L2Socket

from agent.base.system_calls import inside
from agent.io.codec import Codec
from agent.io.port import REFUSALS, FrameBlock, FrameSpace, PortCounters, PortOpenError, has_carrier, newly_dropped
from agent.wire.scapy import build, read

_SOL_PACKET, _PACKET_IGNORE_OUTGOING = 263, 23
_SO_RCVBUFFORCE = 33
_RECEIVE_BUFFER_BYTES = 16 << 20
"""Size of the receive buffer. Our choice: some 10,000 frames, several seconds of Scapy's time."""
_TX_ROWS = 32
"""Frames sent at a time; limits the time of a turn (our choice, some 20 ms)."""


class ScapyPort:
    """A `FramePort` over `L2Socket`. Open with `open_scapy_port`."""

    def __init__(self, sock: L2Socket, interface: str, plane: int, frame_bytes: int) -> None:
        self._socket = sock
        self._interface = interface
        self._plane = plane
        self._frame_bytes = frame_bytes
        self._rows = np.zeros((_TX_ROWS, frame_bytes), np.uint8)
        self._filled: list[int] = []
        self._waiting: deque[bytes] = deque()
        self._rx_frames = self._rx_drops = self._tx_frames = self._tx_errors = 0

    @property
    def plane(self) -> int:
        """Return the plane of this port."""
        return self._plane

    def receive(self, limit: int) -> FrameBlock | None:
        """Return waiting frames, up to `limit`."""
        while len(self._waiting) < limit and (frame := self._next()) is not None:
            if frame:
                self._waiting.append(frame)
        if not self._waiting:
            return None
        count = min(limit, len(self._waiting))
        lengths = [len(self._waiting[row]) for row in range(count)]
        frames = np.zeros((count, max(lengths)), np.uint8)
        for row, length in enumerate(lengths):
            frames[row, :length] = np.frombuffer(self._waiting[row], np.uint8)
        return FrameBlock(frames, np.array(lengths, np.uint32))

    def _next(self) -> bytes | None:
        """Return the next frame as Scapy's socket gives it, empty for one of our own; None when none waits."""
        try:
            _, frame, _ = self._socket.recv_raw(self._frame_bytes)
        except OSError as error:  # none waits, or the port has gone down
            if error.errno in REFUSALS:
                return None
            raise
        return frame or b""

    def release(self, count: int) -> None:
        """Release the oldest frames."""
        for _ in range(count):
            self._waiting.popleft()
        self._rx_frames += count

    def room(self) -> int:
        """Count the rows free until the next `send`."""
        return _TX_ROWS - len(self._filled)

    def reserve(self, count: int) -> FrameSpace:
        """Return the next free rows."""
        first = len(self._filled)
        return FrameSpace(self._rows[first : first + count])

    def fill(self, lengths: NDArray[np.uint32]) -> None:
        """Keep the reserved rows for `send`."""
        self._filled += lengths.tolist()

    def send(self) -> int:
        """Send each filled row through Scapy's socket; what the kernel refuses is counted and dropped."""
        sent = 0
        for row, length in enumerate(self._filled):
            try:
                self._socket.send(self._rows[row, :length].tobytes())
            except OSError as error:
                if error.errno not in REFUSALS:
                    raise
                self._tx_errors += 1
            else:
                sent += 1
        self._filled.clear()
        self._tx_frames += sent
        return sent

    def carrier(self) -> bool:
        """Report whether the interface is up and running."""
        return has_carrier(self._socket.ins, self._interface)

    def counters(self) -> PortCounters:
        """Return the counters, with the kernel's own count of frames for which the socket had no room."""
        if not self._socket.closed:
            self._rx_drops += newly_dropped(self._socket.ins)
        return PortCounters(self._rx_frames, self._rx_drops, self._tx_frames, self._tx_errors)

    def close(self) -> None:
        """Close the socket."""
        if not self._socket.closed:
            self.counters()
            self._socket.close()


def open_scapy_port(interface: str, plane: int, *, netns: str | None, frame_bytes: int) -> ScapyPort:
    """Open Scapy's socket on `interface` in the network namespace at path `netns` (None: the present one).

    `frame_bytes` is the longest frame to carry; a longer one is truncated on arrival. Raises PortOpenError.
    """
    try:
        with inside(netns):
            sock = L2Socket(iface=interface, promisc=False, nofilter=True)
    except (OSError, ValueError) as error:  # Scapy raises ValueError when there is no such interface
        raise PortOpenError(interface, netns, str(error)) from error
    sock.ins.setblocking(False)
    sock.ins.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
    with contextlib.suppress(PermissionError):
        sock.ins.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BUFFER_BYTES)
    return ScapyPort(sock, interface, plane, frame_bytes)


SCAPY = Codec(
    read.decode,
    build.encode_writes,
    build.encode_sacks,
    build.encode_control,
    build.encode_announcements,
    # A frame takes about as long as a thousand of the fast codec: few at a time, or timers and neighbours wait. Our
    # choice, some 20 ms.
    block_frames=16,
    backlog_frames=32,
)
