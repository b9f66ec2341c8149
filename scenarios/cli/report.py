"""`spraylab report`: a run as one page to look at."""

from pathlib import Path

import click

from scenarios.cli.options import told
from scenarios.cli.output import Output
from scenarios.cli.runs import find_run, require_run, runs_like, runs_option


@click.command("report")
@click.argument("run", required=False, shell_complete=runs_like)
@runs_option
@told
def command(output: Output, run: str | None, runs: Path) -> None:
    """Write report.html and figures/ into the folder of RUN (default the latest), from its files alone.

    Any run folder will do, also a copied, an old or an unfinished one: the report says what is missing.
    """
    from results.report.page import write_report  # takes a second to import, which other commands need not wait for

    found = require_run(find_run(run, runs))
    data = write_report(found, output.say)
    for problem in data.problems:
        output.say(f"not in the report: {problem}")
    if output.as_json:
        output.document({"report": str(found.report), "figures": str(found.figures), "problems": data.problems})
    else:
        output.text(str(found.report))
