"""Sets how figures look: few colours that colour-blind readers can distinguish, each with its own shape.

A figure is drawn once, for a light page. In the report its colours become the page's own, so that it is dark on a dark
page and light on paper.
"""

import io
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import Bbox
from numpy.typing import NDArray

from results.files.user_files import make_folder, replacing, write_file
from results.matplotlib_settings import own_settings

INK, QUIET, RULE, PAPER = "#1c2128", "#667079", "#d4d9de", "#fdfefe"
FAULT, ACCUSED, GOOD, WARN = "#c1440e", "#0a62a8", "#16775a", "#8a5a00"
"""Vermilion, blue, green and ochre close to Okabe and Ito's set, dark enough for text on paper."""
FLOW, CELL = "#5b7f9d", "#e9edf0"

ROLES: Mapping[str, str] = {
    INK: "ink",
    QUIET: "quiet",
    RULE: "rule",
    PAPER: "paper",
    FAULT: "fault",
    ACCUSED: "accused",
    GOOD: "good",
    WARN: "warn",
    FLOW: "flow",
    CELL: "cell",
}
"""The style sheet's variable for each colour."""

WIDTH_IN = 8.6
"""Font size of all figures, so that text has one size on the page."""
COLUMN_IN = 3.4
"""Width of a figure for a column of a paper, and for a phone: as in two-column journal styles."""
BESIDE_IN = 6.0
"""Width of a figure beside that of another run: two fill a page, with readable text (our choice)."""

_DPI = 130
_DIGITS = 6
"""Unit of positions: shares of a figure."""
_BESIDE_TITLE_IN, _LETTERS_AN_INCH = 1.0, 13
"""Width that a title leaves to the labels of its axes, and letters of a title along it (tried in a browser)."""
SETTINGS: Any = {
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": QUIET,
    "axes.labelcolor": INK,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.titley": 1.0,  # nothing stands above axes; to look for it took a fifth of the time
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.facecolor": "none",
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "svg.fonttype": "none",
    "pdf.fonttype": 42,  # letters as TrueType: text of a paper, not drawings
    "text.parse_math": False,  # a name from a file is no formula, whatever is in it
}
"""Matplotlib settings of all figures, including those of studies."""
_WRITERS: Mapping[str, Callable[[Figure, Any], None]] = {
    "svg": lambda figure, file: FigureCanvasSVG(figure).print_svg(
        file, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type"))
    ),
    "png": lambda figure, file: FigureCanvasAgg(figure).print_png(file, metadata={"Software": None}),
    "pdf": lambda figure, file: FigureCanvasPdf(figure).print_pdf(file, metadata={"CreationDate": None}),
}
"""Functions that write a laid-out figure; without a date, so that the same figure gives the same file.

`Figure.savefig` would draw it twice, once only to lay it out.
"""
FORMATS = tuple(_WRITERS)
"""File formats of a figure."""


@dataclass(frozen=True)
class Drawn:
    """A finished figure, or the reason why there is none."""

    name: str
    """Name of its files, and its anchor in the page."""
    title: str
    caption: str
    svg: str = ""
    """The figure in the colours of a light page; empty when there is none."""
    figure: Figure | None = None
    absent: str = ""
    """Reason why there is none."""

    @property
    def svg_for_page(self) -> str:
        """The figure in the page's own colours, to be put into HTML."""
        start = self.svg.find("<svg")
        inline = self.svg[start:] if start >= 0 else ""
        for colour, role in ROLES.items():
            inline = inline.replace(colour, f"var(--{role})")
        return re.sub(
            r'<svg ([^>]*?)width="[^"]*" height="[^"]*"|<svg height="[^"]*" ([^>]*?)width="[^"]*"',
            _unsized,
            inline,
            count=1,
        )


def _unsized(found: "re.Match[str]") -> str:
    return "<svg " + (found[1] or found[2] or "")


