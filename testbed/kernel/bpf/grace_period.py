"""RCU grace periods (the kernel's wait until no reader uses what it has changed), shortened temporarily.

Attaching a program to a port by TCX, or detaching it, waits for one, and holds the lock of all network configuration
meanwhile: 12 to 18 ms (measured). An expedited one interrupts every core instead and takes 0.05 to 1 ms. The setting is
machine-wide, so it is changed for moments, by one process at a time, and restored. Source: kernel/ksysfs.c.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

_EXPEDITED = Path("/sys/kernel/rcu_expedited")
_NORMAL = Path("/sys/kernel/rcu_normal")
"""File that holds 1 where interrupts are not wanted, as on real-time kernels; then the other setting has no effect."""

_OFF = b"0"


@contextmanager
def short_grace_periods(note: Path) -> Iterator[bool]:
    """Expedite grace periods inside the body; yield whether they are.

    If that is impossible or unwanted, nothing changes.

    While the setting is changed there is a file at `note`: if this process is killed, the file makes `put_back` restore
    the setting.
    """
    with ExitStack() as undo:
        yield _expedite(note, undo)


def put_back(note: Path) -> None:
    """Restore the setting if a killed process has left it changed. Raises OSError."""
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
    """Open and lock the setting until `undo`: two processes that both restore what they found would leave it on."""
    setting = os.open(_EXPEDITED, os.O_RDWR | os.O_CLOEXEC)
    undo.callback(os.close, setting)
    fcntl.flock(setting, fcntl.LOCK_EX)
    return setting
