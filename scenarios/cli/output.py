"""What a command prints: results on stdout, as text or one JSON document; progress on stderr.

Colour only on a terminal.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Output:
    """How the user wants to be told."""

    as_json: bool = False
    quiet: bool = False
    verbose: bool = False
    color: bool | None = None
    """None: on a terminal only, and not with NO_COLOR."""

    def say(self, text: str) -> None:
        """A step begun or done."""
        if not self.quiet:
            click.echo(text, err=True)

    def detail(self, text: str) -> None:
        """What only `-v` shows."""
        if self.verbose:
            click.echo(text, err=True)

    def text(self, text: str) -> None:
        """A result that is text already."""
        click.echo(text, nl=not text.endswith("\n"))

    def document(self, value: Any) -> None:
        """A result as JSON."""
        click.echo(msgspec.json.format(msgspec.json.encode(value)).decode())

    def line(self, value: Any) -> None:
        """One line of JSON Lines."""
        click.echo(msgspec.json.encode(value).decode())

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]], empty: str) -> None:
        """A table, or `empty` when it has no rows. A column named in capitals holds numbers and is set to the right."""
        if not rows:
            self.text(empty)
            return
        table = Table(box=None, pad_edge=False, header_style="bold")
        for name in columns:
            table.add_column(name.lower(), justify="right" if name.isupper() else "left", overflow="fold")
        for row in rows:
            table.add_row(*row)
        console = self._console()
        with console.capture() as drawn:
            console.print(table)
        self.text("\n".join(line.rstrip() for line in drawn.get().splitlines()))

    def _console(self) -> Console:
        # A pipe has no width; a table that is folded there would be of no use to grep.
        width = None if sys.stdout.isatty() else 300
        return Console(file=sys.stdout, width=width, no_color=self.color is False or None, highlight=False)
