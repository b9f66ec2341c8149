"""Finds the run folder that a user names, for the commands that read runs."""

import difflib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from results.files.run_dir import LATEST, RunDir
from scenarios.cli.parameters import GivenPath
from scenarios.cli.output import printable_name
from scenarios.errors import UsageError
from scenarios.file.scenario_files import is_folder, require_a_name

runs_option: Callable[[Any], Any] = click.option(
    "--runs", type=GivenPath(), default=Path("runs"), show_default=True, help="Where run folders are."
)


def find_run(text: str | None, runs: Path) -> RunDir:
    """Return the run at a path, of a name in `runs`, or the latest. Raises `UsageError` with the nearest names;
    OSError.
    """
    wanted = LATEST if text is None else text
    require_a_name(wanted, f"a run's folder, or one in {runs}")
    for path in (Path(wanted), runs / wanted) if text is not None else (runs / wanted,):
        if is_folder(path):
            return RunDir(path.resolve())
    if text is None:
        raise UsageError(f"{runs} holds no finished run; name a run's folder")
    near = difflib.get_close_matches(text, [path.name for path in _folders(runs)], n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(map(printable_name, near))}?" if near else f"`ls {runs}` shows what there is"
    raise UsageError(f"{text} is no run folder, nor one in {runs}; {hint}")


def require_run(folder: RunDir) -> RunDir:
    """Check the folder. Raises `UsageError` for one that holds captures made by hand, or no file of a run."""
    written = {folder.report.name, folder.figures.name}
    told = (folder.scenario, folder.environment, folder.topology, folder.summary, folder.summary_text)
    recorded = (folder.truth, folder.detect, folder.counters, folder.agent, folder.pcap)
    if not any(part.exists() for part in told + recorded):
        raise UsageError(f"{folder.path} holds no file of a run, such as {folder.summary.name}; name a run's folder")
    if {path.name for path in folder.path.iterdir()} - written == {folder.pcap.name}:
        raise UsageError(f"{folder.path} holds captures, not a run; open the files in {folder.pcap}")
    return folder


def runs_like(context: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete run folders, for the shell."""
    folders = _folders(context.params.get("runs") or Path("runs"))
    names = [path.name for path in folders if _is_run(RunDir(path))]
    found = [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]
    return found or [CompletionItem(incomplete, type="dir")]


def _is_run(folder: RunDir) -> bool:
    try:
        require_run(folder)
    except (UsageError, OSError):
        return False
    return True


def _folders(runs: Path) -> list[Path]:
    return [path for path in runs.iterdir() if path.is_dir()] if runs.is_dir() else []
