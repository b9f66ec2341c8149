"""Reads capture files as packets in the order of time: pcap and pcapng, each also compressed by gzip.

A truncated last packet, as when tcpdump was killed or the disk was full, ends the file without an error, but is
reported; so is a truncated gzip file.
"""

import gzip
import zlib
from array import array
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO

import numpy as np

from results.captures.packets import Captured, CaptureFile
from results.captures.pcap_reader import PcapFile
from results.captures.pcapng_reader import SECTION, PcapngFile
from results.errors import CaptureError
from results.files.regular_file import open_regular

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
