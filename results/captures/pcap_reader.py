"""Reads classic pcap files, one packet at a time. Format: draft-ietf-opsawg-pcap."""

from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import BinaryIO

from results.captures.packets import MOST_PACKET_BYTES, Captured, Interface
from results.errors import CaptureError

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
