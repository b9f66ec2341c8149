"""Linux system calls that Python lacks: setns(2) into a network namespace, prctl(2) for death with the parent."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import Signals

_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)  # loaded here: nothing may be loaded between fork and exec


@contextmanager
def inside(path: str | Path | None) -> Iterator[None]:
    """Run the body in the network namespace at `path`; None: in the present one.

    Moves the calling thread only. Raises OSError if the path does not exist or may not be entered.
    """
    if path is None:
        yield
        return
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _enter(path)
        try:
            yield
        finally:
            _set(home)
    finally:
        os.close(home)


def _enter(path: str | Path) -> None:
    target = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _set(target)
    finally:
        os.close(target)


def _set(descriptor: int) -> None:
    # os.setns came with Python 3.12; 3.11 is still supported.
    if _libc.setns(descriptor, _CLONE_NEWNET) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def signal_at_death_of(parent: int, number: Signals) -> None:
    """Make the kernel send this process a signal when its parent has ended, even if that was just before the call."""
    _libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), number)
