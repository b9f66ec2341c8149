"""JSON Lines of any age and length, line by line: what cannot be read is counted, not raised."""

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from results.regular_file import open_regular
from results.wording import count_text

T = TypeVar("T")


class Lines:
    """The lines of a file as records of one type; fields that the type does not name are left aside."""

    def __init__(self, path: Path, problems: list[str]) -> None:
        self._path = path
        self._problems = problems
        self.found = 0
        """Records read so far."""
        self.is_whole = False
        """Whether the file could be read and every line was a record; known once all were read."""

    @property
    def name(self) -> str:
        """Of the file."""
        return self._path.name

    def of_type(self, kind: type[T]) -> Iterator[T]:
        """Records in the order of the file; a file that is not there has none, and is told of."""
        try:
            file = open_regular(self._path)
        except OSError as error:
            self._problems.append(f"{self._path.name}: {error.strerror}")
            return
        decode, bad, first = msgspec.json.Decoder(kind).decode, 0, ""
        with file:
            for text in file:
                try:
                    record = decode(text)
                except msgspec.MsgspecError as error:
                    bad += 1
                    first = first or str(error)
                    continue
                self.found += 1
                yield record
        self.is_whole = not bad
        if bad:
            self._problems.append(f"{self._path.name}: {count_text(bad, 'line')} cannot be read (the first: {first})")
