"""CPU time of this process and its waiting time for a CPU. Source: Documentation/scheduler/sched-stats.rst."""

from pathlib import Path

_SCHEDSTAT = Path("/proc/self/schedstat")


def schedstat() -> tuple[int, int]:
    """Return nanoseconds the main thread ran, and was runnable but waited; zeros without CONFIG_SCHED_INFO."""
    try:
        ran, waited, _ = _SCHEDSTAT.read_text().split()
    except OSError:
        return 0, 0
    return int(ran), int(waited)
