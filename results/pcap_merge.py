"""Captures of many link ends as one pcapng file, in the order of time, with directions of links as interface names.

A packet captured at both ends of a link stays in twice: the two tell when it left and when it came.
"""

import heapq
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from results.pcap import CaptureEnd
from results.pcap_file import Captured, PcapFile
from results.pcapng import Direction, PcapngWriter
from results.regular_file import open_regular
from results.user_files import replacing
from testbed.model.addressing import mac_start_of
from testbed.model.ids import DirectedLink

_SOURCE_MAC = slice(6, 12)


@dataclass(frozen=True)
class _Source:
    """One capture file and its interfaces in the merged one: what leaves the recording port, and what comes in."""

    name: str
    file: PcapFile
    interfaces: tuple[str, ...]
    own_mac: bytes | None
    """How the port's MAC address begins; None where the file's name does not tell the port."""

    def direction_of(self, packet: Captured) -> Direction:
        if self.own_mac is None:
            return Direction.UNKNOWN
        is_own = packet.data[_SOURCE_MAC].startswith(self.own_mac)
        return Direction.OUTBOUND if is_own else Direction.INBOUND


@dataclass(frozen=True)
class Merged:
    """What was written."""

    path: Path
    interfaces: tuple[str, ...]
    packets: int
    cut: tuple[Path, ...]
    """Files that end within a packet: what they held behind it is lost."""


def merge(files: Sequence[Path], out: Path) -> Merged:
    """Write the packets of pcap files into the pcapng `out`. Raises CaptureError for one that is no pcap, OSError."""
    with ExitStack() as opened:
        sources = [_opened(opened.enter_context(open_regular(path)), path) for path in files]
        with replacing(out) as target:
            packets = _write(sources, PcapngWriter(target))
    interfaces = tuple(name for source in sources for name in source.interfaces)
    cut = tuple(path for path, source in zip(files, sources, strict=True) if source.file.is_cut)
    return Merged(out, interfaces, packets, cut)


def _opened(file: BinaryIO, path: Path) -> _Source:
    end = CaptureEnd.of_file_name(path.name)
    own_mac = None if end is None else mac_start_of(end.port)
    return _Source(path.name, PcapFile(file, path), _interface_names(path, end), own_mac)


def _write(sources: Sequence[_Source], writer: PcapngWriter) -> int:
    """All interfaces, then all packets; how many."""
    first_interface, interfaces = [], 0
    for source in sources:
        first_interface.append(interfaces)
        interfaces += len(source.interfaces)
        for name in source.interfaces:
            writer.interface(name, source.name, source.file.link_type, source.file.snaplen)
    count = 0
    for packet, at in heapq.merge(*map(_numbered, sources, range(len(sources))), key=_when):
        direction = sources[at].direction_of(packet)
        interface = first_interface[at] + (direction is Direction.INBOUND)
        writer.packet(interface, packet.time_ns, packet.data, packet.wire_bytes, direction)
        count += 1
    return count


def _numbered(source: _Source, at: int) -> Iterator[tuple[Captured, int]]:
    return ((packet, at) for packet in source.file)


def _when(entry: tuple[Captured, int]) -> int:
    return entry[0].time_ns


def _interface_names(path: Path, end: CaptureEnd | None) -> tuple[str, ...]:
    """`p0:leaf3>spine5 at p0-leaf3` for what leaves the port, then for what comes in; else the file's name."""
    if end is None:
        return (path.stem,)
    out = DirectedLink(end.port.plane, end.port.node, end.port.peer)
    return f"{out} at {end.node}", f"{out.reverse} at {end.node}"
