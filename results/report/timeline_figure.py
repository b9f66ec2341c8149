"""Draws one time axis: faults in force, reports of agents and witnesses, goodput, losses, retransmissions and the
machine.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from results.metrics import NS
from results.report import style
from results.report.detection import Accusation, Verdict
from results.report.run_data import RunData
from results.report.scales import Quantity, Reach, Reaches
from results.report.traffic import BIN_NS
from results.summary import data_flows
from results.text import count_text

NAME, TITLE = "timeline", "Timeline"
MOST_FAULTS = 12
"""Most fault bars; the table of faults lists the others."""
MOST_FLOWS = 32
"""Most goodput lines; with more flows the range is shown."""
SHORT = 0.5
"""Of the usual time between records: a last one that comes sooner is taken together with the one before, since a rate
over so little time says nothing. Our choice."""
COLUMNS = 120
"""Columns of the loss bars (our choice)."""
_BESIDE_AXIS_IN, _BESIDE_AXIS_NARROW_IN, _LETTERS_AN_INCH = 1.8, 1.2, 15
"""Width that the time axis leaves to labels, and letters of names along it (tried in a browser)."""


@dataclass(frozen=True)
class _Panel:
    """One of the figures that share the time axis."""

    height: float
    draw: Callable[[Axes, RunData, Reaches], None]


def reaches(data: RunData, end: float | None = None) -> dict[Quantity, Reach]:
    """Return axis ranges; columns of losses divide the time until `end`, or until the run's own end."""
    over = _end(data)
    if over is None:
        return {}
    start = min(0.0, *(data.seconds(fault.since_ns) for fault in data.faults)) if data.faults else 0.0
    _, rates = _rates(data)
    resent = data.progress.resent.sum(axis=1)
    lost = sum(heights for _, heights in _lost(data, over if end is None else end))
    return {
        Quantity.SECONDS: Reach(max(start, -0.04 * over), over),
        Quantity.GOODPUT: Reach(0.0, float(np.nan_to_num(rates).max(initial=0.0))),
        Quantity.LOST: Reach(0.0, float(np.max(lost))),
        Quantity.RESENT: Reach(0.0, float(resent.max(initial=0))),
    }


def draw(data: RunData, width_in: float, reach: Reaches) -> style.Drawn:
    """Draw all panels that have data, or state why there is none; `reach` holds this run's axis ranges, or wider
    ones.
    """
    if _end(data) is None:
        return style.Drawn(NAME, TITLE, "", absent="no file of the folder has a record with a time")
    panels = [_Panel(0.1 + 0.33 * min(max(1, len(_rows_of_faults(data))), MOST_FAULTS), _faults)]
    panels.append(_Panel(1.3, _said))
    if data.progress.acked_bytes.size:
        panels.append(_Panel(1.6, _goodput))
    panels.append(_Panel(1.1, _losses))
    if len(data.load.at_ns):
        panels.append(_Panel(0.95, _machine))
    heights = [panel.height for panel in panels]
    with style.styled():
        figure = style.blank(0.5 + sum(heights) + 0.22 * len(panels), width_in)
        grid = figure.subplots(len(panels), 1, sharex=True, squeeze=False, height_ratios=heights)
        style.share_outer_axes(grid)
        for axes, panel in zip(grid.flat, panels, strict=True):
            style.quiet_axes(axes, "x")
            panel.draw(axes, data, reach)
        time = reach[Quantity.SECONDS]
        grid.flat[0].set_xlim(time.low - 0.01 * time.high, 1.01 * time.high)
        grid.flat[-1].set_xlabel(f"seconds since the first packet{time.words}")
        caption = "All times come from the machine's monotonic clock. Above the last star: everything accused at the "
        caption += "end; above others, where there is room: what that accusation added. An empty star: nothing is "
        caption += "accused any more. Crosses: paths judged as failed. Triangles: entropy values, "
        caption += "down: out of use, up: in use again. Diamonds: ports and errors. Lost: counted as lost by agents."
        return style.drawn(NAME, TITLE, caption, figure)


