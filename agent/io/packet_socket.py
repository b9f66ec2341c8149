"""Common parts of both real ports on AF_PACKET sockets: carrier, kernel drops, and refusals."""

import errno
import fcntl
import socket
import struct

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
