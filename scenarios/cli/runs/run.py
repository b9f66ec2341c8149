"""Runs one scenario from start to end, in its own lab or in the one that is up: `spraylab run`."""

import shutil
import sys
import time
from pathlib import Path
from typing import Literal

import click

from results.files.run_dir import RunDir
from results.text import count_text
from results.summary import Summary, size_text, summary_text
from scenarios.cli.output import draw_aside
from scenarios.cli.parameters import EngineWanted, engine_option
from scenarios.cli.exit_codes import ExitCode
from scenarios.cli.parameters import GivenPath
from scenarios.cli.options import of_lab, require_root, scenarios_like, with_output, workers_option
from scenarios.cli.output import Listener, Output
from scenarios.cli.parameters import Whole
from scenarios.file.scenario_files import find_scenario
from scenarios.interrupts import interrupts_raise
from scenarios.lab.lab_dir import LabDir
from scenarios.run.disk_errors import FolderIncompleteError

_OUTCOMES = {"pass": ExitCode.OK, "fail": ExitCode.CHECK_FAILED, "overloaded": ExitCode.OVERLOADED}


@click.command("run")
@click.argument("scenario", required=False, metavar="SCENARIO", shell_complete=scenarios_like)
@click.option("--attach", is_flag=True, help="Use the lab that is up instead of building one.")
@click.option("--seed", type=Whole(0, 2**32 - 1), help="Replaces the scenario's seed.")
@click.option("--runs", type=GivenPath(), default=Path("runs"), show_default=True, help="Folder for run folders.")
@workers_option
@engine_option
@click.option("--mechanism", type=click.Choice(["auto", "netem", "ebpf"]), default="auto", show_default=True,
              help="Mechanism that drops packets.")  # fmt: skip
@click.option("--no-report", is_flag=True, help="Write no report.html and figures/.")
@of_lab
@with_output
@click.pass_context
def command(
    context: click.Context,
    labdir: LabDir,
    output: Output,
    scenario: str | None,
    attach: bool,
    seed: int | None,
    runs: Path,
    workers: int | Literal["per-host"] | None,
    engine: EngineWanted | None,
    mechanism: str,
    no_report: bool,
) -> None:
    """Run SCENARIO, a catalog name or a file, from building the lab to taking it down.

    Exits with 0 when everything is as expected, 1 when a check failed, 5 when this machine did not keep up.
    If the run's folder could not be written completely, the result is still printed and the exit code is 3.
    """
    from scenarios.file.load import load_scenario
    from scenarios.run.request import RunRequest
    from scenarios.run.runner import run_scenario

    chosen = load_scenario(find_scenario(scenario))
    if seed is not None:
        chosen = chosen.model_copy(update={"seed": seed})
    if engine is not None:
        chosen = engine.applied(chosen)
    require_root()
    request = RunRequest(chosen, labdir, attach, runs, tuple(sys.argv), workers, mechanism)
    listener = Listener(output)
    try:
        with interrupts_raise():
            summary = run_scenario(request, listener)
    except FolderIncompleteError as error:
        listener.done()
        _print(error.summary, output)
        raise
    finally:
        listener.done()
    try:
        _print(summary, output)
    finally:
        if not no_report:
            _write_report(RunDir(Path(summary.folder)), listener)
    context.exit(_OUTCOMES[summary.outcome])


def _write_report(folder: RunDir, listener: Listener) -> None:
    listener.stage("report")

    def draw() -> None:
        from results.report.page import write_report  # takes a second to import, better spent after the run

        write_report(folder, for_paper=False)

    try:
        draw_aside(draw, "report", f"the run is complete; `spraylab report {folder.path}` draws it")
    finally:
        listener.done()


def _print(summary: Summary, output: Output) -> None:
    if output.as_json:
        output.document(summary)
    else:
        output.text(summary_text(summary))
