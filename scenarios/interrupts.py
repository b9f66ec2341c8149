"""Signals that ask for the end become one exception, raised once, so that every way out is the same `finally`."""

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

from scenarios.errors import InterruptedRunError

_Handler = Callable[[int, FrameType | None], object]

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interrupts_wait() -> Iterator[None]:
    """Inside the body ending signals are held back and arrive after it: for what cannot be undone half-way."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def undoing() -> Iterator[ExitStack]:
    """A stack of what is to be undone, whose unwinding no signal breaks off."""
    before: dict[signal.Signals, signal.Handlers | _Handler | int | None] = {}
    try:
        with ExitStack() as stack:
            try:
                yield stack
            finally:
                before = {number: signal.signal(number, signal.SIG_IGN) for number in ENDING}
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def interrupts_raise() -> Iterator[None]:
    """Inside the body the first ending signal raises `InterruptedRunError`; later ones are left aside.

    Whoever hurries the end with a second Ctrl-C would otherwise leave half of it undone.
    """

    def interrupt(number: int, _frame: FrameType | None) -> None:
        for each in ENDING:
            signal.signal(each, signal.SIG_IGN)
        raise InterruptedRunError(f"interrupted by {signal.Signals(number).name}")

    before = {number: signal.signal(number, interrupt) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
