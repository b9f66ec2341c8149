"""Prints results on stdout, as text or one JSON document, and progress on stderr.

Colour appears only on a terminal. Control characters in any text are escaped, so that no name moves the cursor or
begins a new line.
"""

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
import msgspec

from results.summary import size_text
from results.text import count_text

if TYPE_CHECKING:
    from rich.console import Console


_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that move a terminal's cursor, ring, colour, end a line or turn its direction, and bytes that are not
UTF-8.

C0 and C1 controls but tab and line feed (ECMA-48), line and paragraph separators, marks of direction (Unicode UAX 9).
"""

_LAYOUT = re.compile(r"[\t\n]")
"""Characters that our own text has between lines and columns, and a name must not contain."""


def printable(text: str) -> str:
    """Return the text with `\x1b` in place of an escape; tabs and line feeds are ours and stay."""
    return _UNPRINTABLE.sub(_escaped, text)


def printable_name(name: str) -> str:
    """Return a name on one line: also with `\x0a` in place of a line feed."""
    return _LAYOUT.sub(_escaped, printable(name))


def printable_message(text: str) -> str:
    """Return a message with all words of the command line, and the current folder, on one line each."""
    for name in _names_of_more_lines():
        text = text.replace(name, printable_name(name))
    return printable(text)


def _names_of_more_lines() -> Iterator[str]:
    """Yield words of the command line as messages have them: whole, after `=`, and as a path; and the current
    folder.
    """
    words = sys.argv[1:]
    with suppress(OSError):
        words = [*words, os.getcwd()]
    for word in words:
        for name in dict.fromkeys((word, os.path.normpath(word), word.partition("=")[2], os.path.basename(word))):
            if name.strip() and _LAYOUT.search(name):
                yield name


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    if 0xDC80 <= code <= 0xDCFF:  # a byte of a name that is no UTF-8 (PEP 383)
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def echo_aside(text: str) -> None:
    """Print a line on stderr; a closed or full stderr stops nothing."""
    with suppress(OSError):
        click.echo(printable_message(text), err=True)


def _blocks(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format one value per line and an empty line after each record, for a terminal too narrow for a table."""
    margin = max(map(len, names)) + 2
    records = [[(name, value) for name, value in zip(names, row, strict=True) if value] for row in rows]
    return "".join("".join(f"{name:{margin}}{value}\n" for name, value in record) + "\n" for record in records)


def _json(value: Any, indent: int | None) -> str:
    """Encode as JSON on one line or several; bytes of file names that are not UTF-8 become Python's escapes."""
    try:
        line = msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value, str_keys=True), indent=indent)
    return (line if indent is None else msgspec.json.format(line, indent=indent)).decode()


@dataclass(frozen=True)
class Output:
    """The output style that the user requested."""

    as_json: bool = False
    quiet: bool = False
    verbose: bool = False
    color: bool | None = None
    """Whether to colour; None: only on a terminal without NO_COLOR."""

    def say(self, text: str) -> None:
        """Report a step that began or ended."""
        if not self.quiet:
            echo_aside(text)

    def detail(self, text: str) -> None:
        """Report something that only `-v` shows."""
        if self.verbose:
            echo_aside(text)

    def text(self, text: str) -> None:
        """Print a result that is already text."""
        self._styled(printable(text))

    def json(self, text: str) -> None:
        """Print a result that is already JSON, in which control characters are escaped by its own rules."""
        self._styled(text)

    def _styled(self, text: str) -> None:
        click.echo(text, nl=not text.endswith("\n"))

    def document(self, value: Any) -> None:
        """Print a result as JSON."""
        click.echo(_json(value, 2))

    def line(self, value: Any) -> None:
        """Print one line of JSON Lines."""
        click.echo(_json(value, None))

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]], empty: str, as_named: bool = False) -> None:
        """Print a table, or `empty` when it has no rows. A column named in capitals holds numbers and is aligned
        right.

        Heads are in small letters, or with `as_named` as they come.
        """
        if not rows:
            self.text(empty)
            return
        from rich.table import Table  # takes a tenth of a second, which completion need not wait

        console = self._console()
        rows = [[printable(cell) for cell in row] for row in rows]
        names = list(columns) if as_named else [name.lower() for name in columns]
        widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
        if sum(widths) + 2 * len(widths) > console.width:
            self.text(_blocks(names, rows))
            return
        plain = self.color is False or bool(os.environ.get("NO_COLOR"))
        table = Table(box=None, pad_edge=False, header_style="" if plain else "bold")
        for name, column in zip(names, columns, strict=True):
            table.add_column(name, justify="right" if column.isupper() else "left", overflow="fold")
        for row in rows:
            table.add_row(*row)
        with console.capture() as drawn:
            console.print(table)
        self._styled("\n".join(line.rstrip() for line in drawn.get().splitlines()))

    def _console(self) -> "Console":
        from rich.console import Console

        # A pipe has no width; a table that is folded there would be of no use to grep.
        width = None if sys.stdout.isatty() else 300
        return Console(
            file=sys.stdout,
            width=width,
            no_color=self.color is False or None,
            highlight=False,
            markup=False,
            emoji=False,
        )


