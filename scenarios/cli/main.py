"""The command `spraylab`: finds the module of a command, turns errors into one line and an exit code."""

import importlib
import logging
import sys
from typing import Any

import click

from scenarios.cli.exit_codes import EXPECTED, ExitCode, exit_code_of

_COMMANDS = {
    "up": "up",
    "run": "run",
    "inspect": "inspect",
    "exec": "exec_",
    "fault": "fault",
    "capture": "capture",
    "detect": "detect",
    "validate": "validate",
    "doctor": "doctor",
    "down": "down",
    "destroy": "down",
    "completion": "completion",
}
"""Command to its module in this folder, which is imported when it is used; the function in it is `command`."""


class Cli(click.Group):
    """A group whose commands are modules, and whose expected errors are a line on stderr and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All but the alias, in the order of use."""
        return [name for name in _COMMANDS if name != "destroy"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command's module."""
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"scenarios.cli.{_COMMANDS[cmd_name]}").command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except EXPECTED as error:
            click.echo(f"spraylab: {error}", err=True)
            ctx.exit(exit_code_of(error))
        except KeyboardInterrupt:
            click.echo("spraylab: interrupted", err=True)
            ctx.exit(ExitCode.INTERRUPTED)


@click.command(cls=Cli, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="spraylab")
def main() -> None:
    """A testbed for MRC packet spraying over static SRv6: build a fabric, break a link, see who notices.

    \b
    sudo spraylab run gray-link        one scenario from start to end, results in runs/latest
    sudo spraylab up                   the same fabric, left up for the other commands
    """
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")


if __name__ == "__main__":
    main()
