"""`spraylab fault`: break a link of the lab that is up, see what the kernel does, mend it."""

from collections.abc import Sequence

import click

from faults.quantities import parse_rate
from scenarios.cli.options import links_like, of_lab, require_root, told
from scenarios.cli.output import Output
from scenarios.client import Owner
from scenarios.errors import UsageError
from scenarios.lab_dir import LabDir
from scenarios.protocol import FaultClear, Faults, FaultSet, FaultShow, FaultState

_COLUMNS = ("link", "fault", "asked", "in force", "mechanism", "SEEN", "DROPPED", "set by", "since")


@click.group("fault")
def command() -> None:
    """Set, show and clear faults on links of the lab that is up."""


@command.command("set")
@click.argument("link", shell_complete=links_like)
@click.option("--drop", required=True, metavar="RATE", help="Share of packets to drop: 1%, 0.5%, 50bp; 0% removes it.")
@click.option("--mechanism", type=click.Choice(["auto", "netem", "ebpf"]), default="auto", show_default=True,
              help="What makes packets drop.")  # fmt: skip
@of_lab
@told
def set_command(labdir: LabDir, output: Output, link: str, drop: str, mechanism: str) -> None:
    """Drop packets on LINK: one direction (p0:leaf3>spine5), both (p0:leaf3-spine5), or many (p*:leaf3>spine*).

    What is printed has been read back from the kernel.
    """
    parse_rate(drop)
    require_root()
    with Owner(labdir) as owner:
        faults = owner.ask(FaultSet(link, drop, mechanism), Faults).faults
    _print(output, faults, "no fault there any more")


@command.command("show")
@of_lab
@told
def show_command(labdir: LabDir, output: Output) -> None:
    """Show all faults in force, with what the kernel counted so far."""
    require_root()
    with Owner(labdir) as owner:
        faults = owner.ask(FaultShow(), Faults).faults
    _print(output, faults, "no faults")


@command.command("clear")
@click.argument("link", required=False, shell_complete=links_like)
@click.option("--all", "everything", is_flag=True, help="Every fault of the lab.")
@of_lab
@told
def clear_command(labdir: LabDir, output: Output, link: str | None, everything: bool) -> None:
    """Take the fault on LINK away, or with --all every one; prints the last counters."""
    if (link is None) != everything:
        raise UsageError("say which link is to be mended, or --all")
    require_root()
    with Owner(labdir) as owner:
        faults = owner.ask(FaultClear(link), Faults).faults
    _print(output, faults, "there was no fault")


def _print(output: Output, faults: Sequence[FaultState], empty: str) -> None:
    if output.as_json:
        output.document(faults)
        return
    rows = [
        (f.link, f.kind, f.requested, f.in_force, f.mechanism, str(f.seen), str(f.dropped), f.by, f.since)
        for f in faults
    ]
    output.table(_COLUMNS, rows, empty)
