"""Records named links of the lab that is up, at both ends: `spraylab capture`."""

from collections.abc import Sequence
from pathlib import Path

import click

from results.captures.tcpdump import LEAST_BYTES, SNAPLEN_BYTES
from results.files import run_dir
from results.files.user_files import invoker
from results.text import count_text
from scenarios.cli.command_group import CommandGroup
from scenarios.cli.exit_codes import ExitCode
from scenarios.cli.options import links_like, of_lab, require_root, with_output
from scenarios.cli.output import Output, echo_aside
from scenarios.cli.parameters import SIZE, GivenPath, Whole
from scenarios.errors import LabStateError, UsageError
from scenarios.lab.client import Owner
from scenarios.lab.lab_dir import LabDir
from scenarios.lab.owner.captures import flaw_of
from scenarios.lab.protocol import Captures, CaptureStart, CaptureState, CaptureStop, LabStatus, Status
from testbed.model.name_parsing import parse_link


@click.group("capture", cls=CommandGroup)
def command() -> None:
    """Record links of the lab that is up into pcap files."""


@command.command("start")
@click.argument("links", nargs=-1, required=True, shell_complete=links_like)
@click.option("--runs", type=GivenPath(), default=Path("runs"), show_default=True,
              help="Parent of the capture's folder.")  # fmt: skip
@click.option("--snaplen", type=Whole(64, 65535), default=SNAPLEN_BYTES, show_default=True,
              help="Captured bytes per packet.")  # fmt: skip
@click.option("--most", type=SIZE, default="1GiB", show_default=True,
              help="Size limit of all files together, in equal shares.")  # fmt: skip
@of_lab
@with_output
def start_command(labdir: LabDir, output: Output, links: tuple[str, ...], runs: Path, snaplen: int, most: int) -> None:
    """Capture both ends of LINKS until `capture stop`."""
    from scenarios.lab.start.requirements import lacks_of_capture, lacks_of_folder, require

    if most < LEAST_BYTES:
        raise UsageError(f"--most {most} is too small: at least {LEAST_BYTES} bytes, as in scenarios")
    require_root()
    require((*lacks_of_folder(runs), *lacks_of_capture()))
    with Owner(labdir) as owner:
        chosen = _chosen(owner.ask(Status(), LabStatus), links, labdir, output)
        folder = run_dir.create(runs, "capture", labdir.lab)
        try:
            order = CaptureStart(chosen, str(folder.pcap.resolve()), invoker(), snaplen=snaplen, most_bytes=most)
            captures = owner.ask(order, Captures).captures
        except BaseException:
            folder.discard()
            raise
    print_captures(output, captures)


@command.command("stop")
@of_lab
@with_output
@click.pass_context
def stop_command(context: click.Context, labdir: LabDir, output: Output) -> None:
    """End all captures started by hand and print their counts; exit with 1 if one is incomplete.

    Those of a run that is going on end with it.
    """
    require_root()
    with Owner(labdir) as owner:
        stopped = owner.ask(CaptureStop(), Captures)
    captures = stopped.captures
    if stopped.going_on:
        output.say(f"{count_text(len(stopped.going_on), 'capture')} of the run that is going on: left alone")
    print_captures(output, captures)
    flaws = [flaw for capture in captures if (flaw := flaw_of(capture)) is not None]
    for flaw in flaws:
        echo_aside(f"spraylab: {flaw}")
    context.exit(ExitCode.CHECK_FAILED if flaws else ExitCode.OK)


def _chosen(status: LabStatus, texts: Sequence[str], labdir: LabDir, output: Output) -> tuple[str, ...]:
    """Return the requested links. Raises `UnknownNameError`; `LabStateError` for one that is already recorded."""
    fabric = status.fabric()
    running = {capture.link for capture in status.captures}
    links: dict[str, None] = {}
    for text in texts:
        ways = parse_link(text, fabric)
        found = dict.fromkeys(str(way.link) for way in ways)
        if len(found) == len(ways):
            output.say(f"{text}: both directions of the link are recorded")
        links |= found
    if taken := sorted(running.intersection(links)):
        raise LabStateError(f"{', '.join(taken)}: recorded already; `{labdir.command('capture stop')}` first")
    return tuple(links)


def print_captures(output: Output, captures: Sequence[CaptureState]) -> None:
    """Print a row per end of a link."""
    if output.as_json:
        output.document(captures)
        return
    rows = [
        (c.link, c.node, _counted(c.captured), _counted(c.dropped), f"{c.snaplen:,}", "full" if c.full else "", c.file)
        for c in captures
    ]
    output.table(("link", "node", "PACKETS", "LOST", "SNAPLEN", "", "file"), rows, "no captures")


def _counted(count: int | None) -> str:
    return "-" if count is None else f"{count:,}"
