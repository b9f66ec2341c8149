"""Where programs are looked up that run as root, and the environment they get: nothing a user may have placed.

A folder of PATH counts if only root can change what it holds; the folders that sudo itself searches always do.
"""

import os
import shutil
import stat
from pathlib import Path

SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
"""`secure_path` of sudo on Debian and Ubuntu; so programs in sbin are found by a PATH without it, too."""


def find_tool(name: str) -> str | None:
    """The file of a program; None where it is not installed."""
    return shutil.which(name, path=tool_path())


def tool_path() -> str:
    """A PATH for programs that root runs: what of the caller's PATH only root can change, then `SYSTEM_FOLDERS`."""
    given = os.environ.get("PATH", "").split(os.pathsep)
    trusted = [_trusted(folder) for folder in given]
    return os.pathsep.join(dict.fromkeys([*(folder for folder in trusted if folder), *SYSTEM_FOLDERS]))


def clean_environment() -> dict[str, str]:
    """All that a program gets which root runs: no LD_PRELOAD, PYTHONPATH, CPATH or the like; English messages."""
    return {"PATH": tool_path(), "LC_ALL": "C.UTF-8"}


def _trusted(folder: str) -> str | None:
    """A folder of PATH that only root can change, without links: whoever owns a link could turn it later."""
    if folder in SYSTEM_FOLDERS:
        return folder
    if not Path(folder).is_absolute():
        return None
    try:
        place = Path(folder).resolve(strict=True)
        found = [each.stat() for each in (place, *place.parents)]
    except (OSError, RuntimeError):  # a circle of links is a RuntimeError until Python 3.12
        return None
    only_root = all(each.st_uid == 0 and not each.st_mode & (stat.S_IWGRP | stat.S_IWOTH) for each in found)
    return str(place) if only_root and place.is_dir() else None
