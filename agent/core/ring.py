"""Rings indexed by `offset & mask`: reading and writing runs of consecutive offsets.

A ring's length is a power of two not below the window it serves, so two live offsets never share a slot.
"""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T", bound=np.generic)


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
