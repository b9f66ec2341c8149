"""Mark of a lab's processes: an environment variable that children inherit, so that `down` finds them.

It contains this boot's id, which no one writes by accident.
"""

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
