"""Writes pcapng: packets of several interfaces in one file, nanoseconds. Format: draft-ietf-opsawg-pcapng."""

from enum import IntEnum
from struct import pack
from typing import BinaryIO

_SECTION, _INTERFACE, _PACKET = 0x0A0D0D0A, 1, 6
_BYTE_ORDER_MAGIC = 0x1A2B3C4D
_LENGTH_UNKNOWN = -1
_OPT_END, _OPT_NAME, _OPT_DESCRIPTION, _OPT_RESOLUTION, _OPT_APPLICATION, _OPT_FLAGS = 0, 2, 3, 9, 4, 2
_NANOSECONDS = 9
"""if_tsresol: negative power of ten."""


class Direction(IntEnum):
    """Which way a packet passed its interface, as the low bits of epb_flags."""

    UNKNOWN = 0
    INBOUND = 1
    OUTBOUND = 2


class PcapngWriter:
    """Appends blocks to a binary file. Interfaces are numbered from 0 in the order they are added."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        options = _option(_OPT_APPLICATION, b"spraylab") + _option(_OPT_END, b"")
        self._block(_SECTION, pack("<IHHq", _BYTE_ORDER_MAGIC, 1, 0, _LENGTH_UNKNOWN) + options)

    def interface(self, name: str, description: str, link_type: int, snaplen: int) -> None:
        """Add an interface; all of them come before the first packet."""
        options = _option(_OPT_NAME, name.encode()) + _option(_OPT_DESCRIPTION, description.encode())
        options += _option(_OPT_RESOLUTION, bytes([_NANOSECONDS])) + _option(_OPT_END, b"")
        self._block(_INTERFACE, pack("<HHI", link_type, 0, snaplen) + options)

    def packet(self, interface: int, time_ns: int, data: bytes, wire_bytes: int, direction: Direction) -> None:
        """Add a packet of `wire_bytes`, of which `data` was captured."""
        high, low = time_ns >> 32, time_ns & 0xFFFFFFFF
        body = pack("<IIIII", interface, high, low, len(data), wire_bytes) + _padded(data)
        if direction:
            body += _option(_OPT_FLAGS, pack("<I", direction)) + _option(_OPT_END, b"")
        self._block(_PACKET, body)

    def _block(self, kind: int, body: bytes) -> None:
        length = pack("<I", len(body) + 12)
        self._file.write(pack("<I", kind) + length + body + length)


def _option(code: int, value: bytes) -> bytes:
    return pack("<HH", code, len(value)) + _padded(value)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