def _end(data: RunData) -> float | None:
    """Return the last moment of the run that any file records."""
    last = [int(times[-1]) for times in (data.progress.at_ns, data.load.at_ns, data.verdicts.at_ns) if len(times)]
    last += [data.agents.last_ns] if data.agents.last_ns is not None else []
    last += [accusation.at_ns for accusation in data.accusations]
    return max(0.001, data.seconds(max(last))) if last else None


def _faults(axes: Axes, data: RunData, reach: Reaches) -> None:
    end, over = reach[Quantity.SECONDS].high, _end(data) or 0.0
    style.entitle(axes, "faults in force")
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    rows = _rows_of_faults(data)
    if not rows:
        _say_none(axes, data.broken_unknown)
        return
    for row, (name, times) in enumerate(list(rows.items())[:MOST_FAULTS]):
        for since, until in ((one, min(over, other)) for one, other in times):
            axes.barh(row, until - since, left=since, height=0.42, color=style.FAULT, alpha=0.28)
            axes.plot([since, since], [row - 0.21, row + 0.21], color=style.FAULT, linewidth=2)
        _name_fault(axes, row, name, max(0.0, times[0][0]), end)
    if len(rows) > MOST_FAULTS:
        style.entitle(axes, f"faults in force (the first {MOST_FAULTS} of {len(rows):,})")
    axes.set_ylim(min(len(rows), MOST_FAULTS) - 0.7, -0.85)


def _rows_of_faults(data: RunData) -> dict[str, list[tuple[float, float]]]:
    """Return seconds from and to of each time that a fault was in force, grouped by fault."""
    rows: dict[str, list[tuple[float, float]]] = {}
    for fault in data.faults:
        until = math.inf if fault.until_ns is None else data.seconds(fault.until_ns)
        rows.setdefault(f"{fault.link}  {fault.words}", []).append((data.seconds(fault.since_ns), until))
    return rows


def _say_none(axes: Axes, unknown: str) -> None:
    """Mark a panel without data: nothing happened, or which file is missing."""
    told = f"not recorded ({unknown})" if unknown else "none"
    axes.text(0.008, 0.5, told, transform=axes.transAxes, va="center", fontsize=7.5, color=style.QUIET)


def _name_fault(axes: Axes, row: int, text: str, since: float, end: float) -> None:
    """Place the name above the fault's first bar, or where there is more room; cut it where there is too little."""
    before = since > 0.6 * end
    most = int((since if before else end - since) / end * _inches_of_time(axes) * _LETTERS_AN_INCH)
    told = text if len(text) <= most else f"{text[: most - 2]} …"
    axes.text(since, row - 0.25, told, ha="right" if before else "left", va="bottom", fontsize=7.5)


def _inches_of_time(axes: Axes) -> float:
    """Return the length of the time axis on paper."""
    width = float(axes.figure.bbox.width / axes.figure.dpi)
    return width - (_BESIDE_AXIS_NARROW_IN if style.is_narrow(width) else _BESIDE_AXIS_IN)


def _is_narrow(axes: Axes) -> bool:
    return style.is_narrow(float(axes.figure.bbox.width / axes.figure.dpi))


_LANES = ("SprayCheck: accused", "SprayCheck: failed", "agents: entropy values", "agents: ports, errors")
_SHORT_LANES = ("accused", "failed", "EVs", "ports, errors")
"""Number of legend entries per column."""
_ABOVE_LANES = -1.3
"""Left end of the lane panel: above the first lane is the name of what is accused at the end."""
_LANES_OF_AGENTS = 2
"""Lower edge of the agents' lanes; SprayCheck's are above."""


