"""Errors of recording a run and of reading one.

ResultsError
├── RunFolderError   the folder cannot be made or is not a run
├── CaptureError     a capture file cannot be read
├── TooLargeError    a file has more bytes than any of its kind
├── RecordError      a line of a JSON Lines file is not what its schema says
└── RecordsError     several lines are not, all of them
"""

from pathlib import Path


class ResultsError(Exception):
    """Base of this folder's errors."""


class RunFolderError(ResultsError):
    """A run folder cannot be created, or a path is not one."""


class CaptureError(ResultsError):
    """A file is not a valid capture."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path = path
        super().__init__(f"{path}: {reason}")


class TooLargeError(ResultsError):
    """A file is larger than any of its kind, and is not read."""

    def __init__(self, path: Path, most_bytes: int) -> None:
        self.path = path
        self.reason = f"larger than {most_bytes >> 20:,} MiB, so it is not read"
        super().__init__(f"{path}: {self.reason}")


class RecordError(ResultsError):
    """A record cannot be read; `where` is `file:line`."""

    def __init__(self, where: str, reason: str) -> None:
        self.where = where
        self.reason = reason
        super().__init__(f"{where}: {reason}")


class RecordsError(ResultsError):
    """Records of one file cannot be read; `errors` has all, the text only the first `shown`."""

    def __init__(self, errors: tuple[RecordError, ...], shown: int = 20) -> None:
        self.errors = errors
        more = [f"... and {len(errors) - shown} more"] if len(errors) > shown else []
        super().__init__("\n".join([*map(str, errors[:shown]), *more]))
