"""Contents of registered memory: a reproducible stream, or its complement where that stream is to be written.

An unwritten byte of a target is the complement of the expected one, so it is always detected as wrong.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_CHUNK_BYTES = 1 << 20  # our choice; a multiple of 8, so that chunks of a PCG64 stream join without a seam


@dataclass(frozen=True, slots=True)
class Verdict:
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


def compare(data: NDArray[np.uint8], seed: int) -> Verdict:
    """Compare all of `data`, (bytes,), byte for byte with the stream of `seed`."""
    wrong, first, base = 0, None, 0
    for part, expected in _parts(data, seed):
        # One memcmp for the usual case that all is right.
        if part.tobytes() != expected.tobytes():
            places = np.flatnonzero(part != expected)
            first = base + int(places[0]) if first is None else first
            wrong += len(places)
        base += len(part)
    return Verdict(len(data), wrong, first)


def _parts(data: NDArray[np.uint8], seed: int) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.uint8]]]:
    stream = np.random.Generator(np.random.PCG64(seed))
    for start in range(0, len(data), _CHUNK_BYTES):
        part = data[start : start + _CHUNK_BYTES]
        yield part, np.frombuffer(stream.bytes(len(part)), np.uint8)
