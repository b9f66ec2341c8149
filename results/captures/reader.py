"""Reads capture files packet by packet: pcap and pcapng, each also compressed by gzip.

A truncated last packet, as when tcpdump was killed or the disk was full, ends the file without an error, but is
reported; so is a truncated gzip file. Of pcapng it reads sections, interfaces and enhanced packets; packets without a
time (Simple Packet Blocks) cannot be placed in the order of time. Formats: draft-ietf-opsawg-pcap and -pcapng.
"""

import gzip
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from enum import IntEnum
from pathlib import Path
from struct import Struct, unpack_from
from tempfile import TemporaryFile
from typing import BinaryIO, NamedTuple, Protocol

from results.errors import CaptureError
from results.files.user_files import open_regular

MOST_PACKET_BYTES = 1 << 24
"""Most bytes that a file may claim for one packet; tcpdump records 256 KiB at most (MAXIMUM_SNAPLEN).

More is damage (our choice)."""

MOST_NS = (1 << 63) - 1
"""Latest time stamp, nanoseconds since 1970: year 2262. Later ones are damage."""


class Direction(IntEnum):
    """Direction of a packet at its interface, as the low bits of epb_flags."""

    UNKNOWN = 0
    INBOUND = 1
    OUTBOUND = 2


class Interface(NamedTuple):
    """The interface that recorded packets."""

    name: str
    """The interface's name; empty where the format has none."""
    link_type: int
    """16 bits (LINKTYPE_ of pcap-linktype(7))."""
    snaplen: int


class Captured(NamedTuple):
    """One packet of a capture."""

    time_ns: int
    """Time since 1970, UTC."""
    wire_bytes: int
    """Length on the wire; `data` may be only its beginning."""
    data: bytes
    offset: int
    """Position in the file."""
    interface: int = 0
    direction: Direction = Direction.UNKNOWN
    fcs_bytes: int = 0
    """Length of the frame check sequence at its end, as Ethernet's is; 0 where the file does not state one."""


class CaptureFile(Protocol):
    """An open file; its properties are known once all packets were read."""

    is_cut: bool
    """Whether the file ended within a packet."""

    @property
    def interfaces(self) -> Sequence[Interface]:
        """Interfaces, numbered as packets refer to them."""

    def __iter__(self) -> Iterator[Captured]:
        """Yield packets in the order of the file, from its beginning."""

    def packet_at(self, offset: int) -> Captured:
        """Read one of those packets again."""


_HEADER_BYTES = 24
_BYTE_ORDERS = ("<", ">")
_TICK_NS = {0xA1B2C3D4: 1000, 0xA1B23C4D: 1}
"""Nanoseconds per tick of the time stamps, by magic number."""

_FCS_IS_TOLD, _FCS_SHIFT = 1 << 26, 28
"""Layout of the link type field: the low 16 bits are the type, bit f and a length in units of 16 bits follow."""


