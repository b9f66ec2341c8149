"""Prints the result of a run in the terminal: `spraylab show`."""

from pathlib import Path

import click

from results.errors import RunFolderError
from results.files.reading import MOST_DOCUMENT_BYTES, Decoder, read_limited
from results.summary import Summary, summary_text
from scenarios.cli.options import told
from scenarios.cli.output import Output
from scenarios.cli.runs.folders import find_run, require_run, runs_like, runs_option


@click.command("show")
@click.argument("run", required=False, shell_complete=runs_like)
@runs_option
@told
def command(output: Output, run: str | None, runs: Path) -> None:
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
