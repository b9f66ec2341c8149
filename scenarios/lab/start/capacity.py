"""Checks whether this machine has memory for a fabric and its data, and disks room for a lab and its results."""

import errno
import os
from fractions import Fraction
from pathlib import Path

from results.summary import size_text
from scenarios.errors import EnvironmentLackingError
from testbed.model.fabric import FabricSpec

MEMORY_SHARE = Fraction(1, 2)
"""Share of the free memory that a run's data may take (our choice)."""

ALL_SHARE = Fraction(9, 10)
"""Share of it that data and fabric may take together (our choice)."""

NAMESPACE_BYTES = 256 << 10
"""Memory of a namespace with its routes: 0.22 to 0.25 MiB measured on kernel 6.18, fabrics of 48 to 129 nodes."""

LINK_BYTES = 96 << 10
"""Memory of a veth pair with its addresses and neighbours: 70 to 90 KiB measured there, 128 to 544 links."""

PROCESS_BYTES = 80 << 20
"""Memory of the owner, of each SprayCheck process and of each engine worker: 55 to 80 MiB measured, without data."""


def require_room(wanted_bytes: int, what: str) -> None:
    """Check the memory. Raises `EnvironmentLackingError` when `what` takes more than half of the free memory."""
    if lack := no_room(wanted_bytes, what):
        raise EnvironmentLackingError(lack)


def no_room(wanted_bytes: int, what: str) -> str:
    """State that `what` takes more than half of the free memory; empty when it does not."""
    most = int(free_bytes() * MEMORY_SHARE)
    if wanted_bytes <= most:
        return ""
    return f"{what} takes {wanted_bytes >> 20:,} MiB, more than half of the free memory ({most >> 20:,} MiB)"


def no_room_for_fabric(spec: FabricSpec, processes: int, data_bytes: int = 0) -> str:
    """State that a lab of this fabric and this many agents' processes does not fit beside `data_bytes`; empty if it
    does.

    Agents' processes are the engine workers, and where every leaf has a SprayCheck process, those.
    """
    fabric, most = lab_bytes(spec, processes), int(free_bytes() * ALL_SHARE)
    if fabric + data_bytes <= most:
        return ""
    beside = f" beside {data_bytes >> 20:,} MiB of data" if data_bytes else ""
    nodes, links = _counts(spec)
    return (
        f"a fabric of {nodes:,} nodes and {links:,} links takes about {fabric >> 20:,} MiB (estimated){beside}, and "
        f"{most >> 20:,} MiB are free for it; ask for fewer leaves, spines or planes"
    )


def lab_bytes(spec: FabricSpec, processes: int) -> int:
    """Estimate the memory of a lab before it carries data: namespaces, links, the hosts' packet rings, processes."""
    from agent.host.settings import RX_SLOTS, TX_SLOTS  # these load numpy, which captures need not
    from agent.io.packet_ring import rings_bytes

    nodes, links = _counts(spec)
    ports = spec.leaves * spec.hosts_per_leaf * spec.planes
    rings = ports * rings_bytes(RX_SLOTS, TX_SLOTS)
    return nodes * NAMESPACE_BYTES + links * LINK_BYTES + rings + (2 + processes) * PROCESS_BYTES


def _counts(spec: FabricSpec) -> tuple[int, int]:
    """Return the number of nodes and links."""
    hosts = spec.leaves * spec.hosts_per_leaf
    return hosts + spec.planes * (spec.leaves + spec.spines), spec.planes * (spec.leaves * spec.spines + hosts)


def free_bytes() -> int:
    """Return the memory that the kernel can give without swapping (MemAvailable)."""
    fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return int(fields["MemAvailable"].split()[0]) << 10


LEAST_BYTES = 1 << 20
"""Least bytes per capture file: some thousand packets. Less is not worth a capture (our choice)."""


LAB_BYTES = 4 << 20
"""Bytes for eBPF programs, logs, settings and the first records of a lab; some hundred kB when it is up (our
choice).
"""

KEPT_BYTES = 4 << 20
"""Bytes reserved on a run's disk from its start: captures and events must not use what truth and summary need (our
choice).
"""


def disk_free(folder: Path) -> int | None:
    """Return bytes that root may still write there; None where the file system does not report it. Raises OSError."""
    found = os.statvfs(folder)
    return found.f_bfree * found.f_frsize if found.f_blocks else None


def no_room_for_lab(root: Path) -> str | None:
    """State that a lab's own files, in a folder that need not exist yet, have no room; None where they have."""
    place = next(each for each in (root, *root.parents) if each.exists())
    free = disk_free(place)
    if free is None or free >= LAB_BYTES:
        return None
    return (
        f"{place}: {os.strerror(errno.ENOSPC)}: {size_text(free)} free, and a lab takes {size_text(LAB_BYTES)} at least"
    )


def no_room_for_results(folder: Path) -> str | None:
    """State that a disk lacks the room that a run keeps for its results; None where it has it. Raises OSError."""
    free = disk_free(folder)
    if free is None or free >= KEPT_BYTES:
        return None
    needed = f"a run keeps {size_text(KEPT_BYTES)} for its results; make room, or write elsewhere"
    return f"{folder}: {os.strerror(errno.ENOSPC)}: {size_text(free)} free, and {needed}"


def no_room_for_captures(folder: Path, files: int, most_bytes: int, kept_bytes: int = 0) -> str | None:
    """State that this many files cannot have `LEAST_BYTES` each, or the requested size, beside what else is kept
    there.

    None where they can. Raises OSError.
    """
    free, wanted = disk_free(folder), min(most_bytes, files * LEAST_BYTES)
    if not files or free is None or free >= wanted + kept_bytes:
        return None
    beside = f", beside {size_text(kept_bytes)} for the results" if kept_bytes else ""
    return (
        f"{folder}: {os.strerror(errno.ENOSPC)}: {size_text(free)} free, and a capture of {files:,} files takes "
        f"{size_text(wanted)} at least{beside}; make room, or write elsewhere"
    )


def require_disk(folder: Path, files: int, most_bytes: int) -> None:
    """Check the room. Raises `EnvironmentLackingError` where `no_room_for_captures`."""
    if lack := no_room_for_captures(folder, files, most_bytes):
        raise EnvironmentLackingError(lack)


def full_disk_text(folder: Path) -> str:
    """State that a folder's file system is full; empty when it is not."""
    try:
        free = disk_free(folder)
    except OSError:
        return ""
    if free is None or free >= LEAST_BYTES:
        return ""
    return f"{os.strerror(errno.ENOSPC)}: {size_text(free)} free in {folder}"
