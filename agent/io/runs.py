"""Runs of bytes of a ring's rows as memoryviews, cached once that pays: making one costs more than its CRC (measured).

Rows are reused again and again, and most frames have one of few lengths. Knows no frame.
"""

_LENGTHS_KEPT = 4
"""Number of lengths whose runs are cached. Our choice: full packets, SACKs, transport ACKs and one more."""

_Columns = tuple[int, int]


class RowRuns:
    """Cuts the same columns of many rows, as views of the memory."""

    def __init__(self, memory: memoryview, stride: int, first_byte: int, rows: int) -> None:
        """Create a cache for rows of the flat `memory`: row i starts at byte `first_byte + i * stride`."""
        self._memory = memory
        self._stride = stride
        self._first_byte = first_byte
        self._rows = rows
        self._kept: dict[_Columns, list[memoryview]] = {}
        self._asked: dict[_Columns, int] = {}

    def of(self, first: int, stop: int, start: int, end: int) -> list[memoryview]:
        """Return bytes start .. end - 1 of the rows first .. stop - 1."""
        kept = self._kept.get((start, end))
        if kept is not None:
            return kept[first:stop]
        asked = self._asked.get((start, end), 0) + stop - first
        if asked < self._rows:
            self._asked[start, end] = asked
            return self._cut(first, stop, start, end)
        # By now as many were cut as there are rows: at most twice the work is done in any case.
        while len(self._kept) >= _LENGTHS_KEPT:
            del self._kept[next(iter(self._kept))]
        self._asked.clear()
        self._kept[start, end] = self._cut(0, self._rows, start, end)
        return self._kept[start, end][first:stop]

    def _cut(self, first: int, stop: int, start: int, end: int) -> list[memoryview]:
        base, length = self._first_byte + start, end - start
        places = range(base + first * self._stride, base + stop * self._stride, self._stride)
        return [self._memory[place : place + length] for place in places]
