"""Keeps errors of writing a run's folder, as on a full disk: the run goes on, and its result states them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from results.errors import RunFolderError
from results.files.user_files import naming, new_file, open_to_change, remove_file
from results.summary import Summary
from scenarios.errors import EnvironmentLackingError
from scenarios.lab.start.capacity import KEPT_BYTES, no_room_for_results

TRUTH_BYTES = 1 << 20
"""Part of the reserved bytes for the truth; the rest is for the summary."""


class FolderIncompleteError(EnvironmentLackingError):
    """A run is over and judged, but its folder is incomplete."""

    def __init__(self, summary: Summary, texts: tuple[str, ...]) -> None:
        self.summary = summary
        head = f"the result is whole, its folder {summary.folder} is not"
        super().__init__("; ".join((head, *texts)))


@dataclass
class Unwritten:
    """Errors of files that do not change the result, each kept once, in order."""

    texts: dict[str, None] = field(default_factory=dict)

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Run the body; an error of a file is kept, and is not raised."""
        try:
            yield
        except OSError as error:
            self.texts[f"{error.filename}: {error.strerror}"] = None
        except RunFolderError as error:
            self.texts[str(error)] = None

    def require_none(self, summary: Summary) -> Summary:
        """Return the summary. Raises `FolderIncompleteError` when an error was kept."""
        if self.texts:
            raise FolderIncompleteError(summary, tuple(self.texts))
        return summary


class KeptRoom:
    """A file that reserves room on a disk for what is written last."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._path = folder, folder / ".room"

    def keep(self) -> None:
        """Reserve the room. Raises `EnvironmentLackingError` when there is not so much, OSError."""
        if lack := no_room_for_results(self._folder):
            raise EnvironmentLackingError(lack)
        with new_file(self._path) as file, naming(self._path):
            os.posix_fallocate(file.fileno(), 0, KEPT_BYTES)

    def give(self, left_bytes: int = 0) -> None:
        """Release the room except `left_bytes`. Raises OSError."""
        with suppress(FileNotFoundError), open_to_change(self._path) as file:
            file.truncate(left_bytes)
            if left_bytes == 0:
                remove_file(self._path)
