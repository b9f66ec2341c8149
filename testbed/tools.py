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
    trusted = [folder for folder in given if folder in SYSTEM_FOLDERS or _only_root_changes(Path(folder))]
    return os.pathsep.join(dict.fromkeys([*trusted, *SYSTEM_FOLDERS]))


def clean_environment() -> dict[str, str]:
    """All that a program gets which root runs: no LD_PRELOAD, PYTHONPATH, CPATH or the like; English messages."""
    return {"PATH": tool_path(), "LC_ALL": "C.UTF-8"}


def _only_root_changes(folder: Path) -> bool:
    """Whether a folder and all above it belong to root and nobody else may write into them."""
    if not folder.is_absolute():
        return False
    try:
        found = [place.stat() for place in (folder, *folder.resolve().parents)]
    except OSError:
        return False
    return all(each.st_uid == 0 and not each.st_mode & (stat.S_IWGRP | stat.S_IWOTH) for each in found)
