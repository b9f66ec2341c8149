"""Runs a grid of runs, on the fabric or on a model of it, and makes tables and figures: `spraylab study`."""

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click
from click.shell_completion import CompletionItem

from agent.base.system_calls import signal_at_death_of
from agent.core.config import SprayPolicy
from agent.spraycheck.statistics.verdicts import Expectation
from results.text import count_text, share_text
from scenarios.cli.options import of_lab, require_root, with_output
from scenarios.cli.output import Listener, Output, draw_aside
from scenarios.cli.parameters import GivenPath, Whole
from scenarios.errors import UsageError
from scenarios.file.scenario_files import study_names
from scenarios.interrupts import interrupts_raise
from scenarios.lab.lab_dir import LabDir
from scenarios.study.loss_policy import LossPolicy
from testbed.model.fabric import Fabric, FabricSpec

if TYPE_CHECKING:
    from scenarios.study.folder import StudyFolder
    from scenarios.study.model import Study
    from scenarios.study.score import Row

NO_POLICY = "off"
"""Loss policy of all senders where a study does not set one; its tables do not show it then."""

SHOWN = ("mode", "spray", "expectation", "loss_policy", "spines", "packets", "rate", "failure")
"""Columns of a cell in the printed table; others that distinguish two cells are added where needed."""

SPRAYS, EXPECTATIONS = [each.value for each in SprayPolicy], [each.value for each in Expectation]
LOSS_POLICIES = get_args(LossPolicy)


