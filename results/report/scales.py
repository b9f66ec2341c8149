"""Ranges of the figures' axes: as far as a run needs, or, beside other runs, equal ranges for equal quantities.

Runs that are far apart share a logarithmic axis, since on a linear one the smaller is a flat line.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.colors import Normalize

FAR_APART = 30.0
"""Ratio between runs from which the smaller could not be read on a linear axis (our choice)."""
MOST_SECONDS = 10.0
"""The same ratio for time, whose axis carries words and steps; beyond it each run has its own time axis."""


class Quantity(Enum):
    """The quantity that an axis, or a colour, shows."""

    SECONDS = auto()
    GOODPUT = auto()
    LOST = auto()
    """Packets per column of time; comparable only where SECONDS is shared."""
    RESENT = auto()
    SPINE = auto()
    OFF = auto()
    """Percent above or below what was expected."""
    MISSING = auto()
    """Missing packets, in percent of what was expected."""
    LATE = auto()
    PACKETS = auto()


@dataclass(frozen=True)
class Reach:
    """Range of the numbers on an axis; an axis may add a margin."""

    low: float
    high: float
    linear_to: float | None = None
    """Logarithmic from this value on, both ways; None: linear all over."""
    own: bool = False
    """Whether the range is this run's own, smaller than the others' range."""

    @property
    def size(self) -> float:
        """Largest distance from zero."""
        return max(abs(self.low), abs(self.high))

    @property
    def words(self) -> str:
        """Words that a title needs to describe this scale."""
        if self.own:
            return ", own scale"
        return "" if self.linear_to is None else f", log from {self.linear_to:,.3g}"

    def above(self, share: float) -> float:
        """Return the upper end of an axis from zero that leaves this share of room above its numbers."""
        if self.linear_to is None:
            return self.high * (1 + share)
        decades = 1 + math.log10(self.high / self.linear_to)  # the linear part takes the room of one
        return float(self.high * 10 ** (share * decades))

    def stretch(self, axes: Axes, axis: Literal["x", "y"], low: float, high: float) -> None:
        """Set an axis of this scale; `low` and `high` enclose its numbers."""
        if self.linear_to is not None:
            (axes.set_xscale if axis == "x" else axes.set_yscale)("symlog", linthresh=self.linear_to)
            (axes.xaxis if axis == "x" else axes.yaxis).set_major_formatter(lambda value, _: f"{value:,.10g}")
        (axes.set_xlim if axis == "x" else axes.set_ylim)(low, high)

    def norm(self) -> Normalize:
        """Return the same scale for a colour, from zero on."""
        return Normalize(0, self.high)


Reaches = Mapping[Quantity, Reach]

NEVER_LOGARITHMIC = {Quantity.SECONDS, Quantity.SPINE, Quantity.MISSING, Quantity.LATE}
"""Quantities that stay linear: a logarithmic colour would also show the small random losses of healthy paths."""


def shared(runs: Sequence[Reaches]) -> dict[Quantity, Reach]:
    """Return one shared range per quantity for all runs that have it; none where each run needs its own."""
    quantities = dict.fromkeys(quantity for run in runs for quantity in run)
    found = {
        each: _joined([run[each] for run in runs if each in run], each not in NEVER_LOGARITHMIC) for each in quantities
    }
    if _apart(run[Quantity.SECONDS] for run in runs if Quantity.SECONDS in run) > MOST_SECONDS:
        found.pop(Quantity.SECONDS)
        found.pop(Quantity.LOST, None)
    return found


def _joined(reaches: Sequence[Reach], may_be_logarithmic: bool) -> Reach:
    far = may_be_logarithmic and _apart(reaches) > FAR_APART
    smallest = min((reach.size for reach in reaches if reach.size), default=None)
    return Reach(min(reach.low for reach in reaches), max(reach.high for reach in reaches), smallest if far else None)


def _apart(reaches: Iterable[Reach]) -> float:
    """Return the ratio of the largest value to the smallest, without zeros, which are flat on any scale."""
    sizes = [reach.size for reach in reaches if reach.size]
    return max(sizes) / min(sizes) if sizes else 1.0
