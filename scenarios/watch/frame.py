"""One picture of a lab: from a `View` to lines that fit a terminal, or to all there is for a pipe. Pure.

Says of each number whether it is measured, requested or estimated. Letters and marks carry everything, colours repeat
it. Nothing is cut inside a word: what is long goes on in the next line, what has no room is counted.
"""

from collections.abc import Sequence

from rich.text import Text

from scenarios.watch.folding import folded
from scenarios.watch.grid import grid, legend, letter
from scenarios.watch.panels import SPACE, beside, cut, panels, widest
from scenarios.watch.tables import Lines, detection_lines, fault_lines, flow_lines, host_lines, part
from scenarios.watch.view import LinkView, View

LEAST_WIDTH, LEAST_HEIGHT = 80, 24
"""What a picture needs (our choice): the size that terminals have when nobody says otherwise."""

_BELOW = 9
"""Lines that the tables below the grid get at least."""

_PIPE = 160
"""Columns that planes side by side take where no terminal limits them (our choice)."""

_LINK_NAME = 17
"""Columns of a link's name, so that numbers stand below each other (our choice: `p0:leaf10>spine10`)."""

STALE_S = 3
"""A view older than this says so: the lab is busy, or this machine (our choice)."""


def too_small(width: int, height: int | None) -> str:
    """Says that a terminal has no room for a picture, in one line; empty where it has. Without a height any will do."""
    if height is None:
        return "" if width >= LEAST_WIDTH else f"watch needs {LEAST_WIDTH} columns, this has {width}; a pipe takes all"
    if width >= LEAST_WIDTH and height >= LEAST_HEIGHT:
        return ""
    return f"watch needs {LEAST_WIDTH}x{LEAST_HEIGHT}, this is {width}x{height}"


def whole_frame(view: View) -> Text:
    """Everything there is, one thing a line and below one another; lines are as long as they are."""
    head = _head(view, 0, None)
    drawn = grid(view, _PIPE, None)
    tables = (_links(view), flow_lines(view, True), host_lines(view, True, None), fault_lines(view, None),
              detection_lines(view, None))  # fmt: skip
    below_grid = [Text(line, "dim") for line in legend(view)]
    lines = [*head, *drawn.lines, *below_grid, *(line for each in tables for line in each)]
    return _joined(lines)


def frame(view: View, width: int, height: int | None, age_s: int = 0) -> Text:
    """The picture for a terminal. With a height of None everything there is; `age_s`: how long ago it was read."""
    if told := too_small(width, height):
        lines = folded(Text(told, "bold"), max(1, width))
        return _joined(lines if height is None else lines[:height])
    head = _head(view, age_s, width)
    below_grid = [Text(line, "dim") for line in legend(view)]
    drawn = grid(view, width, None if height is None else max(3, height - len(head) - len(below_grid) - _BELOW))
    if drawn.left_out:
        told = f"no room here for {drawn.left_out}; those with faults or losses come first"
        below_grid += folded(Text(told, "bold"), width)
    above = [*head, *_with_worst(drawn.lines, view, width), *below_grid]
    below = panels(view, width, None if height is None else height - len(above))
    lines = [cut(line, width) for line in (*above, *below)]
    return _joined(lines if height is None else lines[:height])


def _joined(lines: Sequence[Text]) -> Text:
    for line in lines:
        line.rstrip()
    return Text("\n").join(lines)


def _head(view: View, age_s: int, width: int | None) -> Lines:
    over = "ended, last reading" if any(link.loss is not None for link in view.links) else "ended"
    state = f"run {view.run} {'going on' if view.running else over}" if view.run else "no run yet"
    if view.running and not view.run:
        state = "in use"
    stale = f", nothing read for {age_s} s" if age_s >= STALE_S else ""
    counts = f"{view.planes} x {view.leaves} leaves x {view.spines} spines"
    head = Text.assemble((f"lab {view.lab}", "bold"), f"  {view.ts[11:19]}Z{stale}  ", (state, "bold"))
    head.append(f"  {counts}, {view.hosts} hosts")
    troubles = [Text(f"{each}; `spraylab inspect` tells more", "bold red") for each in view.troubles]
    return [line for each in (head, *troubles) for line in folded(each, width)]


def _with_worst(lines: Sequence[Text], view: View, width: int) -> Lines:
    """The grid, and beside it, if there is room, the links that have lost most with numbers."""
    taken = widest(lines)
    room = width - taken - SPACE
    worst = next((told for told in (_links(view), _links(view, short=True)) if widest(told) <= room), None)
    if worst is None:
        return list(lines)
    return list(beside(((taken, list(lines)), (room, part(worst, len(lines), "links")))))


def _links(view: View, short: bool = False) -> Lines:
    """Links that lose, the worst first; in short without the packets sent over them."""
    lossy = sorted((link for link in view.links if link.loss), key=lambda link: -(link.loss or 0))
    title = "LINKS by loss, estimated" if short else "LINKS by loss: least of any path, estimated"
    room = max((len(link.link) for link in lossy), default=0) if short else _LINK_NAME
    return [Text(title, "bold"), *([_link(link, room, short) for link in lossy] if lossy else [Text("none")])]


def _link(link: LinkView, room: int, short: bool) -> Text:
    marks = ", ".join(text for text, on in (("fault", link.faults), ("named", link.named)) if on)
    loss, sent = f"{100 * (link.loss or 0):.3f}%", "" if short else f" {link.sent:>9,} sent"
    return Text(f"{link.link:<{room}} {letter(link)[0]} {loss:>8}{sent}  {marks}".rstrip())
