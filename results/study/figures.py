"""Draws figures of a study, as SVG, PNG and PDF, from its tidy tables and nothing else.

Each function draws one figure, or returns None if the study has no data for it.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from results.files.user_files import make_folder, replacing
from results.matplotlib_settings import own_settings
from results.report.style import COLUMN_IN, SETTINGS
from results.study.tables import telling, values_of

Line = Mapping[str, Any]

_STYLE: Any = {
    "font.size": 8, "axes.labelsize": 8, "legend.fontsize": 7, "xtick.labelsize": 7, "ytick.labelsize": 7,
    "axes.grid": True, "lines.linewidth": 1.2, "lines.markersize": 3.5, "svg.hashsalt": "spraylab", "savefig.dpi": 200,
}  # fmt: skip
"""Settings in addition to those of reports: smaller, for a column of a paper."""
_SIZE_IN = (COLUMN_IN, 2.4)

_BESIDE_AXES_IN, _LETTER_IN, _APART_IN = 0.7, 0.058, 0.1
"""Width beside the axes; of a digit of a number at an axis; of free space between two numbers (tried)."""

_LEGEND_LINE_IN = 0.15
_LEGEND_LETTERS = {3: 12, 2: 22}
"""Letters of the longest label with which this many columns of a legend fit (tried)."""
_PERFECT = 0.002
"""Area under a ROC curve that is in the corner, where nothing can be seen. Our choice."""

_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Okabe and Ito's colours, which everybody can distinguish."""

_MARKERS = "osD^vPX"
_DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)))
"""Line styles of curves, in turn: a curve shows in the gaps of one above it."""
_APART_PT, _SPREAD_PT, _WIDEST, _NARROWEST = 3.0, 14.0, 2.2, 1.0
"""Distance between the marks of two curves at one measured point, and between the first and the last curve at
most; their widths (our choice).
"""

_TITLE_LETTERS = 52
"""Letters per line of a legend's title, by the width of a figure."""

_OF_CELL = ("spray", "expectation", "loss_policy", "rate", "packets", "spines", "failure")
_OF_ROC = ("spray", "expectation", "loss_policy", "asked_rate", "packets", "spines")
_POINTS = 3
"""Least points of a curve: any two make a line (our choice)."""


def draw_figures(cells: Sequence[Line], roc: Sequence[Line], folder: Path) -> list[Path]:
    """Draw every figure that these tables have data for; return the files written. Raises OSError."""
    drawings: dict[str, Callable[[], Figure | None]] = {
        "roc": lambda: roc_figure(roc),
        "misses": lambda: misses_figure(cells),
        "spines": lambda: spines_figure(cells),
        "named": lambda: named_figure(cells),
        "time-to-detect": lambda: time_figure(cells),
        "failures": lambda: failures_figure(cells),
    }
    written = []
    with own_settings(SETTINGS | _STYLE):
        for name, draw in drawings.items():
            if (figure := draw()) is not None:
                make_folder(folder)
                written += _save(figure, folder / name)
    return written


def roc_figure(roc: Sequence[Line]) -> Figure | None:
    """Draw missed failed paths against false positives per healthy flow, over all thresholds; of many curves a
    choice.

    The dotted line is a test without information: it misses one path as often as it accuses none of k, so 1 - x = y^k.
    """
    names = [*_OF_ROC, *telling(roc, _OF_ROC)]
    curves = _telling(_grouped(roc, names))
    if not curves:
        return None
    figure, axes = _axes("share of healthy flows accused", "share of failed paths missed")
    spines = {key[_OF_ROC.index("spines")] for key in curves}
    if len(spines) == 1:
        alarms = np.linspace(0, 1, 201)
        axes.plot(alarms, (1 - alarms) ** (1 / spines.pop()), ":", color="0.6", linewidth=0.8)
    for at, (key, lines) in enumerate(curves.items()):
        x, y = zip(*_by_alarms(lines), strict=True)
        axes.plot(x, y, **_look(at, len(curves)), label=_label(curves, key, names), drawstyle="steps-post")
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    return _legend(figure, axes, _shared(curves, names))


