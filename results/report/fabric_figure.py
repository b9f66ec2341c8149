"""Draws the fabric plane by plane, with the links that failed and the links that were accused."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D
from matplotlib.transforms import offset_copy

from results.report import style
from results.report.run_data import RunData
from results.text import count_text
from testbed.model.fabric import Fabric
from testbed.model.node_names import DirectedLink, NodeId, Role

NAME, TITLE = "fabric", "Fabric"
MOST_PLANES = 4
"""Most planes in the figure; planes with failures or accusations come first (our choice)."""
MOST_LABELS = 6
"""Most labels per plane; the tables list all links."""
MOST_NODES_NAMED = 16
"""Most named nodes per row; with more, every second, fourth ... is named."""

ROOMY = 10
"""Most nodes per row that leave room for the word before the first number, to the right of its node."""

_Y = {Role.HOST: 0.0, Role.LEAF: 0.45, Role.SPINE: 1.5}
_APART_PT = 2.6
"""Offset that draws a failed and an accused direction of one link side by side, so that both meet its nodes."""
_ASIDE, _HALF_NODE = 0.4, 0.03
"""Distance from the sides of a plane; a label whose link ends closer is written inwards (tried in a browser)."""
_LINKS_IN_FULL = 128
"""Most links per plane with thick lines; with more, lines are thinner."""


def draw(data: RunData, width_in: float = style.WIDTH_IN) -> style.Drawn:
    """Draw all planes in one figure."""
    if data.fabric is None:
        return style.Drawn(NAME, TITLE, "", absent="the folder does not show the fabric (topology.json)")
    failed = {way for link in data.true_links for way in data.ways(link)}
    named, possible = _accused(data)
    shown = _planes(data.fabric, failed | named | possible)
    beside = 1 if style.is_narrow(width_in) else 2
    rows = -(-len(shown) // beside)
    most_told = max(sum(way.plane == plane for way in failed | named) for plane in shown)
    with style.styled():
        figure = style.blank(0.55 + 2.45 * rows, width_in)
        grid = figure.subplots(rows, min(beside, len(shown)), squeeze=False)
        for axes in grid.flat:
            axes.axis("off")
        for axes, plane in zip(grid.flat, shown, strict=False):
            _draw_plane(axes, data, plane, (failed, named, possible))
            axes.set_ylim(-0.25, 1.72 + 0.14 * min(most_told, MOST_LABELS))  # all planes in one size
        if handles := _legend(failed, named, possible):
            figure.legend(handles=handles, loc="outside lower left", ncols=3 if beside > 1 else 1)
        return style.drawn(NAME, TITLE, _caption(data.fabric, shown) + _not_told(data), figure)


def _not_told(data: RunData) -> str:
    """State what the figure cannot mark because the folder does not record it."""
    told = ((data.broken_unknown, "what was broken"), (data.silence(data.run.detect), "who was accused"))
    return "".join(f" The folder does not show {what} ({unknown})." for unknown, what in told if unknown)


def _accused(data: RunData) -> tuple[set[DirectedLink], set[DirectedLink]]:
    """Split accused directions into certain ones and sets of which one is meant."""
    last = data.accusations[-1] if data.accusations else None
    if last is None:
        return set(), set()
    named = {way for link in last.links for way in data.ways(link)}
    return named, {way for links in last.candidates for link in links for way in data.ways(link)} - named


def _planes(fabric: Fabric, marked: Iterable[DirectedLink]) -> list[int]:
    told = {way.plane for way in marked}
    planes = sorted(range(fabric.spec.planes), key=lambda plane: (plane not in told, plane))
    return sorted(planes[:MOST_PLANES])


def _caption(fabric: Fabric, shown: list[int]) -> str:
    spec = fabric.spec
    switches = f"{count_text(spec.leaves, 'leaf', 'leaves')}, {count_text(spec.spines, 'spine')}"
    said = f"{switches}, {count_text(spec.hosts_per_leaf, 'host')} a leaf in each plane."
    if len(shown) < spec.planes:
        said += f" {len(shown)} of {spec.planes} planes are drawn, those with a failure or an accusation first."
    return said


def _draw_plane(
    axes: Axes,
    data: RunData,
    plane: int,
    marked: tuple[set[DirectedLink], set[DirectedLink], set[DirectedLink]],
) -> None:
    fabric, (failed, named, possible) = data.fabric, marked
    assert fabric is not None
    told = [way for way in sorted(failed | named) if way.plane == plane]
    axes.set_xlim(-0.06, 1.06)
    axes.set_title(f"plane {plane}{_count_text(told)}", color=style.INK)
    links = [link for link in fabric.links() if link.plane == plane]
    ends = [(_place(fabric, link.lower), _place(fabric, link.upper)) for link in links]
    thin = max(0.12, 0.7 * min(1.0, _LINKS_IN_FULL / len(links)))
    axes.add_collection(LineCollection(ends, colors=style.RULE, linewidths=thin, zorder=1))
    failed_links, accused_links = ({_link(way) for way in ways} for ways in (failed, named | possible))
    for ways, colour, dashes in ((possible, *_POSSIBLE), (failed, *_FAILED), (named, *_NAMED)):
        side = 1 if ways is failed else -1
        for way in (way for way in sorted(ways) if way.plane == plane):
            both = _link(way) in failed_links & accused_links
            _draw_way(axes, fabric, way, colour, dashes, side * _APART_PT * both)
    _draw_nodes(axes, fabric, plane)
    for at, way in enumerate(reversed(told[:MOST_LABELS])):
        what = _label_text(data, way in failed, way in named, way in possible)
        colour = style.FAULT if way in failed else style.ACCUSED
        x, align = _above(_place(fabric, way.sender)[0], _place(fabric, way.receiver)[0], way.sender.role)
        place = x, 1.84 + 0.14 * at
        axes.text(*place, f"{way}: {what}", ha=align, va="center", fontsize=7.5, color=colour, zorder=7)


def _above(sender_x: float, receiver_x: float, sender: Role) -> tuple[float, Literal["left", "center", "right"]]:
    """Return where a link's label stands and to which side it goes: above the upper end, and inside the plane."""
    x = sender_x if sender is Role.SPINE else receiver_x
    if x < _ASIDE:
        return max(-0.02, x - _HALF_NODE), "left"
    return (min(1.02, x + _HALF_NODE), "right") if x > 1 - _ASIDE else (x, "center")


