"""Memory that an engine shares with a program on the same machine: anonymous, so nothing of it is on a filesystem.

The engine makes it and says where (process and descriptor); whoever may look into that process maps it through /proc.
It lives as long as anybody has it mapped. Source: memfd_create(2), proc(5).
"""

import mmap
import os
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class SharedMemory:
    """Both views of it, ours and the number for others."""

    fd: int
    """Descriptor in this process, for others to open; closed by `close`."""
    data: NDArray[np.uint8]
    """(bytes,) zeros at first; stays valid."""

    def close(self) -> None:
        """Let nobody else map it; who has it mapped keeps it."""
        os.close(self.fd)


def make_shared(size: int) -> SharedMemory:
    """`size` bytes, at least 1. Raises OSError when there is no room for them in the address space."""
    fd = os.memfd_create("spraylab-region", os.MFD_CLOEXEC)
    try:
        os.ftruncate(fd, size)
        return SharedMemory(fd, np.frombuffer(mmap.mmap(fd, size), np.uint8))
    except OSError:
        os.close(fd)
        raise


def map_shared(pid: int, fd: int, size: int) -> NDArray[np.uint8]:
    """The same memory seen from another process, (size,). Raises OSError when it is gone or may not be seen."""
    mine = os.open(f"/proc/{pid}/fd/{fd}", os.O_RDWR | os.O_CLOEXEC)
    try:
        if os.fstat(mine).st_size != size:
            raise FileNotFoundError(f"descriptor {fd} of process {pid} is not what it was said to be")
        return np.frombuffer(mmap.mmap(mine, size), np.uint8)
    finally:
        os.close(mine)
