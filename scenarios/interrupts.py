"""Turns signals that request the end into one exception, raised once, so that every exit uses the same `finally`."""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

from scenarios.errors import InterruptedRunError

_Handler = Callable[[int, FrameType | None], object]

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_HELD = (*ENDING, signal.SIGALRM)
"""The ending signals, and the one that repeats them."""

_AGAIN_S = 0.05
"""Destructors and callbacks of the interpreter are over by then."""


@contextmanager
def interrupts_wait() -> Iterator[None]:
    """Delay ending signals until after the body: for what cannot be undone half-way."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _HELD)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def undoing() -> Iterator[ExitStack]:
    """A stack of cleanup actions that no signal interrupts."""
    before: dict[signal.Signals, signal.Handlers | _Handler | int | None] = {}
    try:
        with ExitStack() as stack:
            try:
                yield stack
            finally:
                before = {number: signal.signal(number, signal.SIG_IGN) for number in _HELD}
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def interrupts_raise() -> Iterator[None]:
    """Raise `InterruptedRunError` at the first ending signal inside the body; ignore later ones.

    Whoever hurries the end with a second Ctrl-C would otherwise leave half of it undone. A hang-up that was ignored
    before, as under nohup, stays ignored. An exception that comes up in a destructor or a callback of the interpreter
    is dropped there, so it is raised once more a moment later.
    """
    hook = sys.unraisablehook

    def interrupt(number: int, _frame: FrameType | None) -> None:
        for each in ENDING:
            signal.signal(each, signal.SIG_IGN)
        raise InterruptedRunError(f"interrupted by {signal.Signals(number).name}")

    def dropped(what: "sys.UnraisableHookArgs") -> None:
        if isinstance(what.exc_value, InterruptedRunError):
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
        else:
            hook(what)

    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    raising = [number for number in _HELD if not (ignored and number is signal.SIGHUP)]
    before = {number: signal.signal(number, interrupt) for number in raising}
    sys.unraisablehook = dropped
    try:
        yield
    finally:
        sys.unraisablehook = hook
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def keyboard_interrupts() -> Iterator[None]:
    """Let Ctrl-C act inside the body as in any Python program, as often as it is pressed: for a prompt."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
