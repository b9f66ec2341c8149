"""The mark of a lab's processes: an environment variable, so children inherit it and `down` finds them again.

It holds this boot's id, which nobody writes by accident.
"""

from collections.abc import Mapping
from pathlib import Path

MARK = "SPRAYLAB_MARK"
"""Environment variable that carries the lab's name and the boot's id."""

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
"""Of random(4): made anew at every boot, so that no mark can be of an earlier one."""


def mark_of(lab: str) -> str:
    """The variable's value for a lab."""
    return f"{lab}:{_BOOT_ID.read_text().strip()}"


def marked_environment(lab: str, environment: Mapping[str, str]) -> dict[str, str]:
    """An environment that marks a process, and all it starts, as the lab's."""
    return dict(environment) | {MARK: mark_of(lab)}