def _count_text(told: list[DirectedLink]) -> str:
    return f", {len(told)} directions marked" if len(told) > MOST_LABELS else ""


def _place(fabric: Fabric, node: NodeId) -> tuple[float, float]:
    count = {
        Role.SPINE: fabric.spec.spines,
        Role.LEAF: fabric.spec.leaves,
        Role.HOST: fabric.spec.leaves * fabric.spec.hosts_per_leaf,
    }[node.role]
    return (node.index + 0.5) / count, _Y[node.role]


def _link(way: DirectedLink) -> frozenset[NodeId]:
    """Return the two ends of a link, whatever the direction."""
    return frozenset((way.sender, way.receiver))


def _draw_way(axes: Axes, fabric: Fabric, way: DirectedLink, colour: str, dashes: object, apart_pt: float) -> None:
    """Draw one direction on its link, or `aside` points beside it, with an arrow in it."""
    start, end = np.array(_place(fabric, way.sender)), np.array(_place(fabric, way.receiver))
    leans = -1 if (end[0] - start[0]) * (end[1] - start[1]) < 0 else 1  # so that the shift is across the line
    place = offset_copy(axes.transData, axes.get_figure(root=True), apart_pt, -leans * apart_pt / 2, "points")
    axes.plot(*zip(start, end, strict=True), color=colour, linewidth=2.2, linestyle=dashes, transform=place, zorder=3)
    tip = start + (end - start) * 0.62
    axes.annotate(
        "",
        xy=tuple(tip),
        xycoords=place,
        xytext=tuple(start + (end - start) * 0.55),
        textcoords=place,
        arrowprops={"arrowstyle": "-|>", "color": colour, "linewidth": 0, "mutation_scale": 14},
        zorder=4,
    )


@dataclass(frozen=True)
class _Row:
    """Draw the nodes of one role; their names stand off by `name_off`, (x, y)."""

    role: Role
    marker: str
    size: float
    name_off: tuple[float, float]
    align: Literal["left", "center"]


_ROWS = (
    _Row(Role.SPINE, "s", 64, (0.0, 0.18), "center"),
    _Row(Role.LEAF, "s", 64, (0.02, -0.12), "left"),
    _Row(Role.HOST, "o", 16, (0.0, -0.16), "center"),
)


def _draw_nodes(axes: Axes, fabric: Fabric, plane: int) -> None:
    nodes = list(fabric.nodes())
    for row in _ROWS:
        mine = [node for node in nodes if node.role is row.role and node.plane in (None, plane)]
        x, y = np.array([_place(fabric, node) for node in mine]).T
        size = row.size * min(1.0, MOST_NODES_NAMED / len(mine))
        axes.scatter(x, y, s=size, marker=row.marker, color=style.PAPER, edgecolors=style.QUIET, zorder=5)
        step = 1
        while len(mine) / step > MOST_NODES_NAMED:
            step *= 2
        for at in range(0, len(mine), step):
            text = mine[at].short if at == 0 else str(mine[at].index)
            off, align = (row.name_off[0], row.align) if at or len(mine) <= ROOMY else (0.012, "right")
            place = x[at] + off, y[at] + row.name_off[1]
            axes.text(*place, text, ha=align, va="center", fontsize=7, color=style.QUIET, zorder=6)


def _label_text(data: RunData, failed: bool, named: bool, possible: bool) -> str:
    """Return the words for a direction that failed or was accused; if half of that is unknown, only the known half."""
    if not failed:
        return "accused" if data.broken_unknown else "accused, had no fault"
    if named:
        return "failed and accused"
    if data.silence(data.run.detect):
        return "failed"
    return "failed, one of several accused" if possible else "failed, not accused"


_FAILED, _NAMED, _POSSIBLE = (style.FAULT, "-"), (style.ACCUSED, (0, (4, 2))), (style.ACCUSED, (0, (1, 1.6)))
"""Return colour and dashes of directions."""


def _legend(*marked: set[DirectedLink]) -> list[Line2D]:
    """List the kinds of mark in the figure: failed, accused for certain, one of several."""
    labels = "failed (what was injected)", "accused for certain", "one of these is accused"
    return [
        Line2D([], [], color=colour, linewidth=2.2, linestyle=dashes, label=label)
        for ways, (colour, dashes), label in zip(marked, (_FAILED, _NAMED, _POSSIBLE), labels, strict=True)
        if ways
    ]
