"""Shows the result of a run, in the terminal or as one HTML page: `spraylab show` and `report`."""

from collections.abc import Sequence
from pathlib import Path

import click

from results.files.run_dir import RunDir
from scenarios.cli.options import with_output
from scenarios.cli.output import Output
from scenarios.cli.runs.folders import find_run, require_run, runs_like, runs_option
from scenarios.overwriting import holding, require_no_link, require_own, starting
from pathlib import Path
import click
from results.errors import RunFolderError
from results.files.reading import MOST_DOCUMENT_BYTES, Decoder, read_limited
from results.summary import Summary, summary_text
from scenarios.cli.options import with_output
from scenarios.cli.output import Output
from scenarios.cli.runs.folders import find_run, require_run, runs_like, runs_option


MARK = "Written by <code>spraylab report</code>"
"""Text that every page of this command contains."""

_STARTS = {".svg": (b"<?xml", b"<svg"), ".png": (b"\x89PNG",), ".pdf": (b"%PDF",)}
"""First bytes of figure files."""


@click.command("report")
@click.argument("run", required=False, shell_complete=runs_like)
@runs_option
@with_output
def command(output: Output, run: str | None, runs: Path) -> None:
    """Write report.html and figures/ into the folder of RUN (default the latest), from its files alone.

    Any run folder will do, also a copied, an old or an unfinished one: the report states what is missing.
    """
    from results.report.page import FILES, write_report  # a second to import, which other commands need not wait

    found = require_run(find_run(run, runs))
    _require_own(found, FILES)
    data = write_report(found, output.say)
    for problem in data.problems:
        output.say(f"not in the report: {problem}")
    if output.as_json:
        output.document({"report": str(found.report), "figures": str(found.figures), "problems": data.problems})
    else:
        output.text(str(found.report))


def _require_own(run: RunDir, figures: Sequence[str]) -> None:
    """Check the target. Raises `UsageError` for what is in the report's place and is none, or a link elsewhere;
    OSError.
    """
    away = "move it away"
    require_own(run.report, "page of `spraylab report`", holding(MARK), away)
    require_no_link(run.figures, away)
    for name in figures if run.figures.is_dir() else ():
        for ending, starts in _STARTS.items():
            require_own(run.figures / f"{name}{ending}", f"{ending[1:].upper()}", starting(*starts), away)


@click.command("show")
@click.argument("run", required=False, shell_complete=runs_like)
@runs_option
@with_output
def show_command(output: Output, run: str | None, runs: Path) -> None:
    """Print the summary of RUN (default the latest), as `run` did."""
    path = require_run(find_run(run, runs)).summary
    try:
        text = read_limited(path, MOST_DOCUMENT_BYTES)
    except FileNotFoundError as error:
        raise RunFolderError(f"{path.parent} has no summary.json: the run did not finish") from error
    summary = Decoder[Summary](Summary).value(text, str(path))
    if output.as_json:
        output.json(text.decode())
    else:
        output.text(summary_text(summary))
