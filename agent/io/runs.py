"""Runs of bytes of a ring's rows as memoryviews, each cut once: cutting one costs more than its CRC (measured).

Rows are filled with frames again and again, and most frames are of few lengths. Knows no frame.
"""

_LENGTHS_KEPT = 4
"""Runs of so many different lengths are kept. Our choice: full packets, SACKs, transport ACKs and one more."""


class RowRuns:
    """Cuts the same columns of many rows; views of the memory, whatever it holds."""

    def __init__(self, memory: memoryview, stride: int, first_byte: int, rows: int) -> None:
        """Row i begins at byte `first_byte + i * stride` of the flat `memory`."""
        self._memory = memory
        self._stride = stride
        self._first_byte = first_byte
        self._rows = rows
        self._cut: dict[tuple[int, int], list[memoryview]] = {}

    def of(self, first: int, stop: int, start: int, end: int) -> list[memoryview]:
        """Bytes start .. end - 1 of the rows first .. stop - 1."""
        cut = self._cut.get((start, end))
        if cut is None:
            cut = self._cut_all(start, end)
        return cut[first:stop]

    def _cut_all(self, start: int, end: int) -> list[memoryview]:
        while len(self._cut) >= _LENGTHS_KEPT:
            del self._cut[next(iter(self._cut))]
        base, length = self._first_byte + start, end - start
        places = range(base, base + self._rows * self._stride, self._stride)
        cut = [self._memory[place : place + length] for place in places]
        self._cut[start, end] = cut
        return cut
