"""`spraylab show`: what a run came to, in the terminal."""

from pathlib import Path

import click
import msgspec

from results.errors import RunFolderError
from results.regular_file import read_regular
from results.summary import Summary, summary_text
from scenarios.cli.options import told
from scenarios.cli.output import Output
from scenarios.cli.runs import find_run, require_run, runs_like, runs_option


@click.command("show")
@click.argument("run", required=False, shell_complete=runs_like)
@runs_option
@told
def command(output: Output, run: str | None, runs: Path) -> None:
    """Print the summary of RUN (default the latest), as `run` did."""
    path = require_run(find_run(run, runs)).summary
    try:
        text = read_regular(path)
        summary = msgspec.json.decode(text, type=Summary)
    except FileNotFoundError as error:
        raise RunFolderError(f"{path.parent} has no summary.json: the run did not get to its end") from error
    except msgspec.MsgspecError as error:
        raise RunFolderError(f"{path}: not a summary that this program reads: {error}") from error
    if output.as_json:
        output.text(text.decode())
    else:
        output.text(summary_text(summary))
