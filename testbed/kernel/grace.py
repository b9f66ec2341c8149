"""How long the kernel waits until nobody reads what it has changed (an RCU grace period), made short for a while.

Putting a program on a port by TCX, or taking it off, waits for one, and holds the lock of all network configuration
meanwhile: 12 to 18 ms (measured). An expedited one interrupts every core instead and takes 0.05 to 1 ms. The setting is
the whole machine's, so it is changed for moments, by one process at a time, and put back. Source: kernel/ksysfs.c.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

_EXPEDITED = Path("/sys/kernel/rcu_expedited")
_NORMAL = Path("/sys/kernel/rcu_normal")
"""1 where interrupts are not wanted, as on real-time kernels; then the other has no effect."""


@contextmanager
def short_grace_periods() -> Iterator[bool]:
    """Have grace periods expedited inside; whether they are. Where they cannot or must not be, nothing is changed."""
    with ExitStack() as undo:
        yield _expedite(undo)


def _expedite(undo: ExitStack) -> bool:
    try:
        if _NORMAL.read_text().strip() != "0":
            return False
        setting = os.open(_EXPEDITED, os.O_RDWR | os.O_CLOEXEC)
        undo.callback(os.close, setting)
        fcntl.flock(setting, fcntl.LOCK_EX)  # or of two that put back what they found, the later one would leave it on
        before = os.pread(setting, 8, 0)
        if before.strip() == b"0":
            undo.callback(os.pwrite, setting, before, 0)
            os.pwrite(setting, b"1", 0)
    except OSError:  # no such setting, or /sys is read-only
        return False
    return True
