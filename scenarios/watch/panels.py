"""Where the tables below the grid stand: side by side, each as long as there is room, and no room left that one wants.

On a narrow terminal flows are to the left, what is broken and who says so to the right, and hosts where lines are free.
"""

from collections.abc import Iterator, Sequence

from rich.text import Text

from scenarios.watch.tables import Lines, detection_lines, fault_lines, flow_lines, host_lines, part
from scenarios.watch.view import View

SPACE = 2
"""Columns between tables."""

_WIDE = 140
"""Columns from which on tables are wider and tell more, and as much is left beside them (our choice)."""
_WIDE_TABLE = 50
_NARROW_TABLE = 29

_LEAST_HOSTS = 3
"""Lines of the hosts' table at least: its head, a host, and how many more there are."""

Column = tuple[int, Lines]
"""How wide, and what is in it."""


def panels(view: View, width: int, height: int | None) -> Lines:
    """All tables in so many columns and lines; None: as many lines as it takes."""
    return list(beside(_wide(view, width, height) if width >= _WIDE else _narrow(view, width, height)))


def _wide(view: View, width: int, height: int | None) -> list[Column]:
    """Flows, hosts, news."""
    flows, hosts = flow_lines(view, True), part(host_lines(view, True, _WIDE_TABLE), height)
    first, second = max(_WIDE_TABLE, widest(flows)), max(_WIDE_TABLE, widest(hosts))
    rest = width - first - second - 2 * SPACE
    columns = [(second, hosts), (rest, _news(view, height, rest))]
    return _with_flows(flows, first, columns, height)


def _narrow(view: View, width: int, height: int | None) -> list[Column]:
    """Flows, then news; hosts below that one of both that has room for them."""
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
    """The flows' table before others; what has no room there goes on under that which leaves most, with its head."""
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
    """Faults in force, then the latest detections; each gets what the other leaves, at least half."""
    upper, lower = fault_lines(view, width), detection_lines(view, width)
    if height is None:
        return [*upper, *lower]
    upper = part(upper, max(height - len(lower), height // 2))
    return [*upper, *part(lower, height - len(upper))]


def widest(lines: Sequence[Text]) -> int:
    """Columns that lines take."""
    return max((len(line.plain) for line in lines), default=0)


def beside(columns: Sequence[Column]) -> Iterator[Text]:
    """Tables side by side as lines."""
    for at in range(max(len(lines) for _, lines in columns)):
        row = Text()
        for place, (width, lines) in enumerate(columns):
            cell = cut(lines[at] if at < len(lines) else Text(), width)
            cell.pad_right(width - len(cell.plain))
            row.append(" " * SPACE if place else "").append_text(cell)
        yield row


def cut(line: Text, width: int) -> Text:
    """The last resort, for a word that is longer than its place."""
    line = line.copy()
    line.truncate(width, overflow="ellipsis")
    return line
