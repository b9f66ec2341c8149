"""`spraylab capture`: record named links of the lab that is up, at both ends."""

from collections.abc import Sequence
from pathlib import Path

import click

from results import run_dir
from scenarios.cli.options import invoker, links_like, of_lab, require_root, told
from scenarios.cli.output import Output
from scenarios.client import Owner
from scenarios.lab_dir import LabDir
from scenarios.protocol import Captures, CaptureStart, CaptureState, CaptureStop, LabStatus, Status


@click.group("capture")
def command() -> None:
    """Record links of the lab that is up into pcap files."""


@command.command("start")
@click.argument("links", nargs=-1, required=True, shell_complete=links_like)
@click.option("--runs", type=click.Path(path_type=Path), default=Path("runs"), show_default=True,
              help="Where the folder with the files is made.")  # fmt: skip
@of_lab
@told
def start_command(labdir: LabDir, output: Output, links: tuple[str, ...], runs: Path) -> None:
    """Record both ends of LINKS until `capture stop`; files are named for plane, link and node."""
    require_root()
    with Owner(labdir) as owner:
        owner.ask(Status(), LabStatus)
        folder = run_dir.create(runs, "capture", labdir.lab, invoker())
        captures = owner.ask(CaptureStart(links, str(folder.pcap.absolute())), Captures).captures
    folder.hand_over()
    _print(output, captures)


@command.command("stop")
@of_lab
@told
def stop_command(labdir: LabDir, output: Output) -> None:
    """End all captures of the lab and tell what they got."""
    require_root()
    with Owner(labdir) as owner:
        captures = owner.ask(CaptureStop(), Captures).captures
    _print(output, captures)


def _print(output: Output, captures: Sequence[CaptureState]) -> None:
    if output.as_json:
        output.document(captures)
        return
    rows = [(c.link, c.node, _counted(c.captured), _counted(c.dropped), c.file) for c in captures]
    output.table(("link", "node", "PACKETS", "LOST", "file"), rows, "no captures")


def _counted(count: int | None) -> str:
    return "-" if count is None else str(count)
