"""Defines a group of commands whose help shows the whole first sentence of each.

Help and completion load the modules of commands and must be fast. So such a module imports at its top only what
declares the command; numpy, pydantic, pyroute2 and the modules that do the work are imported in the functions that
use them.
"""

import click

_SENTENCE_MAX = 1000
"""A length greater than any first sentence."""


class CommandGroup(click.Group):
    """A group of commands that shows whole first sentences; click itself cuts what does not fit on a line."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands with their first sentence, on as many lines as that needs."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, each.get_short_help_str(_SENTENCE_MAX)) for name, each in found if each is not None]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
