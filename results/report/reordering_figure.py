"""Draws how far packets were reordered: one histogram over powers of two for all flows."""

from textwrap import fill

import numpy as np
from numpy.typing import NDArray

from results.report import style
from results.report.run_data import RunData
from results.report.scales import Quantity, Reach, Reaches
from results.summary import Reordering, data_flows
from results.text import count_text

NAME, TITLE = "reordering", "Reordering"


def reaches(data: RunData) -> dict[Quantity, Reach]:
    """Return the ranges of the axes."""
    told = _told(data)
    if not told:
        return {}
    counts = _counts(told, 0)
    return {Quantity.LATE: Reach(0.0, len(counts) - 1.0), Quantity.PACKETS: Reach(0.0, float(counts.max()))}


def _told(data: RunData) -> list[Reordering]:
    flows = data_flows(data.summary.flows) if data.summary else ()
    return [flow.reordering for flow in flows if flow.reordering is not None]


def _counts(told: list[Reordering], width: int) -> NDArray[np.float64]:
    """Return counts of packets in order, then of late ones by power of two (at least `width` bins)."""
    width = max(width, *(len(one.late) for one in told))
    counts = np.array([sum(one.in_order for one in told)] + [0] * width, np.float64)
    for one in told:
        counts[1 : 1 + len(one.late)] += one.late
    return counts


def draw(data: RunData, width_in: float, reach: Reaches) -> style.Drawn:
    """Draw the histogram, or state why there is none; `reach` holds this run's axis ranges, or wider ones."""
    told = _told(data)
    if not told:
        return style.Drawn(NAME, TITLE, "", absent="the summary does not record the order of arrival")
    counts = _counts(told, int(reach[Quantity.LATE].high))
    width = len(counts) - 1
    if not width:
        what = f"{count_text(round(counts[0]), 'first transmission')} of {count_text(len(told), 'flow')}"
        return style.Drawn(NAME, TITLE, "", absent=f"all {what} arrived in order")
    labels = ["in order", *(_range_text(power) for power in range(width))]
    total = counts.sum()
    with style.styled():
        narrow = style.is_narrow(width_in)
        figure = style.blank(2.7 if narrow else 2.3, width_in)
        axes = figure.subplots()
        style.quiet_axes(axes)
        size, turned, above = (6, 90, 300) if narrow else (7.5, 0, 8)
        bars = axes.bar(labels, counts, color=[style.GOOD] + [style.FLOW] * width)
        numbers = [f"{count:,.0f}" if count else "" for count in counts]
        axes.bar_label(bars, numbers, fontsize=size, padding=1, rotation=turned)
        axes.set_yscale("symlog", linthresh=1)
        axes.set_ylim(0, max(1.0, reach[Quantity.PACKETS].high) * above)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.set_ylabel("packets")
        told_as = "how many packets later than the earliest that overtook it (RFC 4737)"
        axes.set_xlabel(fill(told_as, 36) if narrow else told_as)
        axes.tick_params(axis="x", labelsize=size, rotation=turned)
        most = max(one.most for one in told)
        caption = (
            f"{count_text(round(total), 'first transmission')} of {count_text(len(told), 'flow')}, "
            f"{counts[0] / max(1.0, total):.1%} of them in order; the furthest came "
            f"{count_text(most, 'packet')} late. Agents read their ports in turn, so packets of different planes are "
            "apart however fast the fabric is."
        )
        return style.drawn(NAME, TITLE, caption, figure)


def _range_text(power: int) -> str:
    low, high = 1 << power, (1 << power + 1) - 1
    return f"{low:,}" if low == high else f"{low:,}-{high:,}"
