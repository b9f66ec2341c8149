"""Merges captures of many link ends into one pcapng file, in the order of time; interfaces are named by link
direction.

A packet captured at both ends of a link appears twice: the two times are its departure and its arrival.
"""

import heapq
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from results.captures.reader import Captured, CaptureFile, Direction, Interface, in_time_order, open_capture
from results.captures.tcpdump import CaptureEnd
from results.captures.writer import PcapngWriter
from results.files.user_files import replacing
from testbed.model.addressing import mac_start_of
from testbed.model.node_names import DirectedLink

_SOURCE_MAC = slice(6, 12)

PACKED = ".gz"
"""Suffix of a compressed file."""


@dataclass(frozen=True)
class Merged:
    """Counts of what was written."""

    path: Path
    interfaces: tuple[str, ...]
    packets: int
    cut: tuple[Path, ...]
    """Files that end within a packet: what followed is lost."""


class _Source:
    """One capture file and its interfaces in the merged one.

    A file of this program's captures has two: what leaves the recording port, and what comes in. Others have their own.
    """

    def __init__(self, path: Path, file: CaptureFile) -> None:
        self.path = path
        self.file = file
        self.packets = in_time_order(file)
        name = path.name.removesuffix(PACKED)
        end = CaptureEnd.of_file_name(name) if len(file.interfaces) == 1 else None
        self._own_mac = None if end is None else mac_start_of(end.port)
        """First bytes of the port's MAC address; None where the file's name does not contain the port."""
        self.interfaces = [*file.interfaces] if end is None else _directions(end, file.interfaces[0])
        if end is None and not any(interface.name for interface in file.interfaces):
            self.interfaces = [each._replace(name=_shown(Path(name).stem)) for each in file.interfaces]

    def place_of(self, packet: Captured) -> tuple[int, Direction]:
        """Return the packet's interface among those of this file, and its direction."""
        if self._own_mac is None:
            return packet.interface, packet.direction
        is_own = packet.data[_SOURCE_MAC].startswith(self._own_mac)
        return (0, Direction.OUTBOUND) if is_own else (1, Direction.INBOUND)


def merge(files: Sequence[Path], out: Path) -> Merged:
    """Write the packets of capture files into the pcapng `out`.

    Raises CaptureError for one that is no capture or damaged, OSError.
    """
    with ExitStack() as opened:
        sources = [_Source(path, open_capture(path, opened)) for path in files]
        with replacing(out) as target:
            packets = _write(sources, PcapngWriter(target))
    interfaces = tuple(interface.name for source in sources for interface in source.interfaces)
    return Merged(out, interfaces, packets, tuple(source.path for source in sources if source.file.is_cut))


def _write(sources: Sequence[_Source], writer: PcapngWriter) -> int:
    """Write all interfaces, then all packets; return how many packets."""
    first_interface, interfaces = [], 0
    for source in sources:
        first_interface.append(interfaces)
        interfaces += len(source.interfaces)
        for interface in source.interfaces:
            writer.interface(interface, _shown(source.path.name))
    count = 0
    for packet, at in heapq.merge(*map(_numbered, sources, range(len(sources))), key=_when):
        interface_number, direction = sources[at].place_of(packet)
        writer.packet(first_interface[at] + interface_number, packet, direction)
        count += 1
    return count


def _numbered(source: _Source, at: int) -> Iterator[tuple[Captured, int]]:
    return ((packet, at) for packet in source.packets)


def _when(entry: tuple[Captured, int]) -> int:
    return entry[0].time_ns


def _directions(end: CaptureEnd, recorded: Interface) -> list[Interface]:
    """Return `p0:leaf3>spine5 at p0-leaf3` for packets that leave the port, then for those that come in."""
    out = DirectedLink(end.port.plane, end.port.node, end.port.peer)
    return [recorded._replace(name=f"{each} at {end.node}") for each in (out, out.reverse)]


def _shown(name: str) -> str:
    """Return a file's name as UTF-8, as pcapng requires; other bytes become `\xff`."""
    return os.fsencode(name).decode(errors="backslashreplace")
