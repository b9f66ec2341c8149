"""Checks whether a file system has room for captures: tcpdump itself does not notice that it is full."""

import errno
import os
from pathlib import Path

from results.summary import size_text
from scenarios.errors import EnvironmentLackingError

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
