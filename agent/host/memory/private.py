"""Memory of an engine that returns to the kernel when its last view is deleted, whatever its size.

The C library keeps freed pieces of up to 32 MiB for later use: an engine would look as large as its largest run.
Sources: malloc(3) and mallopt(3), M_MMAP_THRESHOLD; madvise(2).
"""

import mmap
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

_HUGE_FROM_BYTES = 4 << 20
"""Size from which pages of 2 MiB are requested, as numpy does for its arrays."""


def make_private(size: int) -> NDArray[np.uint8]:
    """Allocate `size` bytes, at least 1: (size,) zeros. Raises OSError when the address space has no room."""
    mapping = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if size >= _HUGE_FROM_BYTES:
        with suppress(OSError):  # a kernel without huge pages
            mapping.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(mapping, np.uint8)
