"""Stops agents of the lab that is up from using named links, like a controller's denylist: `spraylab deny`."""

from collections.abc import Sequence

import click
import msgspec

from scenarios.cli.command_group import CommandGroup
from scenarios.cli.options import links_like, of_lab, require_root, with_output
from scenarios.cli.output import Output
from scenarios.errors import UsageError
from scenarios.lab.client import Owner
from scenarios.lab.lab_dir import LabDir
from scenarios.lab.protocol import Allow, Denials, DenialState, Deny, DenyShow


@click.group("deny", cls=CommandGroup)
def command() -> None:
    """Stop agents of the lab that is up from using links: their entropy values become DENIED."""


@command.command("set")
@click.argument("link", shell_complete=links_like)
@of_lab
@with_output
def set_command(labdir: LabDir, output: Output, link: str) -> None:
    """Deny LINK: one direction (p0:leaf3>spine5), both (p0:leaf3-spine5) or many (p0:leaf3>spine*)."""
    require_root()
    with Owner(labdir) as owner:
        _print(output, owner.ask(Deny(link), Denials).denials)


@command.command("show")
@of_lab
@with_output
def show_command(labdir: LabDir, output: Output) -> None:
    """Show denied links, and who denied them."""
    require_root()
    with Owner(labdir) as owner:
        _print(output, owner.ask(DenyShow(), Denials).denials)


@command.command("clear")
@click.argument("link", required=False, shell_complete=links_like)
@click.option("--all", "everything", is_flag=True, help="Allow every denied link.")
@of_lab
@with_output
def clear_command(labdir: LabDir, output: Output, link: str | None, everything: bool) -> None:
    """Allow LINK again, or all; show what is still denied."""
    require_root()
    if (link is None) is not everything:
        raise UsageError("name a link, or use --all")
    with Owner(labdir) as owner:
        _print(output, owner.ask(Allow(link), Denials).denials)


def _print(output: Output, denials: Sequence[DenialState]) -> None:
    if output.as_json:
        output.document([msgspec.to_builtins(each) for each in denials])
        return
    for each in denials:
        output.text(f"{each.link}  denied by {each.by} since {each.since}")
    if not denials:
        output.say("nothing is denied")
