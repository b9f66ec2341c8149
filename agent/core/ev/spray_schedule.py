"""The spray schedule: the EV of each packet as a pure function of the packet's index.

Because the schedule is fixed in advance, a flow's packets per plane can be announced before it is sent. It does not
know whether an EV works; retransmissions do not use schedule positions. MRC 9.3.1.
"""

import numpy as np
from numpy.typing import NDArray

from agent.core.config import SprayPolicy

_BLOCK_PACKETS = 4096
"""Least schedule entries drawn at a time. Our choice: one draw costs about 0.2 ms, 50 ns per entry."""

_CACHED_BLOCKS = 4


class _PlaneGroups:
    """EVs of each plane in one flat table: group g is `flat[first[g]:first[g] + size[g]]`."""

    def __init__(self, planes: NDArray[np.uint8]) -> None:
        self.numbers, self.group_of = np.unique(planes, return_inverse=True)
        self.flat = np.argsort(self.group_of, kind="stable")
        self.size = np.bincount(self.group_of)
        self.first = np.cumsum(self.size) - self.size
        self.place_of = np.empty(len(planes), np.int64)
        self.place_of[self.flat] = np.arange(len(planes)) - np.repeat(self.first, self.size)


class SpraySchedule:
    """EV rows of packet index 0, 1, 2, …, drawn in blocks from (seed, block number)."""

    def __init__(
        self, policy: SprayPolicy, seed: int, planes: NDArray[np.uint8], rotations_per_order: int = 16
    ) -> None:
        self._seed = seed
        self._planes = planes
        self._groups = _PlaneGroups(planes)
        self._rotations = rotations_per_order
        self._policy = policy
        unit = {SprayPolicy.ROTATION: len(planes) * rotations_per_order, SprayPolicy.RANDOM: len(self._groups.size)}
        self._block_packets = -(-_BLOCK_PACKETS // unit[policy]) * unit[policy]
        self._blocks: dict[int, NDArray[np.uint16]] = {}

    def run(self, start: int, count: int) -> NDArray[np.uint16]:
        """Return EV rows of packets start .. start + count - 1, (count,)."""
        number, first = divmod(start, self._block_packets)
        if first + count <= self._block_packets:
            return self._block(number)[first : first + count]
        parts = []
        # One iteration per block of thousands of packets.
        while count > 0:
            parts.append(self._block(number)[first : first + count])
            count -= len(parts[-1])
            number, first = number + 1, 0
        return np.concatenate(parts)

    def evs(self, indices: NDArray[np.int64]) -> NDArray[np.uint16]:
        """Return EV rows of arbitrary packets, (n,)."""
        numbers, firsts = np.divmod(indices, self._block_packets)
        rows = np.empty(len(indices), np.uint16)
        for number in np.unique(numbers):
            here = numbers == number
            rows[here] = self._block(int(number))[firsts[here]]
        return rows

    def count_per_plane(self, start: int, count: int) -> dict[int, int]:
        """Count the packets start .. start + count - 1 per plane."""
        stop = start + count
        whole_start = -(-start // self._block_packets) * self._block_packets
        whole_stop = stop // self._block_packets * self._block_packets
        if whole_stop <= whole_start:
            counts = self._plane_histogram(self.run(start, count))
        else:
            blocks = (whole_stop - whole_start) // self._block_packets
            counts = self._plane_histogram(self.run(start, whole_start - start))
            counts += self._plane_histogram(self.run(whole_stop, stop - whole_stop))
            # Every block holds the same number of packets per plane, whatever was drawn.
            counts += blocks * self._plane_histogram(self._block(whole_start // self._block_packets))
        return dict(zip(self._groups.numbers.tolist(), counts.tolist(), strict=True))

    def last_index_per_plane(self, start: int, count: int) -> dict[int, int]:
        """Return the last of the packets start .. start + count - 1 per plane; planes without packets are absent."""
        found: dict[int, int] = {}
        stop = start + count
        while stop > start and len(found) < len(self._groups.numbers):
            first = max(start, (stop - 1) // self._block_packets * self._block_packets)
            planes = self._planes[self.run(first, stop - first)][::-1]
            for plane, steps in zip(*np.unique(planes, return_index=True), strict=True):
                found.setdefault(int(plane), stop - 1 - int(steps))
            stop = first
        return found

    def _plane_histogram(self, rows: NDArray[np.uint16]) -> NDArray[np.int64]:
        return np.bincount(self._groups.group_of[rows], minlength=len(self._groups.numbers))

    def _block(self, number: int) -> NDArray[np.uint16]:
        block = self._blocks.get(number)
        if block is None:
            draw = self._draw_rotations if self._policy is SprayPolicy.ROTATION else self._draw_random
            block = draw(np.random.default_rng((self._seed, number))).astype(np.uint16)
            while len(self._blocks) >= _CACHED_BLOCKS:
                del self._blocks[next(iter(self._blocks))]
            self._blocks[number] = block
        return block

    def _draw_rotations(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw orders of all EVs, each repeated; planes interleave as evenly as their sizes allow."""
        groups = self._groups
        orders = self._block_packets // (len(self._planes) * self._rotations)
        turn = rng.random((orders, len(groups.size))).argsort(axis=1) / len(groups.size)
        when = np.empty((orders, len(self._planes)))
        for group, (first, size) in enumerate(zip(groups.first, groups.size, strict=True)):
            shuffled = rng.random((orders, size)).argsort(axis=1)
            when[:, groups.flat[first : first + size]] = (shuffled + turn[:, group, None]) / size
        return np.repeat(when.argsort(axis=1), self._rotations, axis=0).ravel()

    def _draw_random(self, rng: np.random.Generator) -> NDArray[np.int64]:
        groups = self._groups
        planes = len(groups.size)
        group = np.tile(rng.permutation(planes), self._block_packets // planes)
        place = (rng.random(self._block_packets) * groups.size[group]).astype(np.int64)
        rows: NDArray[np.int64] = groups.flat[groups.first[group] + place]
        return rows