class PcapFile:
    """An open pcap file. Raises CaptureError for a file that is none, or whose lengths cannot be."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file = file
        self._path = path
        self.is_cut = False
        header = file.read(_HEADER_BYTES)
        for order in _BYTE_ORDERS:
            layout = Struct(f"{order}IHHiIII")
            if len(header) == layout.size and (magic := layout.unpack(header)[0]) in _TICK_NS:
                self._tick_ns = _TICK_NS[magic]
                self._packet = Struct(f"{order}IIII")
                snaplen, link = layout.unpack(header)[5:]
                self.interfaces = (Interface("", link & 0xFFFF, snaplen),)
                self._fcs_bytes = 2 * (link >> _FCS_SHIFT) if link & _FCS_IS_TOLD else 0
                return
        raise CaptureError(path, "neither a pcap nor a pcapng file")

    def __iter__(self) -> Iterator[Captured]:
        """Yield packets in the order of the file."""
        offset = _HEADER_BYTES
        self._file.seek(offset)
        while (packet := self._next(offset)) is not None:
            yield packet
            offset += self._packet.size + len(packet.data)

    def packet_at(self, offset: int) -> Captured:
        """Read the packet that begins at `offset`."""
        self._file.seek(offset)
        packet = self._next(offset)
        if packet is None:
            raise CaptureError(self._path, "was cut off while it was read")
        return packet

    def _next(self, offset: int) -> Captured | None:
        """Read the packet at the file's position, which is `offset`; None at the end."""
        header = self._file.read(self._packet.size)
        if len(header) < self._packet.size:
            self.is_cut = self.is_cut or bool(header)
            return None
        seconds, ticks, stored, wire = self._packet.unpack(header)
        if stored > MOST_PACKET_BYTES:
            raise CaptureError(self._path, f"damaged: the packet at byte {offset:,} claims {stored:,} bytes")
        data = self._file.read(stored)
        if len(data) < stored:
            self.is_cut = True
            return None
        time_ns = seconds * 1_000_000_000 + ticks * self._tick_ns
        return Captured(time_ns, wire, data, offset, fcs_bytes=self._fcs_bytes)


SECTION = b"\x0a\x0d\x0d\x0a"
"""Type of the block that every pcapng begins with; the same in both byte orders."""

_INTERFACE, _PACKET = 1, 6
_BYTE_ORDER_OF = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}
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
        if (order := _BYTE_ORDER_OF.get(magic)) is None:
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


_GZIP = b"\x1f\x8b"
_AT_ONCE = 1 << 20
MOST_UNPACKED = 1 << 33
"""Largest decompressed size, bytes: eight times what a run captures at most by default (our choice)."""


def packets_in(path: Path) -> int:
    """Count the whole packets of a capture file. Raises CaptureError for a file that is none, OSError."""
    with ExitStack() as opened:
        return sum(1 for _ in open_capture(path, opened))


def open_capture(path: Path, opened: ExitStack) -> CaptureFile:
    """Open a capture file until `opened` is closed. Raises CaptureError for a file that is no capture, OSError."""
    file = opened.enter_context(open_regular(path))
    is_cut = False
    if _start(file, len(_GZIP)) == _GZIP:
        unpacked = opened.enter_context(TemporaryFile())  # noqa: SIM115 - `opened` closes it
        is_cut = _unpack(file, unpacked, path)
        file = unpacked
    start = _start(file, 4)
    if not start:
        raise CaptureError(path, "empty")
    found: CaptureFile = PcapngFile(file, path) if start == SECTION else PcapFile(file, path)
    found.is_cut = is_cut
    return found


def in_time_order(file: CaptureFile) -> Iterator[Captured]:
    """Read all packets in the order of time; equal times keep the order of the file. Reads the file twice and
    keeps 16 bytes per packet.

    Interfaces, and whether it is cut off, are known when this returns.
    """
    import numpy as np

    times, offsets = array("q"), array("q")
    for packet in file:
        times.append(packet.time_ns)
        offsets.append(packet.offset)
    at = np.frombuffer(times, np.int64)
    if (at[1:] >= at[:-1]).all():
        return iter(file)
    return (file.packet_at(offsets[number]) for number in np.argsort(at, kind="stable").tolist())


def _start(file: BinaryIO, size: int) -> bytes:
    start = file.read(size)
    file.seek(0)
    return start


def _unpack(packed: BinaryIO, into: BinaryIO, path: Path) -> bool:
    """Decompress a file; return whether its end is missing or damaged."""
    size = 0
    try:
        with gzip.GzipFile(fileobj=packed) as plain:
            while part := plain.read1(_AT_ONCE):
                size += len(part)
                if size > MOST_UNPACKED:
                    raise CaptureError(path, f"larger than {MOST_UNPACKED >> 30} GiB when decompressed")
                into.write(part)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        return True
    finally:
        into.seek(0)
    return False
