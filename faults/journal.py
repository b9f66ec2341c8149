"""Records what was done to the fabric, one JSON line per act, written before the act: after a crash it shows what
may remain.

One process writes it, any may read it. It does not undo anything.
"""

import os
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

Act = Literal["applying", "in-force", "cleared"]


class JournalLine(Struct, frozen=True, kw_only=True):
    """One act on one directed link."""

    ts: str
    act: Act
    link: str
    kind: str
    name: str
    """Name that distinguishes the faults of one link."""
    requested: str
    mechanism: str
    namespace: str
    interface: str


class Journal:
    """An append-only file, opened for each line: faults change rarely, and no descriptor can be inherited."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, *lines: JournalLine) -> None:
        """Append lines and sync them to disk, which takes milliseconds. Raises OSError."""
        fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.write(fd, b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
            os.fsync(fd)
        except OSError as error:  # a write does not say where
            raise OSError(error.errno, error.strerror, str(self.path)) from error
        finally:
            os.close(fd)


def outstanding(path: Path) -> tuple[JournalLine, ...]:
    """Return the last line of every fault that was not cleared, by link and name; a line cut short by a crash is
    ignored.
    """
    last: dict[tuple[str, str], JournalLine] = {}
    for text in path.read_bytes().splitlines() if path.exists() else ():
        try:
            line = msgspec.json.decode(text, type=JournalLine)
        except msgspec.DecodeError:
            continue
        last[line.link, line.name] = line
    return tuple(line for _, line in sorted(last.items()) if line.act != "cleared")