def _said(axes: Axes, data: RunData, reach: Reaches) -> None:
    """Draw marks in lanes: who reported something when."""
    style.entitle(axes, "what agents and witnesses reported")
    axes.set_yticks(range(len(_LANES)), _SHORT_LANES if _is_narrow(axes) else _LANES, fontsize=7.5)
    axes.set_ylim(len(_LANES) - 0.4, _ABOVE_LANES)
    said = _accusing(data.accusations)
    accused = [data.seconds(each.at_ns) for each in said]
    inside = [style.ACCUSED if each.links or each.candidates else style.PAPER for each in said]
    axes.scatter(accused, [0] * len(said), marker="*", s=90, color=inside, edgecolors=style.ACCUSED, zorder=3)
    _name_accused(axes, data, said, reach[Quantity.SECONDS].high)
    failed = data.verdicts.at_ns[data.verdicts.code == Verdict.FAILED]
    axes.scatter(_seconds(data, failed), np.full(len(failed), 1), marker="X", s=28, color=style.ACCUSED, linewidths=0)
    for marker, states, colour in (("v", ("ASSUMED_BAD", "DENIED"), style.FAULT), ("^", ("GOOD",), style.GOOD)):
        times = [data.seconds(change.at_ns) for change in data.agents.changes if change.state in states]
        axes.scatter(times, [2] * len(times), marker=marker, s=22, color=colour, linewidths=0, alpha=0.7)
    marked = (len(accused), len(failed), len(data.agents.changes), len(data.agents.ports) + len(data.agents.errors))
    for lane in (lane for lane, count in enumerate(marked) if not count):
        unknown = data.silence(data.run.detect if lane < _LANES_OF_AGENTS else data.run.agent)
        told = f"not recorded ({unknown})" if unknown else "nothing"
        axes.text(0, lane, told, va="center", fontsize=7.5, color=style.QUIET)
    rest = [data.seconds(at) for at, _, _ in data.agents.ports + data.agents.errors]
    axes.scatter(rest, [3] * len(rest), marker="D", s=18, color=style.WARN, linewidths=0)
    if data.agents.more_changes:
        style.entitle(
            axes,
            f"what agents and witnesses reported (the first {len(data.agents.changes):,} changes of entropy values)",
        )


def _accusing(accusations: Sequence[Accusation]) -> list[Accusation]:
    """Return accusations, and the moments when all accusations were withdrawn."""
    found: list[Accusation] = []
    for each in accusations:
        if each.links or each.candidates or (found and (found[-1].links or found[-1].candidates)):
            found.append(each)
    return found


def _name_accused(axes: Axes, data: RunData, said: list[Accusation], end: float) -> None:
    """Name everything accused at the end above the last star; above others, where there is room, what they added."""
    if not said:
        return
    _name_last(axes, said[-1], data.seconds(said[-1].at_ns), end)
    edges = [0.0, *(data.seconds(each.at_ns) for each in said), end]
    letters = _inches_of_time(axes) * _LETTERS_AN_INCH / end
    room = [int((edges[at + 1] - edges[at]) * letters) - 3 for at in range(len(edges) - 1)]
    for at, each in enumerate(said[:-1]):
        before = _named_by(said[at - 1]) if at else []
        if told := _named_in(each, before, max(room[at : at + 2])):
            after = len(told) <= room[at + 1]
            room[at + after] -= len(told) + 3
            off, side = (7, "left") if after else (-7, "right")
            point = (edges[at + 1], 0)
            axes.annotate(told, point, xytext=(off, 0), textcoords="offset points", ha=side, va="center", fontsize=7.5)


def _name_last(axes: Axes, said: Accusation, at: float, end: float) -> None:
    """Return the space from an accusation's star to where there is more room."""
    share = at / end
    told = _named_in(said, [], int(max(share, 1 - share) * _inches_of_time(axes) * _LETTERS_AN_INCH))
    axes.text(at, -0.5, told, ha="right" if share > 0.5 else "left", va="bottom", fontsize=7.5)


def _named_in(said: Accusation, before: list[str], most: int) -> str:
    """Name what an accusation adds to the one before, in at most `most` letters; empty if nothing fits."""
    told = _shortened([text for text in _named_by(said) if text not in before], most)
    if not told and said.candidates and not said.links:
        told = _shortened([f"one of {count_text(len(links), 'link')}" for links in said.candidates], most)
    return told


def _named_by(said: Accusation) -> list[str]:
    """Return each link that an accusation names, as a text."""
    return [*said.links, *(f"one of {', '.join(links)}" for links in said.candidates)] or ["nobody"]


def _shortened(links: list[str], most: int) -> str:
    """List as many names as fit `most` letters, and how many more there are; empty where no name fits."""
    for shown in range(len(links), 0, -1):
        more = f" and {len(links) - shown:,} more" if shown < len(links) else ""
        if len(told := ", ".join(links[:shown]) + more) <= most:
            return told
    return ""


def _seconds(data: RunData, times: NDArray[np.int64]) -> NDArray[np.float64]:
    seconds: NDArray[np.float64] = (times - data.zero_ns) / NS
    return seconds


