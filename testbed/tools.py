"""Lookup and environment of programs that run as root: they use nothing that a user may have placed.

A folder of PATH counts if only root can change its contents; the folders that sudo itself searches always count.
"""

import os
import shutil
import stat
from pathlib import Path

SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
"""`secure_path` of sudo on Debian and Ubuntu; so programs in sbin are found even if PATH lacks it."""


def find_tool(name: str) -> str | None:
    """Return the file of a program; None if it is not installed."""
    return shutil.which(name, path=tool_path())


def tool_path() -> str:
    """Return a PATH for programs that root runs.

    Folders of the caller's PATH that only root can change, then `SYSTEM_FOLDERS`.
    """
    given = os.environ.get("PATH", "").split(os.pathsep)
    trusted = [_trusted(folder) for folder in given]
    return os.pathsep.join(dict.fromkeys([*(folder for folder in trusted if folder), *SYSTEM_FOLDERS]))


def clean_environment() -> dict[str, str]:
    """Return the environment of programs that root runs: no LD_PRELOAD, PYTHONPATH, CPATH or the like.

    English messages.
    """
    return {"PATH": tool_path(), "LC_ALL": "C.UTF-8"}


def _trusted(folder: str) -> str | None:
    """Resolve a folder of PATH that only root can change, without links.

    The owner of a link could redirect it later.
    """
    if folder in SYSTEM_FOLDERS:
        return folder
    if not Path(folder).is_absolute():
        return None
    try:
        place = Path(folder).resolve(strict=True)
        found = [each.stat() for each in (place, *place.parents)]
    except (OSError, RuntimeError):  # a circle of links is a RuntimeError before Python 3.12
        return None
    only_root = all(each.st_uid == 0 and not each.st_mode & (stat.S_IWGRP | stat.S_IWOTH) for each in found)
    return str(place) if only_root and place.is_dir() else None
