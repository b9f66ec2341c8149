"""Compares runs side by side, differences first: `spraylab compare`."""

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import click

from results.errors import RunFolderError
from results.files.run_dir import RunDir
from results.files.user_files import write_file
from scenarios.cli.parameters import GivenPath
from scenarios.cli.options import with_output
from scenarios.cli.output import Output
from scenarios.cli.output import printable_name
from scenarios.cli.runs.folders import find_run, require_run, runs_like, runs_option
from scenarios.errors import UsageError
from scenarios.overwriting import holding, require_own, resolved_folder

if TYPE_CHECKING:
    from results.report.run_data import RunData

MARK = "Written by <code>spraylab compare</code>"
"""Text that every page of this command contains."""

MOST_CHARACTERS = 120
"""Most characters of names in the page's own name; a file system takes 255 bytes (our choice)."""


@click.command("compare")
@click.argument("chosen", nargs=-1, required=True, metavar="RUN RUN...", shell_complete=runs_like)
@click.option("-o", "--out", type=GivenPath(dir_okay=False),
              help="Page to write.  [default: compare-RUN-with-RUN.html beside the first run]")  # fmt: skip
@runs_option
@with_output
def command(output: Output, chosen: tuple[str, ...], out: Path | None, runs: Path) -> None:
    """Print the differences between runs and write a page with their figures side by side."""
    from results.report.comparison import MOST_FACES, compare, comparison_page, faces, table_of  # takes a second
    from results.report.run_data import read_run

    if not 2 <= len(chosen) <= MOST_FACES:
        raise UsageError(f"name 2 to {MOST_FACES} runs")
    folders = [require_run(find_run(text, runs)) for text in chosen]
    page = resolved_folder(out) if out else folders[0].path.parent / page_name([folder.path.name for folder in folders])
    require_page(page)
    _require_different(chosen, folders)
    data = [read_run(folder) for folder in folders]
    _require_comparable(data)
    found = compare(data)
    write_file(page, comparison_page(data).encode())
    if output.as_json:
        names = [run.name for run in data]
        output.document({"page": str(page), "runs": names, **vars(found)})
        return
    for face, run in zip(faces(len(data)), data, strict=True):
        output.text(f"{face}: {printable_name(run.name)}")
    for text in (*found.doubts, *found.remarks):
        output.text(text)
    for problem in found.problems:
        output.text(f"not compared: {problem}")
    differences = [*found.came_out, *found.asked, *found.ran_on]
    table = table_of(differences, len(data), "")
    columns = [name.lstrip("#") for name in table.columns]
    same = "what could be read does not differ" if found.problems else "the runs do not differ"
    output.table(columns, table.rows, same, as_named=True)
    output.text(str(page))


def _require_different(chosen: Sequence[str], folders: Sequence[RunDir]) -> None:
    """Find the runs. Raises `UsageError` where two names stand for one folder."""
    first: dict[Path, str] = {}
    for text, folder in zip(chosen, folders, strict=True):
        if folder.path in first:
            raise UsageError(f"{first[folder.path]} and {text} are the same run, {folder.path}; name different ones")
        first[folder.path] = text


def _require_comparable(runs: "Sequence[RunData]") -> None:
    """Read the runs. Raises `RunFolderError` for a run without anything that can be compared."""
    for run in runs:
        if run.summary is None and run.environment is None and not run.scenario:
            raise RunFolderError(f"{run.run.path}: nothing to compare can be read: {'; '.join(run.problems)}")


def require_page(out: Path) -> None:
    """Check the page's path. Raises `UsageError` for what is no HTML file, or exists and is no page of this
    command; OSError.
    """
    if out.suffix != ".html":
        raise UsageError(f"{out}: the page is HTML; name a file that ends in .html")
    require_own(out, "page of `spraylab compare`", holding(MARK))


def page_name(runs: Sequence[str]) -> str:
    """Return the page's name for these runs: with their names, or with a number where they are too long."""
    name = "-with-".join(runs)
    if len(name) > MOST_CHARACTERS:
        name = f"{runs[0][: MOST_CHARACTERS // 2]}-with-{len(runs) - 1}-more-{sha256(name.encode()).hexdigest()[:8]}"
    return f"compare-{name}.html"
