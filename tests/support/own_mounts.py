"""A process with mounts of its own, so that a test may fill a disk or stand for the whole machine's /run."""

import ctypes
import os
import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path

_CLONE_NEWNS, _MS_REC, _MS_PRIVATE = 0x00020000, 1 << 14, 1 << 18
"""linux/sched.h, linux/mount.h."""

_libc = ctypes.CDLL(None, use_errno=True)


def in_own_mounts(act: Callable[[], object], seconds: float = 60.0) -> None:
    """Run `act` with mounts of its own and an empty /run. Needs root; fails where `act` does or takes longer."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setpgid(0, 0)
            _checked(_libc.unshare(_CLONE_NEWNS))
            _checked(_libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None))
            mount_tmpfs(Path("/run"))
            act()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    until, status = time.monotonic() + seconds, (0, 0)
    while status[0] == 0 and time.monotonic() < until:
        time.sleep(0.01)
        status = os.waitpid(child, os.WNOHANG)
    if status[0] == 0:
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert status == (child, 0), "failed, or took too long"


def mount_tmpfs(place: Path, size: str = "64m") -> None:
    """An empty file system of at most that size over a folder. Raises OSError."""
    _checked(_libc.mount(b"tmpfs", os.fsencode(place), b"tmpfs", 0, f"size={size},mode=755".encode()))


def _checked(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