def _by_alarms(lines: Iterable[Line]) -> list[tuple[float, float]]:
    """Extend a curve from all misses to all false positives."""
    return sorted(((line["false_alarm_rate"], line["miss_rate"]) for line in lines), key=lambda at: (at[0], -at[1]))


def _telling(curves: dict[tuple[Any, ...], list[Line]]) -> dict[tuple[Any, ...], list[Line]]:
    """Choose at most one curve per colour: evenly from the worst to the best, by the area under them."""
    if len(curves) <= len(_COLORS):
        return curves
    ordered = sorted(curves, key=lambda key: _area(_by_alarms(curves[key])))
    imperfect = [key for key in ordered if _area(_by_alarms(curves[key])) > _PERFECT] or ordered
    last = len(imperfect) - 1
    chosen = {imperfect[round(last * at / (len(_COLORS) - 1))] for at in range(len(_COLORS))}
    return {key: lines for key, lines in curves.items() if key in chosen}


def _area(points: Sequence[tuple[float, float]]) -> float:
    return sum((right[0] - left[0]) * left[1] for left, right in pairwise(points))


def misses_figure(cells: Sequence[Line]) -> Figure | None:
    """Draw the false-negative rate against packets per spine, one curve per drop rate (SprayCheck E3)."""
    names, curves = _varying(_failing(cells), "packets")
    return _curves(names, curves, "packets", "packets on each spine", "share of failed paths missed", "miss")


def spines_figure(cells: Sequence[Line]) -> Figure | None:
    """Draw the share of failed links that are named against the number of spines (SprayCheck S8)."""
    names, curves = _varying(_failing(cells), "spines")
    return _curves(names, curves, "spines", "spines", "share of failed links named", "link_found", base=2)


def named_figure(cells: Sequence[Line]) -> Figure | None:
    """Draw the share of runs that named every failed link, by requested packets per spine."""
    names, curves = _varying(_failing(cells), "packets")
    return _curves(names, curves, "packets", "packets on each spine", "share of runs that named all", "found")


def time_figure(cells: Sequence[Line]) -> Figure | None:
    """Draw seconds until every link was finally named, median and longest, by packets per spine; measured on a
    fabric.
    """
    timed = [cell for cell in _failing(cells) if cell["mode"] == "fabric" and cell["seconds_median"] is not None]
    names, curves = _varying(timed, "packets")
    if not curves:
        return None
    figure, axes = _axes("packets on each spine", "seconds until named: median, longest")
    measured = {line["packets"] for lines in curves.values() for line in lines}
    for at, (key, lines) in enumerate(curves.items()):
        ordered = sorted(lines, key=lambda line: int(line["packets"]))
        medians = [line["seconds_median"] for line in ordered]
        above = [max(line["seconds_max"] - line["seconds_median"], 0.0) for line in ordered]
        places = _beside([line["packets"] for line in ordered], at, len(curves), measured)
        axes.errorbar(
            places, medians, ([0.0] * len(above), above),
            fmt=_marker(at), **_look(at, len(curves)), label=_label(curves, key, names), elinewidth=0.7, capsize=1.5,
        )  # fmt: skip
    axes.set_xscale("log")
    _tick_measured(axes, measured)
    axes.set_ylim(bottom=0)
    return _legend(figure, axes, _shared(curves, names))


def failures_figure(cells: Sequence[Line]) -> Figure | None:
    """Draw links named, and runs that accused a healthy link, by kind of failure."""
    failing = _failing(cells)
    kinds = list(dict.fromkeys(cell["failure"] for cell in failing))
    if len(kinds) < 2:
        return None
    figure, axes = _axes("", "share")
    found = [cell for cell in failing if cell["link_found_of"]]
    names = _names(found, "failure")
    groups = _grouped(found, names)
    for at, (key, lines) in enumerate(groups.items()):
        by_kind = {line["failure"]: line for line in lines}
        shift = (at - (len(groups) - 1) / 2) * 0.8 / max(len(groups), 1)
        places = [kinds.index(kind) + shift for kind in by_kind]
        look = {"color": _color(at), "linestyle": ""}
        _with_bars(axes, places, list(by_kind.values()), "link_found", look, _label(groups, key, names))
        wrong = [line["wrong_rate"] for line in by_kind.values()]
        axes.plot(places, wrong, "x", color=_color(at), markersize=4)
    axes.set_xticks(range(len(kinds)), [kind.replace("-", "\n", 1) for kind in kinds])
    axes.plot([], [], "x", color="0.3", label="runs that accused a healthy link")
    return _legend(figure, axes, _shared(groups, names))


