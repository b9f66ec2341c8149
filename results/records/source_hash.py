"""Identifies the code that made a run: its folder, and a hash of its source files.

Two runs with the same hash ran the same code, wherever it was.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from agent.wire.record_ranges import Name, Text

_SOURCES = (".py", ".c", ".h", ".j2", ".yaml")
"""Files that decide what a program does; compiled Python files follow from these."""


class SourceCode(msgspec.Struct, frozen=True):
    """One copy of the program."""

    folder: Text
    sha256: Name
    """Hash of the names and contents of all source files, in the order of names."""


def source_code(folder: Path, packages: Sequence[str]) -> SourceCode:
    """Read the source files of `packages` in `folder`. Takes about 10 ms. Raises OSError."""
    found = hashlib.sha256()
    for file in sorted(file for name in packages for file in (folder / name).rglob("*") if file.suffix in _SOURCES):
        content = file.read_bytes()
        found.update(f"{file.relative_to(folder)}\0{len(content)}\0".encode())
        found.update(content)
    return SourceCode(str(folder), found.hexdigest())
