"""How figures look: few colours that colour-blind eyes tell apart, each beside a shape that says the same.

A figure is drawn once, for a light page. In the report its colours become the page's own, so that it is dark on a dark
page and light on paper.
"""

import io
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator

from results.drawing import own_settings
from results.user_files import make_folder, replacing, write_file

INK, QUIET, RULE, PAPER = "#1c2128", "#667079", "#d4d9de", "#fdfefe"
FAULT, ACCUSED, GOOD, WARN = "#c1440e", "#0a62a8", "#16775a", "#8a5a00"
"""Vermilion, blue, green and ochre of about Okabe and Ito's set, dark enough for text on paper."""
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
"""Colour to the name of the style sheet's variable."""

WIDTH_IN = 8.6
"""Of all figures, so that their text has one size on the page."""
BESIDE_IN = 6.0
"""Of a figure beside that of another run: two fill a page, with text that can be read (our choice)."""

_DPI = 130
_SETTINGS: Any = {
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": QUIET,
    "axes.labelcolor": INK,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
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
}


@dataclass(frozen=True)
class Drawn:
    """A figure ready to be shown, or why there is none."""

    name: str
    """Of its files, and its anchor in the page."""
    title: str
    caption: str
    svg: str = ""
    """Empty when there is none; in the colours of a light page."""
    figure: Figure | None = None
    absent: str = ""
    """Why there is none."""

    @property
    def svg_for_page(self) -> str:
        """The same in the page's own colours, to be put into HTML."""
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


def blank(height_in: float, width_in: float = WIDTH_IN) -> Figure:
    """An empty figure."""
    with own_settings(_SETTINGS):
        layout = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.05)  # a browser's texts may be a little wider
        return Figure(figsize=(width_in, height_in), dpi=_DPI, layout=layout, facecolor="none")


def styled() -> AbstractContextManager[None]:
    """Context in which axes are made and drawn."""
    return own_settings(_SETTINGS)


def quiet_axes(axes: Axes, grid: Literal["x", "y"] = "y") -> None:
    """Only what the eye needs."""
    axes.tick_params(length=3, width=0.6)
    axes.grid(visible=True, axis=grid)
    for spine in axes.spines.values():
        spine.set_linewidth(0.6)


def whole_numbers(axes: Axes, axis: Literal["x", "y"] = "y") -> None:
    """Ticks at whole numbers only."""
    along = axes.xaxis if axis == "x" else axes.yaxis
    along.set_major_locator(MaxNLocator("auto", integer=True))
    along.set_major_formatter(lambda value, _: f"{value:,.0f}")


def drawn(name: str, title: str, caption: str, figure: Figure) -> Drawn:
    """A finished figure, laid out and written as SVG; the same figure gives the same text."""
    svg = io.StringIO()
    with own_settings(_SETTINGS | {"svg.hashsalt": name}):
        engine = figure.get_layout_engine()
        if engine is not None:
            engine.execute(figure)
        figure.set_layout_engine("none")  # once is enough, and half of the work
        figure.savefig(svg, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    return Drawn(name, title, caption, svg.getvalue(), figure)


def save(figures: list[Drawn], folder: Path) -> None:
    """Write `NAME.svg` and `NAME.png` of those that are there; the SVG on paper of its own."""
    make_folder(folder)
    for one in figures:
        if one.figure is not None:
            on_paper = one.svg.replace("<g id=", f'<rect width="100%" height="100%" fill="{PAPER}"/>\n<g id=', 1)
            svg, png = folder / f"{one.name}.svg", folder / f"{one.name}.png"
            write_file(svg, on_paper.encode())
            with replacing(png) as file, own_settings(_SETTINGS):
                one.figure.savefig(file, format="png", dpi=_DPI, facecolor=PAPER, metadata={"Software": None})
