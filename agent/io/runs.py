"""Runs of bytes of a ring's rows as memoryviews, kept once they pay: cutting one costs more than its CRC (measured).

Rows are filled with frames again and again, and most frames are of few lengths. Knows no frame.
"""

_LENGTHS_KEPT = 4
"""Runs of so many different lengths are kept. Our choice: full packets, SACKs, transport ACKs and one more."""

_Columns = tuple[int, int]


class RowRuns:
    """Cuts the same columns of many rows; views of the memory, whatever it holds."""

    def __init__(self, memory: memoryview, stride: int, first_byte: int, rows: int) -> None:
        """Row i begins at byte `first_byte + i * stride` of the flat `memory`."""
        self._memory = memory
        self._stride = stride
        self._first_byte = first_byte
        self._rows = rows
        self._kept: dict[_Columns, list[memoryview]] = {}
        self._asked: dict[_Columns, int] = {}

    def of(self, first: int, stop: int, start: int, end: int) -> list[memoryview]:
        """Bytes start .. end - 1 of the rows first .. stop - 1."""
        kept = self._kept.get((start, end))
        if kept is not None:
            return kept[first:stop]
        asked = self._asked.get((start, end), 0) + stop - first
        if asked < self._rows:
            self._asked[start, end] = asked
            return self._cut(first, stop, start, end)
        # By now as many were cut as there are: whatever comes, no more than twice the work is done.
        while len(self._kept) >= _LENGTHS_KEPT:
            del self._kept[next(iter(self._kept))]
        self._asked.clear()
        self._kept[start, end] = self._cut(0, self._rows, start, end)
        return self._kept[start, end][first:stop]

    def _cut(self, first: int, stop: int, start: int, end: int) -> list[memoryview]:
        base, length = self._first_byte + start, end - start
        places = range(base + first * self._stride, base + stop * self._stride, self._stride)
        return [self._memory[place : place + length] for place in places]