def _curves(
    names: Sequence[str],
    curves: Mapping[tuple[Any, ...], Sequence[Line]],
    x: str,
    x_label: str,
    y_label: str,
    y: str,
    base: int = 10,
) -> Figure | None:
    if not curves:
        return None
    figure, axes = _axes(x_label, y_label)
    measured = {line[x] for lines in curves.values() for line in lines}
    for at, (key, lines) in enumerate(curves.items()):
        ordered = sorted((line for line in lines if line[f"{y}_of"]), key=lambda line: float(line[x]))
        places = _beside([line[x] for line in ordered], at, len(curves), measured)
        _with_bars(axes, places, ordered, y, _look(at, len(curves)), _label(curves, key, names), _marker(at))
    axes.set_xscale("log", base=base)
    _tick_measured(axes, measured)
    axes.set_ylim(-0.03, 1.03)
    return _legend(figure, axes, _shared(curves, names))


def _tick_measured(axes: Axes, values: Iterable[float]) -> None:
    """Set ticks only where something was measured, with numbers as far as they have room.

    The largest and the smallest number come first, then those between from left to right.
    """
    low, *between, high = sorted(set(values)) if len(set(values)) > 1 else [*values] * 2
    inch = _SIZE_IN[0] - _BESIDE_AXES_IN
    span = math.log(high / low) or 1.0
    shown: dict[float, tuple[float, float]] = {}
    for value in dict.fromkeys((high, low, *between)):
        at, half = math.log(value / low) / span * inch, len(f"{value:,}") * _LETTER_IN / 2 + _APART_IN / 2
        if all(at + half <= left or at - half >= right for left, right in shown.values()):
            shown[value] = at - half, at + half
    axes.set_xticks(sorted(shown), [f"{value:,}" for value in sorted(shown)])
    axes.set_xticks(sorted({low, *between, high}), minor=True)
    axes.xaxis.set_minor_formatter(NullFormatter())


def _with_bars(
    axes: Axes, x: Sequence[float], lines: Sequence[Line], y: str, look: Mapping[str, Any], label: str, mark: str = "o"
) -> None:
    """Draw rates with their intervals."""
    rates = [each[f"{y}_rate"] for each in lines]
    below = [max(rate - each[f"{y}_low"], 0.0) for rate, each in zip(rates, lines, strict=True)]
    above = [max(each[f"{y}_high"] - rate, 0.0) for rate, each in zip(rates, lines, strict=True)]
    axes.errorbar(x, rates, (below, above), fmt=mark, **look, label=label, elinewidth=0.7, capsize=1.5)


def _beside(x: Sequence[float], at: int, curves: int, measured: Iterable[float]) -> list[float]:
    """Return places on a logarithmic axis near the measured ones, so that no curve's marks hide those of another.

    All curves' marks stand around the tick, _APART_PT from one to the next; `measured` is everything along the axis.
    """
    measured = list(measured)
    span = math.log(max(measured) / min(measured)) or 1.0
    points = (at - (curves - 1) / 2) * min(_APART_PT, _SPREAD_PT / max(curves - 1, 1))
    return [each * math.exp(span * points / (72 * (_SIZE_IN[0] - _BESIDE_AXES_IN))) for each in x]


def _failing(cells: Iterable[Line]) -> list[Line]:
    return [cell for cell in cells if cell["failure"] not in ("none", "host-link") and cell["runs"]]


def _varying(lines: Sequence[Line], x: str) -> tuple[list[str], dict[tuple[Any, ...], list[Line]]]:
    """Return curves along `x` with at least _POINTS points, and their names."""
    names = _names(lines, x)
    groups = _grouped(lines, names)
    return names, {key: part for key, part in groups.items() if len({line[x] for line in part}) >= _POINTS}


