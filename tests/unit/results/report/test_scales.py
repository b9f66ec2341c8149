"""Axes of runs beside each other: equally far for what is the same, and said where they are not."""

import dataclasses

import numpy as np
import pytest

from results.report.page import figures_of, reaches_of, shared_by
from results.report.run_data import RunData, read_run
from results.report.scales import FAR_APART, MOST_SECONDS, Quantity, Reach, shared
from results.report.style import BESIDE_IN
from tests.support.run_folder import write_run

Limits = dict[tuple[str, int], tuple[float, ...]]


@pytest.fixture(scope="module")
def gray(tmp_path_factory: pytest.TempPathFactory) -> RunData:
    return read_run(write_run(tmp_path_factory.mktemp("runs") / "gray"))


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> RunData:
    return read_run(write_run(tmp_path_factory.mktemp("runs") / "healthy", link=None))


def times(run: RunData, factor: float) -> RunData:
    """The same run, so many times as long, and so many times the goodput."""
    at = run.progress.at_ns - run.zero_ns
    progress = dataclasses.replace(
        run.progress,
        at_ns=run.zero_ns + (at * factor).astype(np.int64),
        acked_bytes=(run.progress.acked_bytes * factor**2).astype(np.int64),
    )
    return dataclasses.replace(run, progress=progress)


def limits(runs: list[RunData]) -> list[Limits]:
    """Of every figure of every run the limits of its axes, by figure and number; planes have no scale."""
    shared_reaches = shared_by(runs)
    return [
        {
            (drawn.name, at): (*axes.get_xlim(), *axes.get_ylim())
            for drawn in figures_of(run, BESIDE_IN, shared_reaches)
            if drawn.figure is not None and drawn.name != "fabric"
            for at, axes in enumerate(drawn.figure.axes)
        }
        for run in runs
    ]


def test_all_axes_of_two_runs_reach_equally_far(gray: RunData, healthy: RunData) -> None:
    first, second = limits([gray, times(healthy, 2)])
    rows_of_faults = ("timeline", 0)
    assert len(first) > 12
    assert {name for name in first.keys() & second.keys() if first[name] != second[name]} <= {rows_of_faults}
    alone, other = (reaches_of(run) for run in (gray, times(healthy, 2)))
    assert alone[Quantity.SECONDS] != other[Quantity.SECONDS]
    assert alone[Quantity.GOODPUT] != other[Quantity.GOODPUT]


def test_times_that_are_far_apart_are_not_shared_and_figures_say_so(gray: RunData) -> None:
    runs = [gray, times(gray, 2 * MOST_SECONDS)]
    first, second = limits(runs)
    axis = next(name for name in first if name[0] == "timeline")
    assert first[axis][1] < second[axis][1]
    for run in runs:
        timeline = next(each for each in figures_of(run, BESIDE_IN, shared_by(runs)) if each.name == "timeline")
        assert "first packet, own scale" in timeline.svg
        assert "bars, own scale" in timeline.svg
    alone = next(each for each in figures_of(gray) if each.name == "timeline")
    assert "own scale" not in alone.svg


def test_the_smaller_run_sets_where_a_shared_axis_becomes_logarithmic() -> None:
    small, large = Reach(-0.5, 0.1), Reach(-0.5 * FAR_APART, 0.0)
    assert shared([{Quantity.OFF: small}, {Quantity.OFF: large}]) == {Quantity.OFF: Reach(large.low, 0.1)}
    larger = Reach(large.low * 1.1, 0.0)
    joined = shared([{Quantity.OFF: small}, {Quantity.OFF: larger}, {}])
    assert joined == {Quantity.OFF: Reach(larger.low, 0.1, linear_to=0.5)}
    assert "log from 0.5" in joined[Quantity.OFF].words


def test_colour_is_never_logarithmic_so_that_healthy_paths_have_none() -> None:
    joined = shared([{Quantity.MISSING: Reach(0.0, 0.1)}, {Quantity.MISSING: Reach(0.0, 100.0)}])[Quantity.MISSING]
    assert joined == Reach(0.0, 100.0)
    assert float(joined.norm()(0.1)) == pytest.approx(0.001)


def test_what_is_zero_is_flat_on_any_scale() -> None:
    reaches = [{Quantity.RESENT: Reach(0.0, high)} for high in (0.0, 100.0, 5000.0)]
    assert shared(reaches[:2]) == {Quantity.RESENT: Reach(0.0, 100.0)}
    assert shared(reaches) == {Quantity.RESENT: Reach(0.0, 5000.0, linear_to=100.0)}
    assert shared(reaches[:1]) == {Quantity.RESENT: Reach(0.0, 0.0)}


def test_far_apart_runs_are_drawn_on_one_logarithmic_axis(gray: RunData) -> None:
    verdicts = gray.verdicts
    dead = verdicts.count * (verdicts.code == 0)
    runs = [gray, dataclasses.replace(gray, verdicts=dataclasses.replace(verdicts, count=dead))]
    drawn = [figures_of(run, BESIDE_IN, shared_by(runs))[1] for run in runs]
    assert all(each.figure is not None and each.figure.axes[0].get_yscale() == "symlog" for each in drawn)
    assert all("% off what was expected, log from" in each.svg for each in drawn)
