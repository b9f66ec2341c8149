"""Interface between an engine and one host port: batches of frames in, batches of frames out.

Knows nothing of a frame's contents. `packet_ring.py` and `scapy_port.py` are the real ports, `memory_fabric.py` the one
for tests; what both real ports do with their AF_PACKET sockets is here too.

PortError     PortOpenError    a port could not be opened on an interface; says where and what the kernel answered
"""

import errno
import fcntl
import socket
import struct
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from agent.wire.array.icrc import Runs


@dataclass(frozen=True, slots=True)
class FrameBlock:
    """Frames that arrived on one port, oldest first, as views into the port's own memory."""

    frames: NDArray[np.uint8]
    """(n, stride); row i holds a frame from column 0."""
    lengths: NDArray[np.uint32]
    """(n,) length of each frame in bytes."""
    runs: Runs | None = None
    """Readers of the same rows; None where they bring no gain."""


@dataclass(frozen=True, slots=True)
class FrameSpace:
    """Rows of a port's own memory for frames to send."""

    frames: NDArray[np.uint8]
    """(m, stride), writable."""
    runs: Runs | None = None
    """Readers of the same rows, as in a `FrameBlock`."""

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.frames)


@dataclass(frozen=True, slots=True)
class PortCounters:
    """Counters of one port since it was opened, in frames."""

    rx_frames: int
    """Frames handed to the engine."""
    rx_drops: int
    """Frames lost because the receive ring was full: the engine was too slow."""
    tx_frames: int
    """Frames accepted by the kernel, or by the fabric in memory."""
    tx_errors: int
    """Frames refused on sending (a full queue, a port that is down); the transport sees them as lost."""


class FramePort(Protocol):
    """One port of one host. All methods are called from one thread."""

    @property
    def plane(self) -> int:
        """Return the plane of this port."""

    def receive(self, limit: int) -> FrameBlock | None:
        """Return up to `limit` waiting frames, or None; valid until `release`. It may return fewer than wait."""

    def release(self, count: int) -> None:
        """Release the memory of the `count` oldest received frames."""

    def room(self) -> int:
        """Count the frames that can be reserved before the next `send`."""

    def reserve(self, count: int) -> FrameSpace:
        """Return at most `count` rows for the next frames, none when there is no room."""

    def fill(self, lengths: NDArray[np.uint32]) -> None:
        """Declare that the first len(`lengths`) rows of the last `reserve` hold frames of these lengths."""

    def send(self) -> int:
        """Send all filled rows in order; return how many were taken."""

    def carrier(self) -> bool:
        """Report whether the link is up, as seen from this end."""

    def counters(self) -> PortCounters:
        """Return the counters so far."""

    def close(self) -> None:
        """Release everything; closing twice is safe."""


class PortError(Exception):
    """Base of all exceptions of `agent.io`."""


class PortOpenError(PortError):
    """A frame port could not be opened.

    `interface` and `netns` say where, `reason` what the kernel answered.
    """

    def __init__(self, interface: str, netns: str | None, reason: str) -> None:
        super().__init__(f"cannot open {interface} in {netns or 'this network namespace'}: {reason}")
        self.interface = interface
        self.netns = netns
        self.reason = reason


_SOL_PACKET = 263
_PACKET_STATISTICS = 6
_SIOCGIFFLAGS = 0x8913
_IFF_CARRIER = 0x1 | 0x40  # IFF_UP and IFF_RUNNING

REFUSALS = frozenset({errno.ENOBUFS, errno.EAGAIN, errno.ENETDOWN, errno.ENXIO, errno.ENETUNREACH})
"""Errors of sending or receiving on a congested or broken path; any other error is a bug."""


def has_carrier(sock: socket.socket, interface: str) -> bool:
    """Report whether the interface is up and running, read from the kernel in the socket's own namespace."""
    request = struct.pack("16s24x", interface.encode())
    try:
        answer = fcntl.ioctl(sock.fileno(), _SIOCGIFFLAGS, request)
    except OSError:
        return False
    flags: int = struct.unpack_from("16xH", answer)[0]
    return flags & _IFF_CARRIER == _IFF_CARRIER


def newly_dropped(sock: socket.socket) -> int:
    """Return frames dropped for want of room since the last call: reading resets the kernel's count."""
    packed = sock.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8)
    dropped: int = struct.unpack("II", packed)[1]
    return dropped
