"""Environment of programs that run as root: where they are looked up, and the mark of a lab's processes for `down`.

Nothing that a user may have placed is used: a folder of PATH counts if only root can change its contents; the folders
that sudo itself searches always count. The mark is an environment variable that children inherit; it contains this
boot's id, which no one writes by accident.
"""

import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path

MARK = "SPRAYLAB_MARK"
"""Environment variable that carries the lab's name and the boot's id."""

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
"""Boot id of random(4): it changes at every boot, so no mark can be of an earlier one."""


def mark_of(lab: str) -> str:
    """Return the variable's value for a lab."""
    return f"{lab}:{_BOOT_ID.read_text().strip()}"


def marked_environment(lab: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment that marks a process, and all it starts, as the lab's."""
    return dict(environment) | {MARK: mark_of(lab)}


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
