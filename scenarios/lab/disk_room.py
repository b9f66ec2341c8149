"""Whether a file system has room for captures: tcpdump itself does not notice that it has none."""

import errno
import os
from pathlib import Path

from results.summary import size_text
from scenarios.errors import EnvironmentLackingError

LEAST_BYTES = 1 << 20
"""For each file: some thousand packets. Less is not worth a capture (our choice)."""


def disk_free(folder: Path) -> int | None:
    """Bytes that root may still write there; None where the file system does not tell. Raises OSError."""
    found = os.statvfs(folder)
    return found.f_bfree * found.f_frsize if found.f_blocks else None


def require_disk(folder: Path, files: int, most_bytes: int) -> None:
    """Raises `EnvironmentLackingError` when so many files cannot have `LEAST_BYTES` each, or all that is asked for."""
    free, wanted = disk_free(folder), min(most_bytes, files * LEAST_BYTES)
    if free is not None and free < wanted:
        raise EnvironmentLackingError(
            f"{folder}: {os.strerror(errno.ENOSPC)}: {size_text(free)} free, and a capture of {files:,} files takes "
            f"{size_text(wanted)} at least; make room, or write elsewhere"
        )


def full_disk_text(folder: Path) -> str:
    """That a folder's file system has no room left; empty when it has."""
    try:
        free = disk_free(folder)
    except OSError:
        return ""
    if free is None or free >= LEAST_BYTES:
        return ""
    return f"{os.strerror(errno.ENOSPC)}: {size_text(free)} free in {folder}"
