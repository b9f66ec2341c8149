"""Memory of an engine's own that goes back to the kernel when the last view of it goes, whatever its size.

The C library keeps what it once handed out, in pieces of up to 32 MiB, for its next caller: an engine would look as
large as the largest run that it ever served. Sources: malloc(3) and mallopt(3), M_MMAP_THRESHOLD; madvise(2).
"""

import mmap
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

_HUGE_FROM_BYTES = 4 << 20
"""From here on pages of 2 MiB are asked for, as numpy does for arrays of its own."""


def make_private(size: int) -> NDArray[np.uint8]:
    """`size` bytes, at least 1: (size,) zeros. Raises OSError when there is no room for them in the address space."""
    mapping = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if size >= _HUGE_FROM_BYTES:
        with suppress(OSError):  # a kernel without them
            mapping.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(mapping, np.uint8)
