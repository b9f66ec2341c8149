"""Registered memory: private to the engine or shared with a program, and its contents.

Private memory returns to the kernel when its last view is deleted, whatever its size. The C library would keep freed
pieces of up to 32 MiB, so an engine would look as large as its largest run. Sources: malloc(3) and mallopt(3),
M_MMAP_THRESHOLD; madvise(2).

Shared memory is anonymous, so no file system holds it. The engine makes it and reports process and descriptor; a
process that may access the engine's /proc entry maps it. It exists while any process has it mapped. Sources:
memfd_create(2), proc(5).

Contents are a reproducible stream, or its complement where that stream is to be written: an unwritten byte of a target
is then always detected as wrong.
"""

import mmap
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

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


_CHUNK_BYTES = 1 << 20  # our choice; a multiple of 8, so that chunks of a PCG64 stream join without a seam


@dataclass(frozen=True, slots=True)
class Comparison:
    """Result of comparing a region with the stream it should hold."""

    bytes: int
    wrong: int
    """Number of bytes that differ."""
    first_wrong: int | None
    """Offset of the first byte that differs."""


def fill_stream(data: NDArray[np.uint8], seed: int) -> None:
    """Fill `data`, (bytes,), with the stream of `seed`."""
    for part, expected in _parts(data, seed):
        part[:] = expected


def fill_complement(data: NDArray[np.uint8], seed: int) -> None:
    """Fill `data`, (bytes,), with the complement of the stream of `seed`: every byte differs."""
    for part, expected in _parts(data, seed):
        np.invert(expected, out=part)


def compare_with_stream(data: NDArray[np.uint8], seed: int) -> Comparison:
    """Compare all of `data`, (bytes,), byte for byte with the stream of `seed`."""
    wrong, first, base = 0, None, 0
    for part, expected in _parts(data, seed):
        # One memcmp for the usual case that all is right.
        if part.tobytes() != expected.tobytes():
            places = np.flatnonzero(part != expected)
            first = base + int(places[0]) if first is None else first
            wrong += len(places)
        base += len(part)
    return Comparison(len(data), wrong, first)


def _parts(data: NDArray[np.uint8], seed: int) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.uint8]]]:
    stream = np.random.Generator(np.random.PCG64(seed))
    for start in range(0, len(data), _CHUNK_BYTES):
        part = data[start : start + _CHUNK_BYTES]
        yield part, np.frombuffer(stream.bytes(len(part)), np.uint8)