def _rates(data: RunData) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return seconds `(m,)` and payload acknowledged since the record before, Mb/s `(m, flows)`; empty for one record
    only.
    """
    times, acked = data.progress.at_ns, data.progress.acked_bytes[:, data.carries_data]
    if not acked.size:
        return np.zeros(0), np.zeros((0, 0))
    if int(times[0]) - data.zero_ns > BIN_NS:  # else the first record is the start itself
        times = np.r_[data.zero_ns, times]
        acked = np.concatenate([np.zeros((1, acked.shape[1]), np.int64), acked])
    usual = float(np.median(np.diff(times))) if len(times) > 1 else 0.0
    for short, gone in ((-1, -2), (1, 1)):  # the last stretch, the first one
        if len(times) > 2 and times[short] - times[short - 1] < SHORT * usual:
            times, acked = np.delete(times, gone), np.delete(acked, gone, axis=0)
    if len(times) < 2:
        return np.zeros(0), np.zeros((0, acked.shape[1]))
    seconds = _seconds(data, times)
    sent = _sending_time(data, seconds, acked)
    got = _evened(np.diff(acked, axis=0).astype(np.float64), sent, np.diff(seconds))
    enough = sent >= SHORT * np.diff(seconds)[:, None]
    rates = np.where(enough, got * 8 / 1e6 / np.maximum(sent, 1e-3), np.nan)
    return seconds, np.concatenate([rates[:1], rates])  # a step reaches back to the record before


def _evened(got: NDArray[np.float64], sent: NDArray[np.float64], length: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return bytes `(m - 1, flows)`; those of a flow's last two intervals are spread over the time it was active in
    both.

    A record is written a moment after it was read, which would make a rate of a part of a stretch far too high.
    """
    for flow in range(got.shape[1]):
        under_way = np.flatnonzero(sent[:, flow])
        last = int(under_way[-1]) if len(under_way) else 0
        if last and sent[last, flow] < 0.999 * length[last]:
            both = slice(last - 1, last + 1)
            got[both, flow] = got[both, flow].sum() * sent[both, flow] / sent[both, flow].sum()
    return got