def is_narrow(width_in: float) -> bool:
    """Return whether a figure is for a column: then fewer panels stand side by side."""
    return width_in < (COLUMN_IN + BESIDE_IN) / 2


def blank(height_in: float, width_in: float = WIDTH_IN) -> Figure:
    """Return an empty figure."""
    with own_settings(SETTINGS):
        layout = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.05)  # a browser's texts may be a little wider
        return Figure(figsize=(width_in, height_in), dpi=_DPI, layout=layout, facecolor="none")


def styled() -> AbstractContextManager[None]:
    """Return the context in which axes are made and drawn."""
    return own_settings(SETTINGS)


def quiet_axes(axes: Axes, grid: Literal["x", "y"] = "y") -> None:
    """Remove the frame lines and ticks that readers do not need."""
    axes.tick_params(length=3, width=0.6)
    axes.grid(visible=True, axis=grid)
    for spine in axes.spines.values():
        spine.set_linewidth(0.6)


def share_outer_axes(grid: NDArray[Any]) -> None:
    """Leave the axes inside a grid of panels, which have no numbers, out of the layout: they take a third of its time.

    `grid` holds axes, (rows, columns), that share x in columns and y in rows.
    """
    for row in grid[:-1]:
        for axes in row:
            axes.xaxis.set_in_layout(False)
    for row in grid[:, 1:]:
        for axes in row:
            axes.yaxis.set_in_layout(False)


def entitle(axes: Axes, text: str) -> None:
    """Wrap a title to the figure's width."""
    inches = axes.figure.bbox.width / axes.figure.dpi - _BESIDE_TITLE_IN
    axes.set_title(fill(text, max(20, int(inches * _LETTERS_AN_INCH))))


def whole_numbers(axes: Axes, axis: Literal["x", "y"] = "y") -> None:
    """Set ticks at whole numbers only."""
    along = axes.xaxis if axis == "x" else axes.yaxis
    along.set_major_locator(MaxNLocator("auto", integer=True))
    along.set_major_formatter(lambda value, _: f"{value:,.0f}")


def drawn(name: str, title: str, caption: str, figure: Figure) -> Drawn:
    """Return a finished figure, laid out and written as SVG; the same figure gives the same text."""
    svg = io.StringIO()
    salt = f"{name} {figure.get_figwidth()}"  # pages have a figure in several widths, whose parts need other names
    with own_settings(SETTINGS | {"svg.hashsalt": salt}):
        engine = figure.get_layout_engine()
        if engine is not None:
            engine.execute(figure)
        figure.set_layout_engine("none")  # once is enough, and half of the work
        for axes in figure.axes:  # the layout's solver ends at slightly different numbers each time
            axes.set_position(Bbox(np.round(axes.get_position(original=True).get_points(), _DIGITS)))
        _WRITERS["svg"](figure, svg)
    return Drawn(name, title, caption, svg.getvalue(), figure)


def save(figures: list[Drawn], folder: Path, formats: Sequence[str] = FORMATS, suffix: str = "") -> None:
    """Write `NAME.svg`, `NAME.png` and `NAME.pdf` of the figures that exist, NAME with `suffix`, on a light ground."""
    make_folder(folder)
    for one in figures:
        if one.figure is not None:
            for kind in formats:
                _save(one.svg, one.figure, folder / f"{one.name}{suffix}.{kind}", kind)


def _save(svg: str, figure: Figure, path: Path, kind: str) -> None:
    if kind == "svg":
        on_paper = svg.replace("<g id=", f'<rect width="100%" height="100%" fill="{PAPER}"/>\n<g id=', 1)
        write_file(path, on_paper.encode())
        return
    figure.set_facecolor(PAPER)
    figure.set_dpi(_DPI)  # writing a figure as SVG or PDF leaves it with points for pixels
    with replacing(path) as file, own_settings(SETTINGS):
        _WRITERS[kind](figure, file)
