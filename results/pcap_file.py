"""Classic pcap files as packets, one at a time. Format: draft-ietf-opsawg-pcap.

A last packet that was not written to its end, as when tcpdump was killed or the disk was full, ends the file without an
error, but is told.
"""

from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import BinaryIO, NamedTuple

from results.errors import CaptureError
from results.regular_file import open_regular

_HEADER_BYTES = 24
_BYTE_ORDERS = ("<", ">")
_TICK_NS = {0xA1B2C3D4: 1000, 0xA1B23C4D: 1}
"""Magic number to nanoseconds in a tick of the packets' time stamps."""


def packets_in(path: Path) -> int:
    """Whole packets that a pcap file holds. Raises CaptureError for a file that is none, OSError."""
    with open_regular(path) as file:
        return sum(1 for _ in PcapFile(file, path))


class Captured(NamedTuple):
    """One packet of a capture."""

    time_ns: int
    """Since 1970, UTC."""
    wire_bytes: int
    """Its length; `data` may be its beginning only."""
    data: bytes


class PcapFile:
    """An open pcap file; iterate over it once. Raises CaptureError for a file that is none."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file = file
        self.is_cut = False
        """Whether the file ended within a packet; known once all packets were read."""
        header = file.read(_HEADER_BYTES)
        for order in _BYTE_ORDERS:
            layout = Struct(f"{order}IHHiIII")
            if len(header) == layout.size and (magic := layout.unpack(header)[0]) in _TICK_NS:
                self._tick_ns = _TICK_NS[magic]
                self._packet = Struct(f"{order}IIII")
                self.snaplen, self.link_type = layout.unpack(header)[5:]
                return
        raise CaptureError(path, "not a pcap file (pcapng is not read)" if header else "empty")

    def __iter__(self) -> Iterator[Captured]:
        """Packets in the order of the file."""
        while len(header := self._file.read(self._packet.size)) == self._packet.size:
            seconds, ticks, stored, wire = self._packet.unpack(header)
            data = self._file.read(stored)
            if len(data) < stored:
                self.is_cut = True
                return
            yield Captured(seconds * 1_000_000_000 + ticks * self._tick_ns, wire, data)
        self.is_cut = bool(header)
