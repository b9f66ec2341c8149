"""Runs one scenario from start to end, in its own lab or in the one that is up: `spraylab run`."""

import shutil
import sys
import time
from pathlib import Path
from typing import Literal

import click

from results.files.run_dir import RunDir
from results.numbers_text import count_text
from results.summary import Summary, size_text, summary_text
from scenarios.cli.runs.drawing import draw_aside
from scenarios.cli.engine_option import EngineWanted, engine_option
from scenarios.cli.exit_codes import ExitCode
from scenarios.cli.given_path import GivenPath
from scenarios.cli.options import of_lab, require_root, scenarios_like, told, workers_option
from scenarios.cli.output import Output
from scenarios.cli.quantities import Whole
from scenarios.file.scenario_files import find_scenario
from scenarios.interrupts import interrupts_raise
from scenarios.lab.lab_dir import LabDir
from scenarios.run.unwritten import FolderIncompleteError

PROGRESS_EVERY_S = 2.0
"""Seconds between lines in a log; a terminal is redrawn more often."""

LEAST_SHARE = 0.05
"""Share of the traffic before the time left is estimated (our choice)."""

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
@told
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
    from scenarios.run.order import RunOrder
    from scenarios.run.runner import run_scenario

    chosen = load_scenario(find_scenario(scenario))
    if seed is not None:
        chosen = chosen.model_copy(update={"seed": seed})
    if engine is not None:
        chosen = engine.applied(chosen)
    require_root()
    order = RunOrder(chosen, labdir, attach, runs, tuple(sys.argv), workers, mechanism)
    listener = Listener(output)
    try:
        with interrupts_raise():
            summary = run_scenario(order, listener)
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


def _write_report(folder: RunDir, listener: "Listener") -> None:
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


class Listener:
    """Shows on stderr how a run proceeds: traffic and verdicts; on a terminal also each stage while it lasts."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._redraw = sys.stderr.isatty() and not output.quiet
        self._last = 0.0
        self._began: float | None = None
        """Approximate time when the first packet was acknowledged."""
        self._complete = False
        """Whether the last byte was acknowledged; the writes may complete later."""
        self._passing = False
        """Whether a line is shown that the next one replaces."""

    def stage(self, name: str) -> None:
        """Report that a stage begins."""
        self._last = time.monotonic()
        if self._redraw and not self._output.verbose:
            self._draw(f"{name} ...")
            return
        self._erase()
        self._output.detail(name)

    def note(self, text: str) -> None:
        """Print a remark."""
        self._erase()
        self._output.say(text)

    def waiting(self, text: str) -> None:
        """Report a wait; the first line appears only after a while."""
        now = time.monotonic()
        if self._redraw:
            self._draw(text)
        elif now - self._last >= PROGRESS_EVERY_S:
            self._last = now
            self._output.say(text)

    def progress(self, done_bytes: int, all_bytes: int, resent: int) -> None:
        """Report the progress of traffic."""
        now = time.monotonic()
        if self._began is None:
            self._began = now
        ended = done_bytes >= all_bytes
        if self._complete or (not self._redraw and now - self._last < PROGRESS_EVERY_S and not ended):
            return
        self._complete = ended
        self._last = now
        share = done_bytes / all_bytes if all_bytes else 0.0
        left = "" if ended else _left_text(share, now - self._began)
        text = f"traffic: {share:4.0%} of {size_text(all_bytes)}, {count_text(resent, 'packet')} resent{left}"
        if self._redraw and not ended:
            self._draw(text)
        else:
            self.note(text)

    def done(self) -> None:
        """End the progress display."""
        self._erase()

    def _draw(self, text: str) -> None:
        width = shutil.get_terminal_size().columns - 1
        click.echo(f"\r{text[:width]}\x1b[K", err=True, nl=False)
        self._passing = True

    def _erase(self) -> None:
        if self._passing:
            click.echo("\r\x1b[K", err=True, nl=False)
            self._passing = False


def _left_text(share: float, seconds: float) -> str:
    """Estimate the time left at the rate so far; empty while that is uncertain."""
    if share < LEAST_SHARE:
        return ""
    return f", about {seconds * (1 - share) / share:.0f} s left"
