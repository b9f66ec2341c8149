"""Reads pcapng files, one packet at a time: sections, interfaces and enhanced packets. Format:
draft-ietf-opsawg-pcapng.

Other blocks are skipped. Packets without a time (Simple Packet Blocks) cannot be placed in the order of time.
"""

from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from struct import unpack_from
from typing import BinaryIO, NamedTuple

from results.captures.packets import MOST_NS, MOST_PACKET_BYTES, Captured, Direction, Interface
from results.errors import CaptureError

SECTION = b"\x0a\x0d\x0d\x0a"
"""Type of the block that every pcapng begins with; the same in both byte orders."""

_INTERFACE, _PACKET = 1, 6
_BYTE_ORDERS = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}
"""Byte-order magic of a section."""
_FRAME_BYTES = 12
"""Type and length at the beginning of a block, length at its end."""
_MOST_BLOCK_BYTES = MOST_PACKET_BYTES + (1 << 20)
_OPT_END, _OPT_NAME, _OPT_FLAGS, _OPT_RESOLUTION, _OPT_OFFSET = 0, 2, 2, 9, 14
_MICROSECONDS = 6
_MOST_NAME = 255
"""Most characters of an interface's name that are kept (our choice)."""


class _Section(NamedTuple):
    offset: int
    order: str
    first: int
    """Number of the section's first interface in the file."""


class PcapngFile:
    """An open pcapng file; `interfaces` grows while it is read. Raises CaptureError for one that is damaged."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file = file
        self._path = path
        self.is_cut = False
        self.interfaces: list[Interface] = []
        self._sections: list[_Section] = []
        self._clocks: list[tuple[int, int]] = []
        """Ticks per second and seconds to be added, per interface."""

    def __iter__(self) -> Iterator[Captured]:
        """Yield packets in the order of the file."""
        offset = 0
        self.interfaces.clear()
        self._sections.clear()
        self._clocks.clear()
        self._file.seek(0)
        while (block := self._block(offset)) is not None:
            kind, body, size = block
            if kind == _INTERFACE:
                self._add_interface(body)
            elif kind == _PACKET:
                yield self._packet(body, offset)
            offset += size

    def packet_at(self, offset: int) -> Captured:
        """Read the packet whose block begins at `offset`; all were read before."""
        self._file.seek(offset)
        block = self._block(offset)
        if block is None:
            raise CaptureError(self._path, "was cut off while it was read")
        return self._packet(block[1], offset)

    def _block(self, offset: int) -> tuple[int, bytes, int] | None:
        """Read type, content and size of the block at the file's position, which is `offset`; None at the end."""
        head = self._file.read(_FRAME_BYTES)
        if len(head) < _FRAME_BYTES:
            self.is_cut = self.is_cut or bool(head)
            return None
        if head[:4] == SECTION and not self._is_read(offset):
            self._begin_section(head[8:], offset)
        order = self._section_of(offset).order
        kind, size = unpack_from(f"{order}II", head)
        if not _FRAME_BYTES <= size <= _MOST_BLOCK_BYTES or size % 4:
            raise self._damaged(offset, f"claims {size:,} bytes")
        rest = self._file.read(size - _FRAME_BYTES)
        if len(rest) < size - _FRAME_BYTES:
            self.is_cut = True
            return None
        return kind, (head[8:] + rest)[:-4], size

    def _is_read(self, offset: int) -> bool:
        return bool(self._sections) and self._sections[-1].offset >= offset

    def _begin_section(self, magic: bytes, offset: int) -> None:
        if (order := _BYTE_ORDERS.get(magic)) is None:
            raise self._damaged(offset, "has no byte order")
        self._sections.append(_Section(offset, order, len(self.interfaces)))

    def _section_of(self, offset: int) -> _Section:
        return self._sections[bisect_right(self._sections, offset, key=lambda section: section.offset) - 1]

    def _add_interface(self, body: bytes) -> None:
        order = self._sections[-1].order
        link_type, _, snaplen = unpack_from(f"{order}HHI", body.ljust(8, b"\0"))
        told = _options(body[8:], order)
        name = told.get(_OPT_NAME, b"").decode(errors="replace")[:_MOST_NAME]
        self.interfaces.append(Interface(name, link_type, snaplen))
        resolution = told.get(_OPT_RESOLUTION, b"")[:1] or bytes([_MICROSECONDS])
        base, power = (2, resolution[0] & 0x7F) if resolution[0] & 0x80 else (10, resolution[0])
        added = told.get(_OPT_OFFSET, b"")
        self._clocks.append((base**power, unpack_from(f"{order}q", added)[0] if len(added) == 8 else 0))

    def _packet(self, body: bytes, offset: int) -> Captured:
        section = self._section_of(offset)
        if len(body) < 20:
            raise self._damaged(offset, "is too short for a packet")
        number, high, low, stored, wire = unpack_from(f"{section.order}IIIII", body)
        interface = section.first + number
        if interface >= len(self.interfaces):
            raise self._damaged(offset, f"refers to interface {number}, which the file does not have")
        if 20 + stored > len(body):
            raise self._damaged(offset, f"claims a packet of {stored:,} bytes")
        ticks, added = self._clocks[interface]
        time_ns = (high << 32 | low) * 1_000_000_000 // ticks + added * 1_000_000_000
        if not 0 <= time_ns <= MOST_NS:
            raise self._damaged(offset, "has an impossible time")
        flags = int.from_bytes(
            _options(body[20 + stored + -stored % 4 :], section.order).get(_OPT_FLAGS, b"")[:4],
            "little" if section.order == "<" else "big",
        )
        direction = Direction(flags & 3) if flags & 3 in (1, 2) else Direction.UNKNOWN
        data = body[20 : 20 + stored]
        return Captured(time_ns, wire, data, offset, interface, direction, fcs_bytes=flags >> 5 & 0xF)

    def _damaged(self, offset: int, what: str) -> CaptureError:
        return CaptureError(self._path, f"damaged: the block at byte {offset:,} {what}")


def _options(data: bytes, order: str) -> dict[int, bytes]:
    """Return options of a block by code, up to the first that does not fit."""
    found: dict[int, bytes] = {}
    at = 0
    while at + 4 <= len(data):
        code, size = unpack_from(f"{order}HH", data, at)
        if code == _OPT_END or at + 4 + size > len(data):
            break
        found.setdefault(code, data[at + 4 : at + 4 + size])
        at += 4 + size + -size % 4
    return found
