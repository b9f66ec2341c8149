"""Draws arrivals per spine beside the expected number and the threshold, for each pair of leaves."""

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgba
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from results.report import style
from results.report.detection import Verdict, Verdicts
from results.report.run_data import RunData
from results.report.scales import Quantity, Reach, Reaches
from results.text import count_text

PAIRS_NAME, PAIRS_TITLE = "arrivals", "Arrivals per spine, the flows with the least"
ALL_NAME, ALL_TITLE = "arrivals-all", "Arrivals per spine, all pairs of leaves"
MOST_FLOWS = 8
"""Most flows with a panel of their own (our choice)."""
MOST_ROWS = 48
"""Most rows in the figure of all pairs; with more, those with the fewest arrivals are shown."""

MOST_TICKS_OF_PAIR, MOST_TICKS_OF_ALL = 8, 32
"""Most numbers of spines below a panel, and below the map (tried in a browser)."""
MARGIN = 0.06
"""Space above and below the marks of a panel, as a share of its height (our choice)."""
LEAST_MISSING = 0.05
"""Lowest percentage that the strongest colour stands for, so that one or two packets do not stand out (our choice)."""

_STEPS = 24
"""Steps of the colour scale: with 50 or more a bar would be a bitmap, whose colours a dark page cannot change."""
_MISSING = LinearSegmentedColormap.from_list("missing", [to_rgba(style.FAULT, 0.0), to_rgba(style.FAULT, 1.0)], _STEPS)
"""Colours from nothing missing to most missing: one colour laid over CELL, so that it works on light and dark pages."""
PALE = 0.7
"""Share of the colour scale up to which marks are drawn in ink, above in the colour of paper. With ink above it, or
paper below it, the contrast would fall under three to one on a dark or a light page.
"""

_MARKS = {
    Verdict.HEALTHY: ("o", style.GOOD, "healthy"),
    Verdict.FAILED: ("X", style.FAULT, "failed"),
    Verdict.INSUFFICIENT: ("^", style.WARN, "not judged alone (insufficient)"),
    Verdict.OTHER: ("D", style.QUIET, "other"),
}


@dataclass(frozen=True)
class _Pair:
    """The verdicts on one pair of leaves in one plane, or on one flow between them."""

    plane: int
    src_leaf: int
    dst_leaf: int
    flow: tuple[int, int, int] | None
    """Hosts, source first, and the destination's queue pair; None for a pair of leaves."""
    rows: NDArray[np.intp]
    least: float
    """Smallest share of the expectation that arrived, in percent off; failed paths sort first."""

    @property
    def name(self) -> str:
        return f"p{self.plane}  leaf{self.src_leaf} > leaf{self.dst_leaf}"


def _flow_names(flows: list[_Pair], shown: int) -> list[str]:
    """Name the first flows by their leaves; if that is not unique also by their hosts, then by the queue pair."""
    of_leaves = Counter(each.name for each in flows)
    of_hosts = Counter((each.name, each.flow[:2]) for each in flows if each.flow is not None)
    names = []
    for each in flows[:shown]:
        name = each.name
        if each.flow is not None and of_leaves[each.name] > 1:
            source, destination, qpn = each.flow
            name += f"\nh{source} > h{destination}"
            name += f", QP {qpn:#x}" if of_hosts[each.name, each.flow[:2]] > 1 else ""
        names.append(name)
    return names


def reaches(data: RunData) -> dict[Quantity, Reach]:
    """Return the ranges of axes and colours."""
    verdicts, pairs = data.verdicts, _pairs(data.verdicts)
    if not pairs:
        return {}
    rows = np.concatenate([flow.rows for flow in _pairs(verdicts, by_flow=True)[:MOST_FLOWS]])
    told = np.r_[_off(verdicts, rows), _limits(verdicts, rows), 0.0]
    missing, _ = _worst(verdicts, pairs[:MOST_ROWS])
    return {
        Quantity.OFF: Reach(float(np.nanmin(told)), float(np.nanmax(told))),
        Quantity.SPINE: Reach(float(verdicts.spine.min()), float(verdicts.spine.max())),
        Quantity.MISSING: Reach(0.0, float(missing.max())),
    }


