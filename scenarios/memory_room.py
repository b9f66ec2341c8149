"""Whether this machine has room for the data that agents are asked to hold."""

from fractions import Fraction
from pathlib import Path

from scenarios.errors import EnvironmentLackingError

MEMORY_SHARE = Fraction(1, 2)
"""Part of the free memory that a run's data may take (our choice)."""


def require_room(wanted_bytes: int, what: str) -> None:
    """Raises `EnvironmentLackingError` when `what` takes more than half of the memory that is free."""
    free = _free_bytes()
    if wanted_bytes > free * MEMORY_SHARE:
        most = int(free * MEMORY_SHARE) >> 20
        raise EnvironmentLackingError(
            f"{what} takes {wanted_bytes >> 20} MiB, more than half of the free memory ({most} MiB)"
        )


def _free_bytes() -> int:
    fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return int(fields["MemAvailable"].split()[0]) << 10
