"""Writes pcapng: packets of several interfaces in one file, nanoseconds. Format: draft-ietf-opsawg-pcapng."""

from struct import pack
from typing import BinaryIO

from results.captures.reader import Captured, Direction, Interface

_SECTION, _INTERFACE, _PACKET = 0x0A0D0D0A, 1, 6
_BYTE_ORDER_MAGIC = 0x1A2B3C4D
_LENGTH_UNKNOWN = -1
_OPT_END, _OPT_NAME, _OPT_DESCRIPTION, _OPT_RESOLUTION, _OPT_APPLICATION, _OPT_FLAGS = 0, 2, 3, 9, 4, 2
_FCS_SHIFT, _MOST_FCS_BYTES = 5, 15
"""epb_flags has four bits for the length of the frame check sequence."""
_NANOSECONDS = 9
"""if_tsresol: negative power of ten."""


class PcapngWriter:
    """Appends blocks to a binary file. Interfaces are numbered from 0 in the order they are added."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        options = _option(_OPT_APPLICATION, b"spraylab") + _option(_OPT_END, b"")
        self._block(_SECTION, pack("<IHHq", _BYTE_ORDER_MAGIC, 1, 0, _LENGTH_UNKNOWN) + options)

    def interface(self, interface: Interface, description: str) -> None:
        """Add an interface; all of them come before the first packet."""
        options = _option(_OPT_NAME, interface.name.encode()) + _option(_OPT_DESCRIPTION, description.encode())
        options += _option(_OPT_RESOLUTION, bytes([_NANOSECONDS])) + _option(_OPT_END, b"")
        self._block(_INTERFACE, pack("<HHI", interface.link_type, 0, interface.snaplen) + options)

    def packet(self, interface: int, packet: Captured, direction: Direction) -> None:
        """Add a packet."""
        high, low = packet.time_ns >> 32, packet.time_ns & 0xFFFFFFFF
        body = pack("<IIIII", interface, high, low, len(packet.data), packet.wire_bytes) + _padded(packet.data)
        fcs_bytes = packet.fcs_bytes if packet.fcs_bytes <= _MOST_FCS_BYTES else 0
        if flags := direction | fcs_bytes << _FCS_SHIFT:
            body += _option(_OPT_FLAGS, pack("<I", flags)) + _option(_OPT_END, b"")
        self._block(_PACKET, body)

    def _block(self, kind: int, body: bytes) -> None:
        length = pack("<I", len(body) + 12)
        self._file.write(pack("<I", kind) + length + body + length)


def _option(code: int, value: bytes) -> bytes:
    return pack("<HH", code, len(value)) + _padded(value)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
