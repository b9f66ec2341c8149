"""Places the tables below the grid side by side, each as long as there is room, without wasting lines.

On a narrow terminal flows are on the left, faults and detections on the right, and hosts where lines are free.
"""

from collections.abc import Iterator, Sequence

from rich.text import Text

from scenarios.watch.tables import Lines, detection_lines, fault_lines, flow_lines, host_lines, part
from scenarios.watch.view import View

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
