"""Process death with the parent, however the parent ends. Source: prctl(2), PR_SET_PDEATHSIG."""

import ctypes
import os
from signal import Signals

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_libc = ctypes.CDLL(None, use_errno=True)  # loaded here: nothing may be loaded between fork and exec


def signal_at_death_of(parent: int, number: Signals) -> None:
    """Make the kernel send this process a signal when its parent has ended, even if that was just before the call."""
    _libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), number)
