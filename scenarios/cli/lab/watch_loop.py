"""Runs the live view of the lab that is up for `spraylab watch`: on a terminal, as one frame, or as JSON."""

import logging
import os
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from threading import Event, Thread

from rich.console import Console
from rich.live import Live
from rich.text import Text

from scenarios.cli.output import Output
from scenarios.watch.frame import STALE_S, frame, whole_frame
from scenarios.watch.read import LabReader
from scenarios.watch.snapshot import View
from scenarios.watch.tally import Tally


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


EVERY_S = 1.0
"""Time between two readings; a person reads no faster (our choice)."""

_LOOK_S = 0.25
"""Time between two checks of the terminal's size."""

_QUIT = ("q", "Q", "\x1b", "\x04")


class _Told(Console):
    """A console that passes on the error of a closed pipe; Rich would end the program with 1."""

    def on_broken_pipe(self) -> None:
        """Re-raise the error that is being handled."""
        raise


def show(reader: LabReader, output: Output, once: bool) -> None:
    """Show readings until a key or the lab ends it; only one if requested, or without a terminal."""
    for name in ("COLUMNS", "LINES"):  # what the terminal was when the shell began; Rich would believe it for ever
        os.environ.pop(name, None)
    console = _Told(no_color=output.color is False or None, highlight=False)
    if output.as_json:
        for view in _views(reader, once):
            output.line(view)
    elif not console.is_terminal or console.is_dumb_terminal:
        for view in _views(reader, once=True):
            console.print(whole_frame(view), soft_wrap=True)
    elif once:
        for view in _views(reader, once=True):
            console.print(frame(view, console.width, None), soft_wrap=True)
    else:
        _live(reader, console)


def _views(reader: LabReader, once: bool) -> Iterator[View]:
    """Yield a view per second; with `once` one view, from two readings if traffic is running, so that rates are
    measured.
    """
    tally = Tally(reader.fabric)
    view = tally.take(reader.read())
    if once:
        if any(flow.total_bytes is None or flow.acked_bytes < flow.total_bytes for flow in view.flows):
            time.sleep(EVERY_S)
            view = tally.take(reader.read())
        yield view
        return
    while True:
        yield view
        time.sleep(EVERY_S)
        view = tally.take(reader.read())


def _live(reader: LabReader, console: Console) -> None:
    logging.getLogger("spraylab").setLevel(logging.ERROR)  # a slow owner is told by the picture
    screen = Live(Text(), console=console, screen=True, auto_refresh=False)
    with _reading(reader) as news, keys_pressed() as keys, screen:
        view, read_s, drawn = None, time.monotonic(), None
        while not _quits(keys):
            if (fresh := news.latest()) is not None:
                view, read_s = fresh, time.monotonic()
            age_s = int(time.monotonic() - read_s)
            look = console.size, view, age_s if age_s >= STALE_S else 0
            if view is not None and look != drawn:
                screen.update(frame(view, *console.size, age_s), refresh=True)
                drawn = look


def _quits(keys: int | None) -> bool:
    """Wait briefly for a key; return whether it ends the view."""
    if keys is None:
        time.sleep(_LOOK_S)
        return False
    if not select.select([keys], [], [], _LOOK_S)[0]:
        return False
    pressed = read_keys(keys)
    return not pressed or pressed in _QUIT


class _Readings:
    """A thread that reads the lab, because an answer may take longer than the response to a key."""

    def __init__(self, reader: LabReader) -> None:
        self._reader = reader
        self._views = SimpleQueue[View | Exception]()
        self.stop = Event()
        self.thread = Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        tally = Tally(self._reader.fabric)
        while not self.stop.is_set():
            try:
                self._views.put(tally.take(self._reader.read()))
            except Exception as error:
                self._views.put(error)  # raised where it is heard
                return
            self.stop.wait(EVERY_S)

    def latest(self) -> View | None:
        """Return the newest view since the last call. Raises the error that ended the reading."""
        newest = None
        while True:
            try:
                found = self._views.get_nowait()
            except Empty:
                return newest
            if isinstance(found, Exception):
                raise found
            newest = found


@contextmanager
def _reading(reader: LabReader) -> Iterator[_Readings]:
    readings = _Readings(reader)
    readings.thread.start()
    try:
        yield readings
    finally:
        readings.stop.set()
