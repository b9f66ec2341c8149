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

_OFF = b"0"


@contextmanager
def short_grace_periods(note: Path) -> Iterator[bool]:
    """Have grace periods expedited inside; whether they are. Where they cannot or must not be, nothing is changed.

    While it is changed there is a file at `note`: what is left by a process that was killed meanwhile tells
    `put_back` to do what that process could not.
    """
    with ExitStack() as undo:
        yield _expedite(note, undo)


def put_back(note: Path) -> None:
    """Undo the change that a killed process has left, if it did. Raises OSError."""
    if not note.exists():
        return
    with ExitStack() as undo:
        setting = _locked(undo)
        os.pwrite(setting, _OFF, 0)
        note.unlink()


def _expedite(note: Path, undo: ExitStack) -> bool:
    try:
        if _NORMAL.read_text().strip() != "0":
            return False
        setting = _locked(undo)
        if os.pread(setting, 8, 0).strip() == _OFF:
            undo.callback(note.unlink, missing_ok=True)
            note.touch()
            undo.callback(os.pwrite, setting, _OFF, 0)
            os.pwrite(setting, b"1", 0)
    except OSError:  # no such setting, or /sys is read-only
        return False
    return True


def _locked(undo: ExitStack) -> int:
    """The setting, open, and nobody else's until `undo`: two that put back what they found would leave it on."""
    setting = os.open(_EXPEDITED, os.O_RDWR | os.O_CLOEXEC)
    undo.callback(os.close, setting)
    fcntl.flock(setting, fcntl.LOCK_EX)
    return setting
