"""Packet sequence numbers: 24 bits on the wire, unwrapped 64-bit offsets everywhere else, and rings of offsets.

Offset 0 is a queue pair's starting PSN, so offsets only grow and are compared as plain integers. Serial
arithmetic is modulo 2^24 with the half-space rule, as in RoCE. A ring is indexed by `offset & mask`; its length is a
power of two not below the window it serves, so two live offsets never share a slot.
"""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from agent.wire.constants import PSN_BITS, PSN_MASK

T = TypeVar("T", bound=np.generic)

_MASK = np.array(PSN_MASK, np.int64)

HALF_SPACE = 1 << (PSN_BITS - 1)
"""Distance from which a PSN ahead counts as older (half-space rule)."""


def psn_of(offset: int, start_psn: int) -> int:
    """Return the 24-bit PSN of one offset."""
    return (start_psn + offset) & PSN_MASK


def psns_of(offsets: NDArray[np.int64], start_psn: int) -> NDArray[np.uint32]:
    """Return the 24-bit PSNs of (n,) offsets."""
    return (offsets + start_psn & _MASK).astype(np.uint32)


def offsets_of(psns: NDArray[np.uint32], start_psn: int, reference: int) -> NDArray[np.int64]:
    """Return the (n,) offsets with these PSNs that are nearest to `reference`.

    They lie in reference - 2^23 .. reference + 2^23 - 1.
    """
    lowest = reference - HALF_SPACE
    offsets: NDArray[np.int64] = (psns.astype(np.int64) - (start_psn + lowest) & _MASK) + lowest
    return offsets


def offset_of(psn: int, start_psn: int, reference: int) -> int:
    """Return the offset with this PSN that is nearest to `reference`, as `offsets_of` does."""
    lowest = reference - HALF_SPACE
    return (psn - start_psn - lowest & PSN_MASK) + lowest


def ring_size(window_psns: int) -> int:
    """Return the least power of two that holds a window, at least 64."""
    return max(64, 1 << (window_psns - 1).bit_length())


def read_run(ring: NDArray[T], start: int, stop: int) -> NDArray[T]:
    """Read slots of offsets start .. stop - 1, (stop - start,): a view where they are contiguous, else a copy."""
    size = len(ring)
    first = start & (size - 1)
    last = first + stop - start
    if last <= size:
        return ring[first:last]
    return np.concatenate((ring[first:], ring[: last - size]))


def write_run(ring: NDArray[T], start: int, stop: int, values: NDArray[T] | int) -> None:
    """Set the slots of offsets start .. stop - 1 to (stop - start,) values, or all to one number."""
    size = len(ring)
    first = start & (size - 1)
    last = first + stop - start
    if last <= size:
        ring[first:last] = values
        return
    head = size - first
    if isinstance(values, int):
        ring[first:] = values
        ring[: last - size] = values
    else:
        ring[first:] = values[:head]
        ring[: last - size] = values[head:]
