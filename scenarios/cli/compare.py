"""`spraylab compare`: runs beside each other, differences first."""

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import click

from scenarios.cli.options import told
from scenarios.cli.output import Output
from scenarios.cli.runs import find_run, runs_like, runs_option
from scenarios.errors import UsageError

MOST_CHARACTERS = 120
"""Of names in the page's own; a file system takes 255 bytes (our choice)."""


@click.command("compare")
@click.argument("chosen", nargs=-1, required=True, metavar="RUN RUN...", shell_complete=runs_like)
@click.option("-o", "--out", type=click.Path(path_type=Path, dir_okay=False),
              help="The page to write.  [default: compare-RUN-with-RUN.html beside the first run]")  # fmt: skip
@runs_option
@told
def command(output: Output, chosen: tuple[str, ...], out: Path | None, runs: Path) -> None:
    """Say what differs between runs, and write a page with their figures side by side."""
    from results.report.comparison import MOST_FACES, compare, comparison_page, faces, table_of  # takes a second
    from results.report.run_data import read_run

    if not 2 <= len(chosen) <= MOST_FACES:
        raise UsageError(f"name 2 to {MOST_FACES} runs")
    folders = [find_run(text, runs) for text in chosen]
    data = [read_run(folder) for folder in folders]
    found = compare(data)
    out = out or folders[0].path.parent / page_name([folder.path.name for folder in folders])
    out.write_text(comparison_page(data), encoding="utf-8")
    if output.as_json:
        names = [run.name for run in data]
        told = {"came_out": found.came_out, "asked": found.asked, "ran_on": found.ran_on, "same": found.same}
        output.document({"page": str(out), "runs": names, "remarks": found.remarks, **told})
        return
    for face, run in zip(faces(len(data)), data, strict=True):
        output.text(f"{face}: {run.name}")
    for remark in found.remarks:
        output.text(remark)
    differences = [*found.came_out, *found.asked, *found.ran_on]
    table = table_of(differences, len(data), "")
    columns = [name.lstrip("#") for name in table.columns]
    output.table(columns, table.rows, "the runs do not differ", as_named=True)
    output.text(str(out))


def page_name(runs: Sequence[str]) -> str:
    """Of these runs and no others: with their names, or with a number that stands for those that have no room."""
    name = "-with-".join(runs)
    if len(name) > MOST_CHARACTERS:
        name = f"{runs[0][: MOST_CHARACTERS // 2]}-with-{len(runs) - 1}-more-{sha256(name.encode()).hexdigest()[:8]}"
    return f"compare-{name}.html"