def draw(data: RunData, width_in: float, reach: Reaches) -> list[style.Drawn]:
    """Draw panels of the pairs that stand out, and one map of all; `reach` holds this run's ranges, or wider ones."""
    verdicts, pairs = data.verdicts, _pairs(data.verdicts)
    if not pairs:
        why = "no verdict was recorded (detect.jsonl)" if not len(verdicts) else "no verdict records what it expected"
        if unknown := data.silence(data.run.detect):
            why = f"the folder does not show what arrived ({unknown})"
        return [style.Drawn(name, title, "", absent=why)
                for name, title in ((PAIRS_NAME, PAIRS_TITLE), (ALL_NAME, ALL_TITLE))]  # fmt: skip
    flows = _pairs(verdicts, by_flow=True)
    return [_draw_flows(verdicts, flows, width_in, reach), _draw_all(verdicts, pairs, width_in, reach)]


def _off(verdicts: Verdicts, rows: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return how far arrivals are off the expectation, in percent of it."""
    off: NDArray[np.float64] = 100 * (verdicts.count[rows] / verdicts.expected[rows] - 1)
    return off


def _limits(verdicts: Verdicts, rows: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return the thresholds in the same percent; NaN where there is none."""
    limits: NDArray[np.float64] = 100 * (verdicts.threshold[rows] / verdicts.expected[rows] - 1)
    return limits


def has_thresholds(verdicts: Verdicts) -> bool:
    """Return whether any path was compared with a threshold; declared counts use a test of what is missing instead."""
    return bool(np.isfinite(verdicts.threshold).any())


def _pairs(verdicts: Verdicts, by_flow: bool = False) -> list[_Pair]:
    """Group verdicts by pair or flow: those with a failed verdict first, then by what is missing most."""
    usable = np.flatnonzero(verdicts.expected > 0)
    if not len(usable):
        return []
    of_flow = (verdicts.src_host, verdicts.dst_host, verdicts.qpn) if by_flow else ()
    keys = np.stack([each[usable] for each in (verdicts.plane, verdicts.src_leaf, verdicts.dst_leaf, *of_flow)])
    order = np.lexsort(keys[::-1])
    usable, keys = usable[order], keys[:, order]
    starts = np.flatnonzero(np.r_[True, (keys[:, 1:] != keys[:, :-1]).any(axis=0)])
    found = []
    for rows, start in zip(np.split(usable, starts[1:]), starts, strict=True):
        plane, src_leaf, dst_leaf, *hosts_qpn = (int(key) for key in keys[:, start])
        flow = (hosts_qpn[0], hosts_qpn[1], hosts_qpn[2]) if by_flow else None
        failed = bool((verdicts.code[rows] == Verdict.FAILED).any())
        least = float(_off(verdicts, rows).min()) - (1000 if failed else 0)
        found.append(_Pair(plane, src_leaf, dst_leaf, flow, rows, least))
    return sorted(found, key=lambda pair: (pair.least, pair.plane, pair.src_leaf, pair.dst_leaf, pair.flow or ()))


def _draw_flows(verdicts: Verdicts, flows: list[_Pair], width_in: float, reach: Reaches) -> style.Drawn:
    shown, names = flows[:MOST_FLOWS], _flow_names(flows, MOST_FLOWS)
    columns = min(2 if style.is_narrow(width_in) else 4, len(shown))
    rows = -(-len(shown) // columns)
    with style.styled():
        figure = style.blank(0.75 + 1.75 * rows, width_in)
        grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
        style.share_outer_axes(grid)
        for axes in grid.flat[len(shown) :]:
            axes.axis("off")
        for axes, flow, name in zip(grid.flat, shown, names, strict=False):
            _draw_flow(axes, verdicts, flow, name, reach)
        for axes in grid[-1]:
            axes.set_xlabel("spine")
        told = _failed_spines(verdicts, shown)
        ticks = _spine_ticks(reach[Quantity.SPINE], MOST_TICKS_OF_PAIR, told)
        grid.flat[0].set_xticks(ticks, [str(spine) for spine in ticks])
        figure.supylabel(f"% off what was expected{reach[Quantity.OFF].words}", fontsize=9)
        with_limits = has_thresholds(verdicts)
        rows_shown = np.concatenate([pair.rows for pair in shown])
        handles = _legend(with_limits, {Verdict(code) for code in verdicts.code[rows_shown]})
        figure.legend(handles=handles, loc="outside lower left", ncols=2 if columns == 2 else 6, columnspacing=1.1)
        caption = (
            f"{len(shown)} of {count_text(len(flows), 'flow')}, counted once per plane; failed ones first, then those "
            "with most packets missing. The line is the expectation"
        )
        caption += ", the dashes are the threshold below which a path is flagged." if with_limits else "."
        return style.drawn(PAIRS_NAME, PAIRS_TITLE, caption, figure)


def _draw_flow(axes: Axes, verdicts: Verdicts, pair: _Pair, name: str, reach: Reaches) -> None:
    style.quiet_axes(axes)
    axes.set_title(name, fontsize=8)
    axes.axhline(0, color=style.INK, linewidth=0.9)
    spines, off = verdicts.spine[pair.rows], _off(verdicts, pair.rows)
    limits = _limits(verdicts, pair.rows)
    axes.hlines(limits, spines - 0.4, spines + 0.4, color=style.QUIET, linewidth=1, linestyle=(0, (3, 1.5)))
    for verdict, (marker, colour, _) in _MARKS.items():
        of_it = verdicts.code[pair.rows] == verdict
        if of_it.any():
            axes.scatter(spines[of_it], off[of_it], marker=marker, color=colour, s=30, linewidths=0, zorder=3)
    off_reach, along = reach[Quantity.OFF], reach[Quantity.SPINE]
    off_reach.stretch(axes, "y", *_with_margins(off_reach))
    axes.set_xlim(along.low - 0.6, along.high + 0.6)


def _failed_spines(verdicts: Verdicts, pairs: list[_Pair]) -> set[int]:
    """Return spines over which one of these pairs has a path that was judged as failed."""
    rows = np.concatenate([pair.rows for pair in pairs])
    return {int(spine) for spine in verdicts.spine[rows[verdicts.code[rows] == Verdict.FAILED]]}


def _spine_ticks(reach: Reach, most: int, told: set[int]) -> list[int]:
    """Return the numbered spines: at most `most`, evenly spread, with those of `told` in place of close others."""
    low, high = int(reach.low), int(reach.high)
    step = max(1, math.ceil((high + 1 - low) / most))
    chosen = told if len(told) <= most // 2 else set()
    even = (spine for spine in range(low, high + 1, step) if all(abs(spine - one) >= step for one in chosen))
    return sorted({*even, *chosen})


def _with_margins(off: Reach) -> tuple[float, float]:
    """Widen a range so that marks at its ends are whole; on a logarithmic axis by a share of the number itself."""
    if off.linear_to is None:
        margin = MARGIN * (off.high - off.low) or 1.0
        return off.low - margin, off.high + margin
    least = off.linear_to / 2
    return off.low - max(least, abs(off.low) / 2), off.high + max(least, off.high / 2)


def _legend(with_limits: bool, found: set[Verdict]) -> list[Line2D]:
    """List the kinds of mark in the figure."""
    handles = [Line2D([], [], color=style.INK, linewidth=0.9, label="expected")]
    if with_limits:
        handles.append(Line2D([], [], color=style.QUIET, linewidth=1, linestyle=(0, (3, 1.5)), label="threshold"))
    for verdict, (marker, colour, label) in _MARKS.items():
        if verdict in found:
            handles.append(Line2D([], [], color=colour, marker=marker, linestyle="", label=label))
    return handles


def _worst(verdicts: Verdicts, pairs: list[_Pair]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return `(pairs, spines)`: the largest missing percentage, and the worst verdict of several flows."""
    shape = len(pairs), int(verdicts.spine.max()) + 1
    missing, codes = np.zeros(shape), np.full(shape, Verdict.HEALTHY.value)
    for at, pair in enumerate(pairs):
        spines, found = verdicts.spine[pair.rows], verdicts.code[pair.rows]
        np.maximum.at(missing[at], spines, -_off(verdicts, pair.rows))
        for verdict in (Verdict.INSUFFICIENT, Verdict.FAILED):
            codes[at, spines[found == verdict]] = verdict
    return missing, codes


def _draw_all(verdicts: Verdicts, pairs: list[_Pair], width_in: float, reach: Reaches) -> style.Drawn:
    shown = sorted(pairs[:MOST_ROWS], key=lambda pair: (pair.plane, pair.src_leaf, pair.dst_leaf))
    missing, codes = _worst(verdicts, shown)
    spines = int(reach[Quantity.SPINE].high) + 1
    norm = reach[Quantity.MISSING].norm()
    norm.vmax = max(LEAST_MISSING, norm.vmax or 0.0)
    with style.styled():
        figure = style.blank(1.0 + 0.155 * len(shown), width_in)
        axes = figure.subplots()
        axes.add_patch(Rectangle((0, 0), missing.shape[1], len(shown), color=style.CELL, linewidth=0))
        image = axes.pcolormesh(missing, cmap=_MISSING, norm=norm, edgecolors=style.PAPER, lw=0.8)
        _mark(axes, codes, np.asarray(norm(missing)) > PALE)
        axes.set_xlim(0, spines)
        axes.set_yticks(np.arange(len(shown)) + 0.5, [pair.name for pair in shown], fontsize=7)
        most = MOST_TICKS_OF_PAIR if style.is_narrow(width_in) else MOST_TICKS_OF_ALL
        ticks = _spine_ticks(Reach(0, spines - 1), most, _failed_spines(verdicts, shown))
        axes.set_xticks(np.array(ticks) + 0.5, [str(spine) for spine in ticks])
        axes.set_xlabel("spine")
        axes.invert_yaxis()
        axes.tick_params(length=0)
        bar = figure.colorbar(
            image, ax=axes, label=f"% missing{reach[Quantity.MISSING].words}", pad=0.01, aspect=40, fraction=0.04
        )
        bar.ax.set_facecolor(style.CELL)  # as below the fields
        caption = (
            f"{len(shown)} of {len(pairs):,} pairs of leaves, counted once per plane; of several flows between two "
            "leaves each field shows the one with most packets missing. A stronger colour means that more of the "
            "expected packets are missing (see the bar). A cross marks a path judged as failed, a triangle one that "
            "is not judged alone (insufficient; spraylab detect RUN says why)."
        )
        return style.drawn(ALL_NAME, ALL_TITLE, caption, figure)


def _mark(axes: Axes, codes: NDArray[np.int64], strong: NDArray[np.bool_]) -> None:
    """Mark verdicts other than healthy, in a colour that contrasts with their field."""
    for verdict in (Verdict.FAILED, Verdict.INSUFFICIENT):
        marker, _, _ = _MARKS[verdict]
        for fields, colour in ((~strong, style.INK), (strong, style.PAPER)):
            rows, columns = np.nonzero((codes == verdict) & fields)
            axes.scatter(columns + 0.5, rows + 0.5, marker=marker, s=26, color=colour, linewidths=0)
