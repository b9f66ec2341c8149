"""What both kinds of real port ask of an AF_PACKET socket: the carrier, what the kernel dropped, what a refusal is."""

import errno
import fcntl
import socket
import struct

_SOL_PACKET = 263
_PACKET_STATISTICS = 6
_SIOCGIFFLAGS = 0x8913
_IFF_CARRIER = 0x1 | 0x40  # IFF_UP and IFF_RUNNING

REFUSALS = frozenset({errno.ENOBUFS, errno.EAGAIN, errno.ENETDOWN, errno.ENXIO, errno.ENETUNREACH})
"""What sending or receiving may answer on a path that is congested or broken; anything else is our own mistake."""


def has_carrier(sock: socket.socket, interface: str) -> bool:
    """Whether the interface is up and running, asked of the kernel in the socket's own namespace."""
    request = struct.pack("16s24x", interface.encode())
    try:
        answer = fcntl.ioctl(sock.fileno(), _SIOCGIFFLAGS, request)
    except OSError:
        return False
    flags: int = struct.unpack_from("16xH", answer)[0]
    return flags & _IFF_CARRIER == _IFF_CARRIER


def newly_dropped(sock: socket.socket) -> int:
    """Frames that found no room since last asked: asking resets the kernel's count."""
    packed = sock.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8)
    dropped: int = struct.unpack("II", packed)[1]
    return dropped
