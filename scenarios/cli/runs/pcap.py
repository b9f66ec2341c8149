"""Merges captures of a run: `spraylab pcap`."""

from pathlib import Path

import click

from results.text import count_text
from results.summary import size_text
from scenarios.cli.command_group import CommandGroup
from scenarios.cli.exit_codes import ExitCode
from scenarios.cli.parameters import GivenPath
from scenarios.cli.options import with_output
from scenarios.cli.output import Output, echo_aside
from scenarios.cli.runs.folders import find_run, runs_like, runs_option
from scenarios.errors import UsageError
from scenarios.file.scenario_files import is_file
from scenarios.overwriting import require_own, resolved_folder, starting

PCAPNG_START = bytes.fromhex("0a0d0d0a")
"""Type of the block that every pcapng begins with (draft-ietf-opsawg-pcapng)."""

CAPTURES = (".pcap", ".pcap.gz")
"""Suffixes of a run's captures."""

MERGED = "all.pcapng"
"""Default file name, in the folder of the captures."""


@click.group("pcap", cls=CommandGroup)
def command() -> None:
    """Work on the captures of a run."""


@command.command("merge")
@click.argument("what", nargs=-1, metavar="[RUN | FILES...]", shell_complete=runs_like)
@click.option("-o", "--out", type=GivenPath(dir_okay=False), help=f"Default: RUN/pcap/{MERGED}.")
@runs_option
@with_output
@click.pass_context
def merge_command(context: click.Context, output: Output, what: tuple[str, ...], out: Path | None, runs: Path) -> None:
    """Merge the captures of RUN (default the latest), or FILES, into one pcapng, ordered by time.

    FILES are pcap or pcapng, plain or compressed by gzip.

    Interfaces are named by direction and place of recording, as `p0:leaf3>spine5 at p0-leaf3`. A packet recorded
    at both ends appears twice. Exits with 1 when one of the files is cut off within a packet.
    """
    from results.captures.merge import merge

    files = _files(what, runs)
    target = resolved_folder(out or files[0].parent / MERGED)
    if target.resolve() in {file.resolve() for file in files}:
        raise UsageError(f"{target} is one of the files to merge")
    require_own(target, "pcapng", starting(PCAPNG_START))
    output.say(f"merging {count_text(len(files), 'file')}, {size_text(sum(file.stat().st_size for file in files))}")
    merged = merge(files, target)
    if output.as_json:
        told = {"packets": merged.packets, "interfaces": merged.interfaces, "cut": tuple(map(str, merged.cut))}
        output.document({"file": str(merged.path)} | told)
    else:
        said = f"{count_text(merged.packets, 'packet')} of {count_text(len(files), 'file')}"
        output.text(f"{merged.path}: {said}, {count_text(len(merged.interfaces), 'interface')}")
    for path in merged.cut:
        echo_aside(f"{path} is cut off within a packet; {merged.path.name} lacks that packet and what followed")
    context.exit(ExitCode.CHECK_FAILED if merged.cut else ExitCode.OK)


def _files(what: tuple[str, ...], runs: Path) -> list[Path]:
    """Find the capture files. Raises `UsageError`."""
    if what and all(is_file(Path(text)) for text in what):
        return [Path(text) for text in what]
    if len(what) > 1:
        wrong = [text for text in what if not is_file(Path(text))]
        raise UsageError(f"not there, or not regular files: {', '.join(wrong)}; name one run, or files")
    run = find_run(what[0] if what else None, runs)
    folder = run.pcap if run.pcap.is_dir() else run.path
    found = sorted(path for ending in CAPTURES for path in folder.glob(f"*{ending}"))
    if not found:
        raise UsageError(f"{run.path} holds no captures; a scenario names links under `capture`")
    return found
