"""Decides what a command may overwrite: files that it wrote itself, and nothing through a symbolic link."""

from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from results.files.user_files import open_regular
from scenarios.errors import UsageError


def require_own(
    target: Path, what: str, is_own: Callable[[BinaryIO], bool], instead: str = "name another file"
) -> None:
    """Refuse to replace an existing file that is not `what`, judged by its content.

    `instead` is what to do other than remove it. Raises `UsageError`; OSError for what is no regular file.
    """
    require_no_link(target, instead)
    try:
        with open_regular(target) as file:
            own = is_own(file)
    except FileNotFoundError:
        return
    if not own:
        raise UsageError(f"{target} exists and is no {what}; {instead}, or remove it")


def require_no_link(target: Path, instead: str) -> None:
    """Refuse a symbolic link: its target is not ours, and may be anywhere. Raises `UsageError`."""
    if target.is_symlink():
        raise UsageError(f"{target} exists and is a symbolic link (to {target.readlink()}); {instead}, or remove it")


def resolved_folder(target: Path) -> Path:
    """Return the same file with its resolved folder, so that a changed link has no effect when the file is written."""
    return target.parent.resolve() / target.name


def holding(mark: str) -> Callable[[BinaryIO], bool]:
    """Return whether a file contains `mark`."""
    return lambda file: mark.encode() in file.read()


def starting(*starts: bytes) -> Callable[[BinaryIO], bool]:
    """Return whether a file starts with one of `starts`, or is empty, as a full disk leaves it."""
    return lambda file: (start := file.read(max(map(len, starts)))) == b"" or start.startswith(starts)
