"""Memory that an engine shares with a program on the same machine: anonymous, so no file system holds it.

The engine makes it and reports process and descriptor; a process that may access the engine's /proc entry maps it. It
exists while any process has it mapped. Source: memfd_create(2), proc(5).
"""

import mmap
import os
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class SharedMemory:
    """Shared memory: our view, and the descriptor for others."""

    fd: int
    """Descriptor in this process, for others to open; closed by `close`."""
    data: NDArray[np.uint8]
    """(bytes,) zeros at first; stays valid after `close`."""

    def close(self) -> None:
        """Stop further mapping; existing mappings stay."""
        os.close(self.fd)


def make_shared(size: int) -> SharedMemory:
    """Make shared memory of `size` bytes, at least 1. Raises OSError when the address space has no room."""
    fd = os.memfd_create("spraylab-region", os.MFD_CLOEXEC)
    try:
        os.ftruncate(fd, size)
        return SharedMemory(fd, np.frombuffer(mmap.mmap(fd, size), np.uint8))
    except OSError:
        os.close(fd)
        raise


def map_shared(pid: int, fd: int, size: int) -> NDArray[np.uint8]:
    """Map the memory of another process, (size,). Raises OSError when it is gone or access is denied."""
    mine = os.open(f"/proc/{pid}/fd/{fd}", os.O_RDWR | os.O_CLOEXEC)
    try:
        if os.fstat(mine).st_size != size:
            raise FileNotFoundError(f"descriptor {fd} of process {pid} is not what it was said to be")
        return np.frombuffer(mmap.mmap(mine, size), np.uint8)
    finally:
        os.close(mine)