def _names(lines: Sequence[Line], x: str) -> list[str]:
    """Return the columns that distinguish curves along `x`."""
    names = [name for name in _OF_CELL if name != x]
    return [*names, *(name for name in telling(lines, [*names, x]) if name != x)]


def _grouped(lines: Iterable[Line], names: Sequence[str]) -> dict[tuple[Any, ...], list[Line]]:
    groups: dict[tuple[Any, ...], list[Line]] = defaultdict(list)
    for line in lines:
        groups[values_of(line, names)].append(line)
    return dict(groups)


def _label(groups: Iterable[tuple[Any, ...]], key: tuple[Any, ...], names: Sequence[str]) -> str:
    """Name what distinguishes this group from the others; each value states its quantity."""
    all_keys = list(groups)
    differing = [at for at in range(len(key)) if len({each[at] for each in all_keys}) > 1]
    return ", ".join(_named(names[at], key[at]) for at in differing) or "all runs"


_NO_BREAK = "\N{NO-BREAK SPACE}"
_UNITS = {
    "rate": "{} dropped", "asked_rate": "asked to find {}", "packets": "{} packets", "spines": "{} spines",
    "loss_policy": "loss policy {}", "failure": "failure: {}", "planes": "{} planes", "leaves": "{} leaves",
    "strides": "strides {}", "allowed_miss": "{} misses allowed", "allowed_false_alarm": "{} false alarms allowed",
}  # fmt: skip


def _named(name: str, value: Any) -> str:
    return _UNITS.get(name, "{}").format(_word(value))


def _shared(groups: Iterable[tuple[Any, ...]], names: Sequence[str]) -> str:
    """State what all groups have in common, for the title of a legend; differences are in their labels."""
    said = []
    for name, values in zip(names, zip(*groups, strict=True), strict=True):
        if len(set(values)) == 1:
            said.append(_named(name, values[0]))
    whole = ", ".join(one.replace(" ", _NO_BREAK) for one in said)
    return "\n".join(wrap(whole, _TITLE_LETTERS)).replace(_NO_BREAK, " ")


def _word(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    if isinstance(value, float):
        return f"{value:.3g}".rstrip("0").rstrip(".") if value > 1 else f"{100 * value:.4g} %"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _axes(x_label: str, y_label: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=_SIZE_IN, layout="constrained")
    axes = figure.add_subplot()
    axes.set(xlabel=x_label, ylabel=y_label)
    return figure, axes


def _legend(figure: Figure, axes: Axes, title: str) -> Figure:
    """Place the legend below the axes, where it hides nothing; a figure grows by its lines."""
    handles, labels = axes.get_legend_handles_labels()
    longest = max(map(len, labels), default=0)
    columns = next((n for n, letters in _LEGEND_LETTERS.items() if longest <= letters), 1)
    width, height = _SIZE_IN
    lines = -(-len(labels) // columns) + len(title.splitlines())
    figure.set_size_inches(width, height + _LEGEND_LINE_IN * lines)
    figure.legend(
        handles, labels, loc="outside lower center", ncols=columns, frameon=False, handlelength=1.6, title=title,
        title_fontsize=7,
    )  # fmt: skip
    return figure


def _save(figure: Figure, stem: Path) -> list[Path]:
    paths = [stem.with_suffix(".svg"), stem.with_suffix(".png"), stem.with_suffix(".pdf")]
    with replacing(paths[0]) as svg:
        figure.savefig(svg, format="svg", metadata={"Date": None})
    with replacing(paths[1]) as png:
        figure.savefig(png, format="png")
    with replacing(paths[2]) as pdf:
        figure.savefig(pdf, format="pdf", metadata={"CreationDate": None})
    return paths


def _look(at: int, curves: int) -> dict[str, Any]:
    """Return colour, dashes and width of a curve; later curves are drawn over earlier ones and are narrower."""
    width = _WIDEST - (_WIDEST - _NARROWEST) * at / max(curves - 1, 1) if curves > 1 else _NARROWEST
    return {"color": _color(at), "linestyle": _DASHES[at % len(_DASHES)], "linewidth": width}


def _color(at: int) -> str:
    return _COLORS[at % len(_COLORS)]


def _marker(at: int) -> str:
    return _MARKERS[at % len(_MARKERS)]