def draw_aside(draw: Callable[[], object], what: str, later: str) -> None:
    """Draw `what`; on an error, print why and `later`: what is complete, and how to draw it again.

    Raises only KeyboardInterrupt.
    """
    try:
        draw()
    except KeyboardInterrupt:
        echo_aside(f"spraylab: interrupted while drawing the {what}: {later}")
        raise
    except OSError as error:
        why = f"{error.filename}: {error.strerror}" if error.filename is not None else str(error)
        echo_aside(f"spraylab: no {what}: {why}; {later}")
    except Exception as error:  # of whatever kind: a fault in a figure is none of the result
        echo_aside(f"spraylab: no {what}: {type(error).__name__}: {error}; {later}")


PROGRESS_EVERY_S = 2.0
"""Seconds between lines in a log; a terminal is redrawn more often."""

LEAST_SHARE = 0.05
"""Share of the traffic before the time left is estimated (our choice)."""


class Listener:
    """Shows on stderr how a run proceeds: traffic and verdicts; on a terminal also each stage while it lasts."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._redraw = sys.stderr.isatty() and not output.quiet
        self._last = 0.0
        self._began: float | None = None
        """Approximate time when the first packet was acknowledged."""
        self._complete = False
        """Whether the last byte was acknowledged; the writes may complete later."""
        self._passing = False
        """Whether a line is shown that the next one replaces."""

    def stage(self, name: str) -> None:
        """Report that a stage begins."""
        self._last = time.monotonic()
        if self._redraw and not self._output.verbose:
            self._draw(f"{name} ...")
            return
        self._erase()
        self._output.detail(name)

    def note(self, text: str) -> None:
        """Print a remark."""
        self._erase()
        self._output.say(text)

    def waiting(self, text: str) -> None:
        """Report a wait; the first line appears only after a while."""
        now = time.monotonic()
        if self._redraw:
            self._draw(text)
        elif now - self._last >= PROGRESS_EVERY_S:
            self._last = now
            self._output.say(text)

    def progress(self, done_bytes: int, all_bytes: int, resent: int) -> None:
        """Report the progress of traffic."""
        now = time.monotonic()
        if self._began is None:
            self._began = now
        ended = done_bytes >= all_bytes
        if self._complete or (not self._redraw and now - self._last < PROGRESS_EVERY_S and not ended):
            return
        self._complete = ended
        self._last = now
        share = done_bytes / all_bytes if all_bytes else 0.0
        left = "" if ended else _left_text(share, now - self._began)
        text = f"traffic: {share:4.0%} of {size_text(all_bytes)}, {count_text(resent, 'packet')} resent{left}"
        if self._redraw and not ended:
            self._draw(text)
        else:
            self.note(text)

    def done(self) -> None:
        """End the progress display."""
        self._erase()

    def _draw(self, text: str) -> None:
        width = shutil.get_terminal_size().columns - 1
        click.echo(f"\r{text[:width]}\x1b[K", err=True, nl=False)
        self._passing = True

    def _erase(self) -> None:
        if self._passing:
            click.echo("\r\x1b[K", err=True, nl=False)
            self._passing = False


def _left_text(share: float, seconds: float) -> str:
    """Estimate the time left at the rate so far; empty while that is uncertain."""
    if share < LEAST_SHARE:
        return ""
    return f", about {seconds * (1 - share) / share:.0f} s left"
