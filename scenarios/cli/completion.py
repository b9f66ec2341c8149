"""Prints a script that lets the shell complete commands, options, links, nodes and scenarios: `spraylab completion`."""

import click
from click.shell_completion import add_completion_class, get_completion_class

from scenarios.cli.bash_completion import BashComplete


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the completion script for SHELL; for bash: eval "$(spraylab completion bash)"."""
    add_completion_class(BashComplete)
    kind = get_completion_class(shell)
    assert kind is not None, "click supports all shells that the option accepts"
    root = context.find_root()
    click.echo(kind(root.command, {}, "spraylab", "_SPRAYLAB_COMPLETE").source())
