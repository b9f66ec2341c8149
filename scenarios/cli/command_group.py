"""A group of commands whose help tells the whole first sentence of each.

Help and completion load the modules of commands and must be quick. So such a module imports at its top what declares
the command; what does the work, and loads numpy, pydantic, pyroute2 or the like, is imported in the
functions that use it.
"""

import click

_SENTENCE_MAX = 1000
"""Longer than any first sentence."""


class CommandGroup(click.Group):
    """Where click itself cuts what does not fit on a line."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands with what they do, on as many lines as that takes."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, each.get_short_help_str(_SENTENCE_MAX)) for name, each in found if each is not None]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
