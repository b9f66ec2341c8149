"""Draws one picture of a lab: from a `View` to lines that fit a terminal, or to everything for a pipe. Pure.

Each number is marked as measured, requested or estimated. Letters and marks show everything, colours repeat it.
Nothing is cut inside a word: long text continues in the next line, and what has no room is counted. Tables below the
grid stand side by side, each as long as there is room: on a narrow terminal flows on the left, faults and detections
on the right, and hosts where lines are free.
"""

from collections.abc import Iterator, Sequence

from rich.text import Text

from scenarios.watch.grid import grid, legend, letter
from scenarios.watch.snapshot import LinkView, View
from scenarios.watch.tables import Lines, detection_lines, fault_lines, flow_lines, folded, host_lines, part

SPACE = 2
"""Columns between tables."""

_WIDE = 140
"""Columns from which tables are wider and show more, with this many left beside them (our choice)."""
_WIDE_TABLE = 50
_NARROW_TABLE = 29

_LEAST_HOSTS = 3
"""Least lines of the hosts' table: its head, a host, and how many more there are."""

Column = tuple[int, Lines]
"""A table's width and content."""


def panels(view: View, width: int, height: int | None) -> Lines:
    """Arrange all tables in this many columns and lines; None: as many lines as needed."""
    return list(beside(_wide(view, width, height) if width >= _WIDE else _narrow(view, width, height)))


def _wide(view: View, width: int, height: int | None) -> list[Column]:
    """Arrange flows, hosts and news in three columns."""
    flows, hosts = flow_lines(view, True), part(host_lines(view, True, _WIDE_TABLE), height)
    first, second = max(_WIDE_TABLE, widest(flows)), max(_WIDE_TABLE, widest(hosts))
    rest = width - first - second - 2 * SPACE
    columns = [(second, hosts), (rest, _news(view, height, rest))]
    return _with_flows(flows, first, columns, height)


