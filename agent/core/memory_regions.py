"""Registered memory: the bytes that a remote key opens, and placing payloads there in any order.

Of a packet it knows only (rkey, va, length). MRC API: each packet is checked against its region.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agent.core.errors import RegionError
from agent.wire.array.columns import FEW_ROWS, alike, rows_at, scatter_rows


@dataclass(frozen=True, slots=True, eq=False)
class MemoryRegion:
    """A registered memory region: `data` has addresses `va` .. `va + len(data) - 1` under the key `rkey`."""

    va: int
    """First virtual address, 64 bits."""

    rkey: int
    """Remote key, 32 bits."""

    data: NDArray[np.uint8]
    """(bytes,) flat and contiguous; writable if peers may write to it."""

    def __post_init__(self) -> None:
        """Raise RegionError unless the numbers fit the wire format and the memory is one contiguous run of bytes."""
        if self.data.ndim != 1 or self.data.dtype != np.uint8 or not self.data.flags.c_contiguous:
            raise RegionError("a region's data must be a flat contiguous array of uint8")
        if not 0 <= self.va <= 2**63 - 1 - len(self.data) or not 0 <= self.rkey < 2**32:
            raise RegionError(f"va {self.va:#x} or rkey {self.rkey:#x} out of range")


class RegionTable:
    """The regions of one host, by key; its queue pairs share the table."""

    def __init__(self) -> None:
        self._regions: dict[int, MemoryRegion] = {}

    def __iter__(self) -> Iterator[MemoryRegion]:
        """Iterate over the registered regions, oldest first."""
        return iter(self._regions.values())

    def __contains__(self, rkey: object) -> bool:
        """Report whether a key is registered."""
        return rkey in self._regions

    def register(self, region: MemoryRegion) -> None:
        """Register `region` under its key. Raises RegionError if the key is taken."""
        if region.rkey in self._regions:
            raise RegionError(f"rkey {region.rkey:#x} is already registered")
        self._regions[region.rkey] = region

    def deregister(self, rkey: int) -> None:
        """Remove a key. Raises RegionError if it is not registered."""
        if self._regions.pop(rkey, None) is None:
            raise RegionError(f"rkey {rkey:#x} is not registered")

    def lookup(self, rkey: int) -> MemoryRegion:
        """Return the region of a key. Raises RegionError if it is not registered."""
        region = self._regions.get(rkey)
        if region is None:
            raise RegionError(f"rkey {rkey:#x} is not registered")
        return region

    def place(
        self,
        rkeys: NDArray[np.uint32],
        vas: NDArray[np.uint64],
        lengths: NDArray[np.uint32],
        memory: NDArray[np.uint8],
        offsets: NDArray[np.int64],
    ) -> NDArray[np.bool_]:
        """Copy `memory[offsets[i]:][:lengths[i]]` to `vas[i]` under `rkeys[i]`; (n,) False where that is not allowed.

        The four arrays are (n,), `memory` is flat; the caller guarantees that the bytes it reads exist. A refused row
        writes nothing.
        """
        if alike(rkeys):
            return self._place_one(int(rkeys[0]), vas, lengths, memory, offsets)
        placed = np.zeros(len(rkeys), np.bool_)
        # One iteration per region, not per packet: a batch rarely holds more than one key.
        for rkey in np.unique(rkeys).tolist():
            rows = (rkeys == rkey).nonzero()[0]
            placed[rows] = self._place_one(rkey, vas[rows], lengths[rows], memory, offsets[rows])
        return placed

    def _place_one(
        self,
        rkey: int,
        vas: NDArray[np.uint64],
        lengths: NDArray[np.uint32],
        memory: NDArray[np.uint8],
        offsets: NDArray[np.int64],
    ) -> NDArray[np.bool_]:
        region = self._regions.get(rkey)
        if region is None or not region.data.flags.writeable:
            return np.zeros(len(vas), np.bool_)
        # As uint64, an address below the region wraps to a huge offset, so one comparison checks both ends.
        distance = vas - np.uint64(region.va)
        targets, size = distance.view(np.int64), len(region.data)
        if alike(lengths) and lengths[0] <= size:
            inside = distance <= np.uint64(size - int(lengths[0]))
        else:
            inside = (targets >= 0) & (targets <= size - lengths.astype(np.int64))
        placed = np.count_nonzero(inside)
        if placed == len(inside):
            _copy_rows(memory, offsets, region.data, targets, lengths)
        elif placed:
            _copy_rows(memory, offsets[inside], region.data, targets[inside], lengths[inside])
        return inside


def _copy_rows(
    source: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    target: NDArray[np.uint8],
    targets: NDArray[np.int64],
    lengths: NDArray[np.uint32],
) -> None:
    """Copy all rows of the greatest length at once; the others, last packets of their messages, one by one."""
    if len(lengths) <= FEW_ROWS:
        _copy_each(source, offsets, target, targets, lengths)
        return
    if alike(lengths):
        _copy_equal_rows(source, offsets, target, targets, int(lengths[0]))
        return
    width = int(np.maximum.reduce(lengths))
    full = lengths == width
    _copy_equal_rows(source, offsets[full], target, targets[full], width)
    short = ~full
    _copy_each(source, offsets[short], target, targets[short], lengths[short])


def _copy_each(
    source: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    target: NDArray[np.uint8],
    targets: NDArray[np.int64],
    lengths: NDArray[np.uint32],
) -> None:
    """Copy row by row; used only for the few rows of another length."""
    for start, end, length in zip(offsets.tolist(), targets.tolist(), lengths.tolist(), strict=True):
        target[end : end + length] = source[start : start + length]


def _copy_equal_rows(
    source: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    target: NDArray[np.uint8],
    targets: NDArray[np.int64],
    width: int,
) -> None:
    if width:
        scatter_rows(rows_at(source, offsets, width), target, targets)