def _sending_time(data: RunData, seconds: NDArray[np.float64], acked: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the time `(m - 1, flows)` that each flow was active in each interval `(m - 1,)`.

    By the summary; without one a flow is over with the record that has all its bytes.
    """
    ended = seconds[np.argmax(acked == acked[-1], axis=0)]
    starts, ends = np.full(acked.shape[1], -np.inf), np.where(acked[-1] > 0, ended, np.inf)
    flows = data_flows(data.summary.flows) if data.summary else ()
    if len(flows) == acked.shape[1]:
        began = [0.0 if flow.began_s is None else flow.began_s for flow in flows]
        starts = np.array(began)
        ends = np.array([math.inf if f.seconds is None else at + f.seconds for at, f in zip(began, flows, strict=True)])
    until = np.minimum(seconds[1:, None], ends)
    time: NDArray[np.float64] = np.maximum(0.0, until - np.maximum(seconds[:-1, None], starts))
    return time


def _goodput(axes: Axes, data: RunData, reach: Reaches) -> None:
    seconds, rates = _rates(data)
    if not len(seconds):
        axes.text(0.5, 0.5, "one record only", transform=axes.transAxes, ha="center", color=style.QUIET)
        return
    flows, most = rates.shape[1], reach[Quantity.GOODPUT]
    which = "and their median" if np.isfinite(rates).all() else "and the median of those that send"
    style.entitle(axes, f"goodput of each of {count_text(flows, 'flow')} (thin) {which} (bold), Mb/s{most.words}")
    if flows <= MOST_FLOWS:
        axes.step(seconds, rates, where="pre", color=style.FLOW, linewidth=0.8, alpha=0.55)
    else:
        least, highest = _of_sending(rates, np.min), _of_sending(rates, np.max)
        axes.fill_between(seconds, least, highest, step="pre", color=style.FLOW, alpha=0.3, lw=0)
    axes.step(seconds, _of_sending(rates, np.median), where="pre", color=style.INK, linewidth=1.6)
    most.stretch(axes, "y", 0, max(1e-6, most.above(0.1)))


def _of_sending(rates: NDArray[np.float64], sum_up: Callable[[NDArray[np.float64]], np.float64]) -> NDArray[np.float64]:
    """Return one number per record, `(m,)`, over the flows that have a rate then; NaN where none has."""
    return np.array([sum_up(row[np.isfinite(row)]) if np.isfinite(row).any() else np.nan for row in rates])


_LOST = (
    ("lost", style.FAULT, None, "shown by a later arrival"),
    ("timed_out", style.INK, "////", "no answer in time"),
    ("refused", style.WARN, "....", "refused"),
)
"""Kinds of loss that agents report, and how they are drawn."""
_ROOM_OF_LEGEND = 0.5
"""Room above bars and line, as a share of their height, so that the legend touches neither (tried)."""


def _lost(data: RunData, end: float) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Return edges `(COLUMNS + 1,)` of columns until `end`, and packets in each `(COLUMNS,)`, for each of _LOST."""
    edges = np.linspace(0, end, COLUMNS + 1)
    return [(edges, _columns(getattr(data.agents, name), data, edges)) for name, *_ in _LOST]


def _losses(axes: Axes, data: RunData, reach: Reaches) -> None:
    """Draw packets that agents counted as lost, and resent packets, in columns of equal time."""
    most = reach[Quantity.LOST]
    after = reach[Quantity.RESENT]
    unknown = data.silence(data.run.agent, data.run.counters)
    title = f"packets lost (bars{most.words}), resent so far (line, right{after.words})"
    style.entitle(axes, title)
    if not most.high and not after.high:
        axes.set_yticks([])
        _say_none(axes, unknown)
        return
    if unknown:
        style.entitle(axes, f"{title}; not recorded: {unknown}")
    bottom = np.zeros(COLUMNS)
    for (_, colour, hatch, label), (edges, heights) in zip(
        _LOST, _lost(data, reach[Quantity.SECONDS].high), strict=True
    ):
        if heights.any():
            axes.bar(edges[:-1], heights, np.diff(edges), bottom, align="edge", color=colour, label=label, hatch=hatch)
            bottom += heights
    style.whole_numbers(axes)
    columns = 1 if _is_narrow(axes) else len(_LOST)
    above = _ROOM_OF_LEGEND * (2 if columns == 1 else 1) if most.high else 0.3  # alike in runs beside each other
    most.stretch(axes, "y", 0, max(1.0, most.above(above)))
    if bottom.any():
        axes.legend(loc="upper left", ncols=columns, borderpad=0, borderaxespad=0.2)
    if data.progress.resent.size:
        _resent(axes, data, after, above)


def _resent(axes: Axes, data: RunData, most: Reach, above: float) -> None:
    right = axes.twinx()
    right.spines["top"].set_visible(False)
    right.tick_params(length=3, width=0.6)
    resent = data.progress.resent.sum(axis=1)
    right.step(_seconds(data, data.progress.at_ns), resent, where="post", color=style.ACCUSED, linewidth=1.3)
    style.whole_numbers(right)
    most.stretch(right, "y", 0, max(1.0, most.above(above)))


def _columns(bins: Counter[int], data: RunData, edges: NDArray[np.float64]) -> NDArray[np.float64]:
    if not bins:
        return np.zeros(len(edges) - 1)
    at = (np.fromiter(bins, np.int64, len(bins)) * BIN_NS - data.zero_ns) / NS
    weights = np.fromiter(bins.values(), np.float64, len(bins))
    return np.histogram(np.clip(at, edges[0], edges[-1]), edges, weights=weights)[0].astype(np.float64)


def _machine(axes: Axes, data: RunData, _: Reaches) -> None:
    style.entitle(axes, "machine: busy share of all cores (line), engines' wait for a core (dashes)")
    seconds = _seconds(data, data.load.at_ns)
    axes.plot(seconds, 100 * data.load.cpu_busy_share, color=style.INK, linewidth=1.2, marker=".", markersize=4)
    axes.plot(
        seconds,
        100 * data.load.sched_wait_share,
        color=style.WARN,
        linewidth=1.2,
        linestyle=(0, (4, 2)),
        marker="x",
        markersize=4,
    )
    axes.set_ylim(0, 105)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0f}%")
