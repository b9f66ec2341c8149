"""Figures of what varies, and of nothing else."""

import re
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest

from results.report.style import COLUMN_IN
from results.study.figures import draw_figures, misses_figure, roc_figure, time_figure
from results.study.tables import cells_table, roc_table
from tests.unit.results.test_study_table import row


def test_a_study_of_one_cell_has_only_its_curve(tmp_path):
    rows = [row()]
    drawn = draw_figures(cells_table(rows), roc_table(rows), tmp_path)
    assert [path.name for path in drawn] == ["roc.svg", "roc.png", "roc.pdf"]


def test_what_varies_is_drawn_and_repeats_byte_by_byte(tmp_path):
    rows = [
        row(packets=packets, spines=spines, failure=failure)
        for packets in (100, 300, 1000) for spines in (4, 8, 16) for failure in ("one", "same-leaf")
    ]  # fmt: skip
    tables = cells_table(rows), roc_table(rows)
    first, second = (draw_figures(*tables, tmp_path / name) for name in ("a", "b"))
    assert {path.stem for path in first} == {"roc", "misses", "spines", "named", "failures"}
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
    svg = ElementTree.parse(tmp_path / "a" / "misses.svg").getroot()
    texts = " ".join(text for text in svg.itertext())
    assert "packets on each spine" in texts
    assert {"100", "300", "1,000"} <= set(texts.split()), "ticks are where something was measured"
    assert "10^" not in texts.replace("\N{MINUS SIGN}", "")
    assert "serif" not in (tmp_path / "a" / "misses.svg").read_text().replace("sans-serif", "")
    media_box = re.search(rb"/MediaBox \[ ?0 0 ([\d.]+) ", (tmp_path / "a" / "misses.pdf").read_bytes())
    assert media_box
    assert float(media_box[1]) == pytest.approx(72 * COLUMN_IN)


def texts_of(svg):
    return " ".join(ElementTree.parse(svg).getroot().itertext())


def test_seconds_are_drawn_of_fabric_cells_only(tmp_path):
    rows = [
        row(mode=mode, packets=packets, seconds=None if mode == "simulated" else packets / 100 + late)
        for mode in ("simulated", "fabric") for packets in (100, 300, 1000) for late in (0, 1, 5)
    ]  # fmt: skip
    figure = time_figure(cells_table(rows))
    ((line, _, (bars,)),) = figure.axes[0].containers
    assert line.get_xydata().tolist() == [[100, 2], [300, 4], [1000, 11]]
    assert [float(bar[1][1]) for bar in bars.get_segments()] == [6, 8, 15]
    assert time_figure(cells_table(rows[:9])) is None
    assert time_figure(cells_table(rows[-6:])) is None


def test_a_legend_says_what_all_curves_share_and_what_they_do_not(tmp_path):
    rows = [row(expectation=expectation) for expectation in ("uniform", "declared")]
    draw_figures(cells_table(rows), roc_table(rows), tmp_path)
    text = texts_of(tmp_path / "roc.svg")
    assert "rotation, loss policy off" in text
    assert {"uniform", "declared"} <= set(text.split())
    draw_figures([], roc_table(rows[:1]), tmp_path)
    assert "rotation, uniform, loss policy off" in texts_of(tmp_path / "roc.svg")


def test_curves_of_different_experiments_stay_apart_and_say_what_differs(tmp_path):
    rows = [
        row(packets=packets, allowed_miss=miss, strides=strides)
        for packets in (100, 300, 1000)
        for miss, strides in ((0.001, [1, 3]), (0.01, [1]))
    ]
    draw_figures(cells_table(rows), roc_table(rows), tmp_path)
    assert "strides 1 3" in texts_of(tmp_path / "misses.svg")
    rows = [row(packets=packets, allowed_miss=miss) for packets in (100, 300, 1000) for miss in (0.001, 0.01)]
    draw_figures(cells_table(rows), roc_table(rows), tmp_path)
    for name in ("misses", "roc"):
        assert "1 % misses allowed" in texts_of(tmp_path / f"{name}.svg"), name


def test_a_test_that_tells_nothing_is_the_dotted_line():
    rng = np.random.default_rng(7)
    rows = [
        row(spines=4, bad_scores=rng.random(20_000).tolist(), good_scores=rng.random((20_000, 4)).max(axis=1).tolist())
    ]
    none, curve = (line.get_xydata() for line in roc_figure(roc_table(rows)).axes[0].lines)
    assert np.abs(np.interp(curve[:, 0], *none.T) - curve[:, 1])[curve[:, 0] < 0.95].max() < 0.02
    other = [*rows, row(spines=8)]
    assert len(roc_figure(roc_table(other)).axes[0].lines) == 2


def test_nothing_done_draws_nothing(tmp_path):
    assert draw_figures([], [], tmp_path / "none") == []
    assert not (tmp_path / "none").exists()


def test_numbers_of_close_measured_points_do_not_run_into_each_other(tmp_path):
    packets = (100, 600, 1000, 3000, 4000, 5000, 6000, 60_000)
    rows = [row(packets=each) for each in packets]
    figure = misses_figure(cells_table(rows))
    (axes,) = figure.axes
    figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in axes.get_xticklabels()]
    assert len(boxes) >= 4
    assert all(left.x1 + 2 < right.x0 for left, right in pairwise(boxes))
    assert [label.get_text() for label in axes.get_xticklabels()][:: len(boxes) - 1] == ["100", "60,000"]
    assert {round(float(at)) for at in axes.xaxis.get_minorticklocs()} | set(axes.get_xticks()) == set(packets)


def test_equal_curves_do_not_hide_each_other():
    rows = [row(packets=packets, expectation=by) for packets in (100, 1000, 10_000) for by in ("uniform", "declared")]
    figure = misses_figure(cells_table(rows))
    figure.draw_without_rendering()
    (axes,) = figure.axes
    one, other = (container.lines[0] for container in axes.containers)
    assert np.array_equal(one.get_ydata(), other.get_ydata()), "they would lie on each other"
    apart = axes.transData.transform(other.get_xydata()) - axes.transData.transform(one.get_xydata())
    assert np.allclose(apart[:, 0] * 72 / figure.dpi, 3, atol=0.6)
    looks = [(line.get_color(), str(line.get_linestyle()), line.get_marker()) for line in (one, other)]
    assert all(len(set(each)) == 2 for each in zip(*looks, strict=True))
    middle = np.exp((np.log(one.get_xydata()[:, 0]) + np.log(other.get_xydata()[:, 0])) / 2)
    assert np.allclose(middle, (100, 1000, 10_000)), "around the tick"
