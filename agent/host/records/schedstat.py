"""How long this process ran and how long it waited for a CPU. Source: Documentation/scheduler/sched-stats.rst."""

from pathlib import Path

_SCHEDSTAT = Path("/proc/self/schedstat")


def schedstat() -> tuple[int, int]:
    """Nanoseconds the main thread ran, and nanoseconds it was runnable but waited; zeros without CONFIG_SCHED_INFO."""
    try:
        ran, waited, _ = _SCHEDSTAT.read_text().split()
    except OSError:
        return 0, 0
    return int(ran), int(waited)
