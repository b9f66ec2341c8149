"""Reads keys as they are pressed, without Enter and without echo; the terminal is restored at the end."""

import os
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def keys_pressed() -> Iterator[int | None]:
    """Return a file descriptor that yields each key as it is pressed; None when stdin is not a terminal."""
    if not sys.stdin.isatty():
        yield None
        return
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    try:
        tty.setcbreak(fd)  # Ctrl-C stays a signal
        yield fd
    finally:
        with suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(fd, termios.TCSADRAIN, before)


def read_keys(fd: int) -> str:
    """Return the keys that were pressed; empty when the terminal is gone."""
    return os.read(fd, 64).decode(errors="replace")