def _narrow(view: View, width: int, height: int | None) -> list[Column]:
    """Arrange flows, then news; hosts go below the one that has room for them."""
    flows = flow_lines(view, False)
    hosts = host_lines(view, False, None, alike=height is not None)
    first = max(_NARROW_TABLE, widest(flows), widest(hosts))
    rest = width - first - SPACE
    if height is None or len(flows) + len(hosts) <= height:
        return [(first, [*flows, *hosts]), (rest, _news(view, height, rest))]
    hosts = part(hosts, max(_LEAST_HOSTS, height // 3), "hosts")
    news = _news(view, height - len(hosts), rest)
    return _with_flows(flows, first, [(rest, [*news, *hosts])], height)


def _with_flows(flows: Lines, width: int, others: Sequence[Column], height: int | None) -> list[Column]:
    """Place the flows' table first; what does not fit continues, with its head, where most room is left."""
    if height is None or len(flows) <= height:
        return [(width, flows), *others]
    head, rest = flows[1], flows[height:]
    rooms = ((height - len(lines) - 1, at) for at, (room, lines) in enumerate(others) if room >= widest(flows))
    free, at = max(rooms, default=(0, 0))
    if free < min(2, len(rest)):
        return [(width, part(flows, height, "flows")), *others]
    room, lines = others[at]
    longer = room, [*lines, head, *part(rest, free, "flows")]
    return [(width, flows[:height]), *others[:at], longer, *others[at + 1 :]]


def _news(view: View, height: int | None, width: int) -> Lines:
    """Show faults in force, then the latest detections; each gets what the other leaves, at least half."""
    upper, lower = fault_lines(view, width), detection_lines(view, width)
    if height is None:
        return [*upper, *lower]
    upper = part(upper, max(height - len(lower), height // 2))
    return [*upper, *part(lower, height - len(upper))]


def widest(lines: Sequence[Text]) -> int:
    """Return the columns that lines need."""
    return max((len(line.plain) for line in lines), default=0)


def beside(columns: Sequence[Column]) -> Iterator[Text]:
    """Join tables side by side as lines."""
    for at in range(max(len(lines) for _, lines in columns)):
        row = Text()
        for place, (width, lines) in enumerate(columns):
            cell = cut(lines[at] if at < len(lines) else Text(), width)
            cell.pad_right(width - len(cell.plain))
            row.append(" " * SPACE if place else "").append_text(cell)
        yield row


def cut(line: Text, width: int) -> Text:
    """Cut a word that is longer than its place."""
    line = line.copy()
    line.truncate(width, overflow="ellipsis")
    return line


LEAST_WIDTH, LEAST_HEIGHT = 80, 24
"""Least size of a picture (our choice): the size of terminals by default."""

_BELOW = 9
"""Least lines of the tables below the grid."""

_PIPE = 160
"""Columns for planes side by side where no terminal limits them (our choice)."""

_LINK_NAME = 17
"""Columns of a link's name, so that numbers align (our choice: `p0:leaf10>spine10`)."""

STALE_S = 3
"""Age from which a view is marked as old: the lab is busy, or this machine (our choice)."""


def too_small(width: int, height: int | None) -> str:
    """State in one line that a terminal has no room for a picture; empty where it has. Without a height any will do."""
    if height is None:
        return (
            ""
            if width >= LEAST_WIDTH
            else f"watch needs {LEAST_WIDTH} columns, this terminal has {width}; a pipe shows everything"
        )
    if width >= LEAST_WIDTH and height >= LEAST_HEIGHT:
        return ""
    return f"watch needs {LEAST_WIDTH}x{LEAST_HEIGHT}, this terminal has {width}x{height}"


def whole_frame(view: View) -> Text:
    """Return everything, one item per line; lines are as long as they are."""
    head = _head(view, 0, None)
    drawn = grid(view, _PIPE, None)
    tables = (_links(view), flow_lines(view, True), host_lines(view, True, None), fault_lines(view, None),
              detection_lines(view, None))  # fmt: skip
    below_grid = [Text(line, "dim") for line in legend(view)]
    lines = [*head, *drawn.lines, *below_grid, *(line for each in tables for line in each)]
    return _joined(lines)


def frame(view: View, width: int, height: int | None, age_s: int = 0) -> Text:
    """Return the picture for a terminal. With a height of None it shows everything; `age_s` is the age of the
    reading.
    """
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
    troubles = [Text(f"{each}; `spraylab inspect` shows more", "bold red") for each in view.troubles]
    return [line for each in (head, *troubles) for line in folded(each, width)]


def _with_worst(lines: Sequence[Text], view: View, width: int) -> Lines:
    """Draw the grid, and beside it, if there is room, the links with most losses, with numbers."""
    taken = widest(lines)
    room = width - taken - SPACE
    worst = next((told for told in (_links(view), _links(view, short=True)) if widest(told) <= room), None)
    if worst is None:
        return list(lines)
    return list(beside(((taken, list(lines)), (room, part(worst, len(lines), "links")))))


def _links(view: View, short: bool = False) -> Lines:
    """List links that lose packets, the worst first; the short form omits the packets sent over them."""
    lossy = sorted((link for link in view.links if link.loss), key=lambda link: -(link.loss or 0))
    title = "LINKS by loss, estimated" if short else "LINKS by loss: least of any path, estimated"
    room = max((len(link.link) for link in lossy), default=0) if short else _LINK_NAME
    return [Text(title, "bold"), *([_link(link, room, short) for link in lossy] if lossy else [Text("none")])]


def _link(link: LinkView, room: int, short: bool) -> Text:
    marks = ", ".join(text for text, on in (("fault", link.faults), ("named", link.named)) if on)
    loss, sent = f"{100 * (link.loss or 0):.3f}%", "" if short else f" {link.sent:>9,} sent"
    return Text(f"{link.link:<{room}} {letter(link)[0]} {loss:>8}{sent}  {marks}".rstrip())