def _studies_like(_context: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    names = [CompletionItem(name) for name in study_names() if name.startswith(incomplete)]
    return names or [CompletionItem(incomplete, type="file")]


@click.command("study")
@click.argument("study", required=False, metavar="STUDY", shell_complete=_studies_like)
@click.option(
    "--simulate", is_flag=True, help="Run on a model of the network, with the real code of senders and leaves."
)
@click.option("--folder", type=GivenPath(), help="Folder for results.  [default: studies/NAME]")
@click.option("--seeds", type=Whole(0), help="Runs per point, with and without a failure; replaces the study's.")
@click.option("--rate", "rates", multiple=True, help="Drop rate; replaces the study's; repeatable.")
@click.option("--packets", multiple=True, type=Whole(), help="Packets per spine; replaces the study's; repeatable.")
@click.option("--spines", multiple=True, type=Whole(), help="Spines; replaces the study's; repeatable.")
@click.option("--spray", multiple=True, type=click.Choice(SPRAYS), help="Spray policy; replaces the study's.")
@click.option("--expectation", multiple=True, type=click.Choice(EXPECTATIONS), help="Replaces the study's.")
@click.option("--loss-policy", multiple=True, type=click.Choice(LOSS_POLICIES), help="Replaces the study's.")
@click.option("--tables-only", is_flag=True, help="Run nothing; make tables and figures of finished runs.")
@click.option("--no-figures", is_flag=True, help="Make tables only.")
@of_lab
@with_output
def command(
    labdir: LabDir,
    output: Output,
    study: str | None,
    simulate: bool,
    folder: Path | None,
    tables_only: bool,
    no_figures: bool,
    **given: Any,
) -> None:
    """Run STUDY, a catalog name or a file, and print error rates with 95 % intervals.

    Each finished run is a line of results.jsonl in the folder; repeat the command to resume an interrupted study.
    """
    from scenarios.lab.start.requirements import lacks_of_folder, require
    from scenarios.study.folder import StudyFolder
    from scenarios.study.load import find_study, load_study

    chosen = load_study(find_study(study), _instead(**given))
    kept = StudyFolder(folder or Path("studies") / chosen.name)
    if tables_only:
        if not kept.rows():
            raise UsageError(f"nothing has been run in {kept.path} yet; name another folder with --folder")
        kept.require_of(chosen)
    else:
        if not simulate:
            require_root()
        elif chosen.loss_policy != (NO_POLICY,):
            raise UsageError("a model has no senders that retire paths; --loss-policy off, or a fabric")
        require(lacks_of_folder(kept.path))
        kept.begin(chosen)
        with interrupts_raise():
            (_simulate if simulate else _on_fabric)(chosen, kept, labdir, output)
    cells, roc = kept.write_tables()
    if output.as_json:
        output.document(cells)
    else:
        _print(cells, output)
    if not no_figures:
        again = f"the study is complete; `spraylab study {study} --tables-only` draws it"
        draw_aside(lambda: kept.draw(cells, roc), "figures", again)
    if not output.as_json:
        output.text(f"in {kept.path}: {', '.join(kept.holds())}")


def _instead(seeds: int | None, rates: Sequence[str], packets: Sequence[int], **lists: Sequence[Any]) -> dict[str, Any]:
    values: dict[str, Any] = {name: tuple(value) for name, value in lists.items() if value}
    if seeds is not None:
        values |= {"seeds": seeds, "healthy_seeds": seeds}
    if rates or packets:
        values |= {"pairs": ()}
    return values | {name: value for name, value in (("rates", rates), ("packets", packets)) if value}


def _simulate(study: "Study", folder: "StudyFolder", _labdir: LabDir, output: Output) -> None:
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    from scenarios.study.run import open_points, run_points, simulated
    from scenarios.study.simulate import simulate

    points = open_points(study, folder, "simulated")
    context = multiprocessing.get_context("fork")  # so that this process, and no server of it, is their parent
    with ProcessPoolExecutor(os.cpu_count(), context, _begin_worker, (os.getpid(),)) as pool:
        rows = simulated(points, simulate, pool)
        run_points(
            points, rows, folder, _Watcher(output, "simulated", len(points), study), len(folder.done("simulated"))
        )


def _begin_worker(parent: int) -> None:
    """Ignore Ctrl-C in workers, because it reaches the whole process group; the parent ends them."""
    signal_at_death_of(parent, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def _on_fabric(study: "Study", folder: "StudyFolder", labdir: LabDir, output: Output) -> None:
    from scenarios.lab.start.requirements import lacks_of_lab, require
    from scenarios.study.run_points import StudyLab
    from scenarios.study.model import without_effect
    from scenarios.study.run import open_points, run_points, runs_of

    for warning in without_effect(study):
        output.say(warning)
    points = open_points(study, folder, "fabric")
    sizes = dict.fromkeys(FabricSpec(point.planes, point.leaves, point.spines) for point in points)
    require(lack for spec in sizes for lack in lacks_of_lab(Fabric.of(spec)))
    listener = Listener(Output(quiet=not output.verbose))
    with StudyLab(labdir, folder.path / "runs", listener) as lab:
        rows = (row for run in runs_of(points) for row in lab.run(run))
        run_points(points, rows, folder, _Watcher(output, "measured", 1, study), len(folder.done("fabric")))


class _Watcher:
    """Shows on stderr how a study proceeds: every run on a fabric, every few runs on a model."""

    def __init__(self, output: Output, verb: str, every: int, study: "Study") -> None:
        self._output, self._verb, self._every = output, verb, max(1, every // 20)
        self._with_policy = study.loss_policy != (NO_POLICY,)
        self._left, self._began = 0, time.monotonic()

    def begun(self, left: int, done: int) -> None:
        """Report the number of runs."""
        self._left = left
        found = f", {count_text(done, 'run')} found done" if done else ""
        self._output.say(f"{count_text(left, 'run')} to do{found}")

    def finished(self, row: "Row", at: int) -> None:
        """Count one finished run."""
        if at % self._every == 0 or at == self._left:
            rest = (time.monotonic() - self._began) * (self._left - at) / at
            left = f" (about {rest:.0f} s left)" if at < self._left else ""
            self._output.say(f"{self._verb} {at:,} of {self._left:,}{left}: {_told(row, self._with_policy)}")


def _told(row: "Row", with_policy: bool) -> str:
    what = "no failure" if row.failure == "none" else f"{row.failure} at {share_text(row.rate)}"
    named = ", ".join(row.named) or row.state
    policy = f"loss policy {row.loss_policy}, " if with_policy else ""
    sizes = f"{row.packets:,} packets x {row.spines:,} spines"
    return f"{row.spray}, {row.expectation}, {policy}{sizes}, {what}, seed {row.seed}: {named}"


_LEGEND = (
    "happened/of how many (exact 95 % interval). miss: paths over a link that drops, not judged failed. false_flow: "
    "flows over no such link, with a path judged failed. found: runs that named every link that drops. wrong: runs "
    "that named a link that does not drop"
)
"""Explain the columns of the table."""


def _print(cells: Sequence[dict[str, Any]], output: Output) -> None:
    from results.study.tables import telling

    policy = ("loss_policy",) if any(cell["loss_policy"] != NO_POLICY for cell in cells) else ()
    more = telling(cells, SHOWN)
    columns = (
        "mode", "spray", "expectation", *policy, *map(str.upper, more), "SPINES", "PACKETS", "RATE", "failure", "RUNS",
        "MISS", "INSUFFICIENT", "FALSE_FLOW", "FOUND", "WRONG",
    )  # fmt: skip
    rows = [
        (
            cell["mode"], cell["spray"], cell["expectation"], *(cell[name] for name in policy),
            *(_value(cell[name]) for name in more), f"{cell['spines']:,}", f"{cell['packets']:,}",
            share_text(cell["rate"]), cell["failure"], f"{cell['runs']:,}", _share(cell, "miss"),
            _share(cell, "insufficient"), _share(cell, "false_flow"),
            "-" if cell["failure"] == "none" else _share(cell, "found"), _share(cell, "wrong"),
        )
        for cell in cells
    ]  # fmt: skip
    output.table(columns, rows, "no run is finished yet")
    if rows:
        output.text(_LEGEND)
    if "asked_rate" in more:
        output.text("asked_rate: the smallest drop rate that the tests have to find; rate is what the link dropped")
    if unsure := [cell["mode"] for cell in cells if cell["insufficient"]]:
        why = "; of a folder in runs/ `spraylab detect FOLDER` says why" if "fabric" in unsure else ""
        output.text(
            "insufficient: paths that are not judged (too few packets, or counts that contradict each other"
            f"{why}); a failed one among them counts as missed "
            "(docs/detector-measurements.md#compared-with-the-paper)"
        )


def _value(value: Any) -> str:
    if isinstance(value, float):
        return share_text(value)
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _share(cell: dict[str, Any], name: str) -> str:
    """Format `3/320 (0.19-2.7%)`: how many events, of how many, and the bounds of the rate."""
    if not cell[f"{name}_of"]:
        return "-"
    low, high = 100 * cell[f"{name}_low"], 100 * cell[f"{name}_high"]
    return f"{cell[name]:,}/{cell[f'{name}_of']:,} ({low:.3g}-{high:.3g}%)"
