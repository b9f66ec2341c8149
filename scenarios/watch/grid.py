"""Draws a plane as a grid of links, leaf by spine; a letter per direction shows its loss. Pure.

Where not everything fits, leaves, spines and planes with losses, faults or accusations come first.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.text import Text

from scenarios.watch.snapshot import LinkView, View

_CLASSES = ((0.0003, "a", "yellow"), (0.003, "b", "yellow"), (0.03, "c", "bold yellow"), (0.3, "d", "bold red"))
"""Largest loss rate of each letter's class, about a power of ten each: 0.01 %, 0.1 %, 1 %, 10 %."""

LEGEND = (
    "link up, down by loss: . none  a ~.01%  b ~.1%  c ~1%  d ~10%  e more  - unused",
    "^ v x fault up, down, both; CAPITAL or #: named. Loss of links is estimated.",
)
_NOT_SAMPLED = "? not sampled: run {} ended before this view; `spraylab report` shows it"

_GAP = 2
_CELL = 4
"""Columns of a cell: up, down, fault, and a space."""


def legend(view: View) -> tuple[str, ...]:
    """Return the legend of the cells, one line each."""
    return LEGEND if view.sampled else (*LEGEND, _NOT_SAMPLED.format(view.run))


Cell = tuple[LinkView | None, LinkView | None]
"""Losses up and down; None for links without data."""


@dataclass(frozen=True)
class Shown:
    """The planes, leaves and spines that fit."""

    planes: tuple[int, ...]
    leaves: tuple[int, ...]
    spines: tuple[int, ...]
    per_row: int
    """Number of planes side by side."""


@dataclass(frozen=True)
class Grid:
    """Lines to show, and how many planes, leaves and spines had no room."""

    lines: tuple[Text, ...]
    left_out: str


def grid(view: View, width: int, height: int | None) -> Grid:
    """Draw all planes in this many columns and at most this many lines, as far as they fit; None: no limit."""
    cells: dict[tuple[int, int, int], Cell] = {}
    for link in view.links:
        key = link.plane, link.leaf, link.spine
        up, down = cells.get(key, (None, None))
        cells[key] = (link, down) if link.up else (up, link)
    shown = _fitting(view, cells, width, height)
    lines = list[Text]()
    for first in range(0, len(shown.planes), shown.per_row):
        blocks = [_plane(plane, shown, cells, view) for plane in shown.planes[first : first + shown.per_row]]
        lines += [Text(" " * _GAP).join(parts) for parts in zip(*blocks, strict=True)]
    return Grid(tuple(lines), _left_out(view, shown))


def _fitting(view: View, cells: dict[tuple[int, int, int], Cell], width: int, height: int | None) -> Shown:
    weight = {key: _weight(cell) for key, cell in cells.items()}

    def by(place: int) -> Callable[[int], float]:
        return lambda index: max((w for key, w in weight.items() if key[place] == index), default=0.0)

    label = _label_width(view)
    room = view.spines if height is None else (width - label + 1) // _CELL
    spines = _chosen(view.spines, room, by(2))
    per_row = max(1, (width + _GAP) // (label + _CELL * len(spines) + _GAP))
    rows = -(-view.planes // per_row)
    if height is None:
        return Shown(tuple(range(view.planes)), tuple(range(view.leaves)), spines, per_row)
    rows = max(1, min(rows, height // (2 + min(3, view.leaves))))
    leaves = _chosen(view.leaves, height // rows - 2, by(1))
    return Shown(_chosen(view.planes, rows * per_row, by(0)), leaves, spines, per_row)


def _chosen(count: int, room: int, weight: Callable[[int], float]) -> tuple[int, ...]:
    """Choose as many indices as fit, at least one, those of most weight first; return them in order."""
    if room >= count:
        return tuple(range(count))
    return tuple(sorted(sorted(range(count), key=lambda index: (-weight(index), index))[: max(1, room)]))


def _weight(cell: Cell) -> float:
    """Return how much there is to see."""
    links = [link for link in cell if link is not None]
    return sum((link.loss or 0.0) + 2 * link.named + 2 * bool(link.faults) for link in links)


def _label_width(view: View) -> int:
    return len(f"leaf{view.leaves - 1} ")


def _plane(plane: int, shown: Shown, cells: dict[tuple[int, int, int], Cell], view: View) -> list[Text]:
    label = _label_width(view)
    width = label + _CELL * len(shown.spines) - 1
    head = Text(f"plane {plane}".ljust(width), "bold")
    names = "".join((f"s{spine}" if spine < 100 else str(spine)).ljust(_CELL) for spine in shown.spines)[:-1]
    unread = "-" if view.sampled else "?"
    rows = [_row(f"leaf{leaf}".ljust(label), [cells.get((plane, leaf, spine)) for spine in shown.spines], unread)
            for leaf in shown.leaves]  # fmt: skip
    return [head, Text(" " * label + names, "dim"), *rows]


def _row(label: str, cells: Sequence[Cell | None], unread: str) -> Text:
    row = Text(label, "dim")
    for place, cell in enumerate(cells):
        if place:
            row.append(" ")
        row.append_text(_cell(cell or (None, None), unread))
    return row


def _cell(cell: Cell, unread: str) -> Text:
    drawn = Text()
    for link in cell:
        drawn.append(*letter(link, unread))
    up, down = (link is not None and link.faults > 0 for link in cell)
    drawn.append({(True, True): "x", (True, False): "^", (False, True): "v"}.get((up, down), " "), "bold cyan")
    return drawn


def letter(link: LinkView | None, unread: str = "-") -> tuple[str, str]:
    """Return the letter and the style of a direction; `unread` where no packet was counted."""
    if link is None or link.loss is None:
        return ("#", "bold red reverse") if link is not None and link.named else (unread, "dim")
    if not link.loss:
        return ("#", "bold red reverse") if link.named else (".", "green")
    found = next(((name, style) for most, name, style in _CLASSES if link.loss <= most), ("e", "bold red"))
    return (found[0].upper(), f"{found[1]} reverse") if link.named else found


def _left_out(view: View, shown: Shown) -> str:
    parts = _missing(
        ("planes", view.planes, shown.planes),
        ("leaves", view.leaves, shown.leaves),
        ("spines", view.spines, shown.spines),
    )
    return ", ".join(parts)


def _missing(*what: tuple[str, int, Iterable[int]]) -> Iterator[str]:
    for name, count, shown in what:
        if (left := count - len(tuple(shown))) > 0:
            yield f"{left} {name}"
