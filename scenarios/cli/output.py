"""Prints results on stdout, as text or one JSON document, and progress on stderr.

Colour appears only on a terminal.
"""

import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
import msgspec

from scenarios.cli.printable import printable, printable_message

if TYPE_CHECKING:
    from rich.console import Console


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
