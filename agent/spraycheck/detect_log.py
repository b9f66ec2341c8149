"""detect.jsonl, appended to: one write a line, so that several processes may append and no reader sees half a line."""

import errno
import os
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec


class DetectLog:
    """An append-only file of JSON lines. Opened by `with`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None

    def __enter__(self) -> Self:
        """Open the file, made if it is not there. Raises OSError."""
        self._fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close the file."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def append(self, record: msgspec.Struct) -> None:
        """Write one record as one line. Raises OSError, also when it could not be written whole (no space left)."""
        if self._fd is None:
            raise ValueError(f"{self._path} is not open")
        line = msgspec.json.encode(record) + b"\n"
        try:
            written = os.write(self._fd, line)
        except OSError as error:  # a write does not say where
            raise OSError(error.errno, error.strerror, str(self._path)) from error
        if written != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
