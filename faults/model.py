"""What can be wrong with a link, as values: a drop rate and the fault that has it.

Exact: a rate is a fraction until it becomes the 32-bit number the kernel compares with. Knows no mechanism.
"""

import re
from dataclasses import dataclass
from fractions import Fraction

from faults.errors import RateError

_UNITS = {"%": Fraction(1, 100), "bp": Fraction(1, 10_000)}
_RATE = re.compile(r"(\d+(?:\.\d+)?|\.\d+)\s*(%|bp)")
_BARE = re.compile(r"\d*\.?\d+(?:[eE][-+]?\d+)?")

CERTAIN = 1 << 32
"""The threshold that no 32-bit random number reaches: every packet is dropped."""


@dataclass(frozen=True, slots=True)
class RandomDrop:
    """Every packet of one direction is dropped with probability `rate`, independently; 0 <= rate <= 1."""

    rate: Fraction

    kind = "random-drop"

    @property
    def threshold(self) -> int:
        """A packet is dropped when a uniform 32-bit number is below this; 0 to CERTAIN."""
        return round(self.rate * CERTAIN)

    def __str__(self) -> str:
        """As `drop 1%`."""
        return f"drop {render_rate(self.rate)}"


def rate_of_threshold(threshold: int) -> Fraction:
    """The rate a 32-bit threshold really gives; at most 2^-33 away from the one asked for."""
    return Fraction(threshold, CERTAIN)


def parse_rate(text: str) -> Fraction:
    """The fraction written as `1%`, `0.5%` or `50bp` (basis points); `0%` means no fault.

    Raises RateError for a bare number, because half of all tools read it as a percentage, for anything above 100 %
    and for a rate too small to be made.
    """
    stripped = text.strip()
    found = _RATE.fullmatch(stripped)
    if found is None:
        raise _unreadable(stripped)
    rate = Fraction(found[1]) * _UNITS[found[2]]
    if rate > 1:
        raise RateError(stripped, "is more than everything", "the largest rate is 100%")
    if rate and not RandomDrop(rate).threshold:
        raise RateError(stripped, "is below what 32 random bits can make", "the smallest rate is 0.000000024%")
    return rate


def render_rate(rate: Fraction) -> str:
    """In percent, without trailing zeros, ten decimals at most: `1%`, `0.001%`."""
    return f"{float(rate * 100):.10f}".rstrip("0").rstrip(".") + "%"


def _unreadable(text: str) -> RateError:
    if _BARE.fullmatch(text):
        number = Fraction(text)
        other = f" or {render_rate(number)}" if number <= 1 else ""
        return RateError(text, "has no unit", f"write {render_rate(number / 100)}{other}, whichever is meant")
    return RateError(text, "is not a rate", "write it as 1%, 0.5% or 50bp")
