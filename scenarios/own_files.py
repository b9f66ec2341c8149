"""What a command may write over: files that it wrote itself, and nothing at the end of a symbolic link."""

from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from results.files.regular_file import open_regular
from scenarios.errors import UsageError


def require_own(
    target: Path, what: str, is_own: Callable[[BinaryIO], bool], instead: str = "name another file"
) -> None:
    """Refuse to take the place of what is there already and is not `what`, as its content tells.

    `instead` is what to do other than remove it. Raises `UsageError`; OSError for what is no regular file.
    """
    require_no_link(target, instead)
    try:
        with open_regular(target) as file:
            own = is_own(file)
    except FileNotFoundError:
        return
    if not own:
        raise UsageError(f"{target} is there, and no {what}; {instead}, or remove it")


def require_no_link(target: Path, instead: str) -> None:
    """Raises `UsageError` for a symbolic link: what it leads to is not ours, and may be anywhere."""
    if target.is_symlink():
        raise UsageError(f"{target} is there, and a symbolic link (to {target.readlink()}); {instead}, or remove it")


def resolved_folder(target: Path) -> Path:
    """The same file, its folder by its own name: what a folder led to is not asked again when the file is written."""
    return target.parent.resolve() / target.name


def holding(mark: str) -> Callable[[BinaryIO], bool]:
    """Whether a file holds `mark`."""
    return lambda file: mark.encode() in file.read()


def starting(*starts: bytes) -> Callable[[BinaryIO], bool]:
    """Whether a file starts with one of `starts`, or is empty, as a full disk leaves it."""
    return lambda file: (start := file.read(max(map(len, starts)))) == b"" or start.startswith(starts)
