"""Reads and writes rates, durations, bit rates and numbers, exactly in both directions. Pure; knows no fault.

A quantity without its unit is refused with a hint rather than guessed: half of all tools read 0.5 as a percentage.
"""

import re
from fractions import Fraction

from faults.errors import QuantityError, RateError

CERTAIN = 1 << 32
"""The threshold that no 32-bit random number reaches: always a hit."""

_LONGEST = 64
"""Most characters of a quantity; a number of 64 digits is far from any possible value (our choice)."""

SHORTEST_NS = 1_000_000
"""Shortest time in force, or between two: setting and clearing take about as long (our choice)."""

LONGEST_NS = 30 * 24 * 3600 * 10**9
"""Longest time: 30 days, longer than a lab is up (our choice)."""

_UNITS = {"%": Fraction(1, 100), "bp": Fraction(1, 10_000)}
_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?|\.[0-9]+) *(%|bp)")
_BARE = re.compile(r"[0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?")
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?|\.[0-9]+) *(ns|us|ms|s|min)")
_NS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9}
_BIT_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?|\.[0-9]+) *([kKMG]?)bit(?:/s)?")
_BITS = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9}
SIZE = re.compile(r"([0-9]+) ?(B|KiB|MiB|GiB)")
"""Bytes with a unit."""
_UNIT_BYTES = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_SIZES = re.compile(r"([0-9]+)(?:-([0-9]+)?)?|-([0-9]+)")


def parse_rate(text: str) -> Fraction:
    """Return the fraction written as `1%`, `0.5%` or `50bp` (basis points); `0%` means no fault.

    Raises RateError for a bare number, for anything above 100 % and for a rate too small to be made.
    """
    stripped = _short(text)
    found = _RATE.fullmatch(stripped)
    if found is None:
        raise _unreadable(stripped)
    rate = Fraction(found[1]) * _UNITS[found[2]]
    if rate > 1:
        raise RateError(stripped, "is more than everything", "the largest rate is 100%")
    if rate and not threshold_of(rate):
        raise RateError(stripped, "is below what 32 random bits can make", "the smallest rate is 0.000000024%")
    return rate


def render_rate(rate: Fraction) -> str:
    """Return a rate in percent, without trailing zeros, ten decimals at most: `1%`, `0.001%`."""
    return f"{float(rate * 100):.10f}".rstrip("0").rstrip(".") + "%"


def threshold_of(rate: Fraction) -> int:
    """Return the threshold below which a uniform 32-bit number is a hit; 0 to CERTAIN."""
    return round(rate * CERTAIN)


def rate_of_threshold(threshold: int) -> Fraction:
    """Return the exact rate of a 32-bit threshold; at most 2^-33 away from the requested one."""
    return Fraction(threshold, CERTAIN)


def parse_duration(text: str) -> int:
    """Return nanoseconds written as `10ms`, `1.5s`, `2min`; `0` needs no unit. At most LONGEST_NS. Raises
    QuantityError.
    """
    stripped = _short(text)
    if stripped == "0":
        return 0
    found = _DURATION.fullmatch(stripped)
    if found is None:
        bare = _BARE.fullmatch(stripped)
        hint = f"write {stripped}ms or {stripped}s, whichever is meant" if bare else "write it as 10ms, 1.5s or 2min"
        raise QuantityError(stripped, "has no unit" if bare else "is not a duration", hint)
    ns = round(Fraction(found[1]) * _NS[found[2]])
    if ns > LONGEST_NS:
        raise QuantityError(stripped, "is too long", f"{render_duration(LONGEST_NS)} are the most")
    return ns


def parse_lasting(text: str) -> int:
    """Return the same for something that lasts at least SHORTEST_NS. Raises QuantityError."""
    ns = parse_duration(text)
    if ns < SHORTEST_NS:
        raise QuantityError(text.strip(), "is too short", f"at least {render_duration(SHORTEST_NS)}")
    return ns


def render_duration(ns: int) -> str:
    """Write a duration with the largest unit that leaves at most three decimals."""
    for unit in ("s", "ms", "us"):
        if ns >= _NS[unit] and ns * 1000 % _NS[unit] == 0:
            return f"{ns / _NS[unit]:.3f}".rstrip("0").rstrip(".") + unit
    return f"{ns}ns" if ns else "0s"


def parse_bit_rate(text: str) -> int:
    """Return bits per second written as `10Mbit`, `1.5Gbit`, `800kbit`; whole bytes per second. `0` needs no unit.

    Raises QuantityError.
    """
    stripped = _short(text)
    if stripped == "0":
        return 0
    found = _BIT_RATE.fullmatch(stripped)
    if found is None:
        raise QuantityError(stripped, "is not a bit rate", "write it as 800kbit, 10Mbit or 1.5Gbit")
    rate = Fraction(found[1]) * _BITS[found[2]]
    if 0 < rate < 8_000 or rate > 10**12:
        raise QuantityError(stripped, "cannot be made", "8kbit to 1000Gbit are possible")
    return int(rate) // 8 * 8


def render_bit_rate(bits: int) -> str:
    """Return `10Mbit`."""
    for letter in "GMk":
        if bits >= _BITS[letter] and bits * 1000 % _BITS[letter] == 0:
            return f"{bits / _BITS[letter]:.3f}".rstrip("0").rstrip(".") + f"{letter}bit"
    return f"{bits}bit"


def parse_bytes(text: str) -> int:
    """Return bytes written as `1048576`, `64KiB` or `1MiB`. Raises QuantityError."""
    stripped = _short(text)
    found = SIZE.fullmatch(stripped)
    if found is None and not stripped.isdecimal():
        raise QuantityError(
            stripped, "is not a size", "write bytes as 1048576, or with a unit as 1MiB (B, KiB, MiB, GiB)"
        )
    return int(stripped) if found is None else int(found[1]) * _UNIT_BYTES[found[2]]


def parse_sizes(text: str) -> tuple[int, int]:
    """Return least and most bytes written as `100-300`, `1000-` or `-200`; `64` is exactly that. Raises
    QuantityError.
    """
    text = _short(text)
    found = _SIZES.fullmatch(text)
    if found is None:
        raise QuantityError(text, "is not a range of sizes", "write bytes as 100-300, 1000- or -200")
    low = int(found[1] or 0)
    high = LARGEST_BYTES if text.endswith("-") else int(found[3] or found[2] or low)
    if max(low, high) > LARGEST_BYTES:
        raise QuantityError(text, "is longer than any frame", f"{LARGEST_BYTES} bytes are the most")
    if high < low:
        raise QuantityError(text, "ends before it begins", f"write {high}-{low}")
    return low, high


LARGEST_BYTES = 0xFFFFFFFF
"""Largest number of bytes; no frame is as long."""


def parse_number(text: str, least: int, most: int) -> int:
    """Return a whole number, decimal or as `0x1f`. Raises QuantityError."""
    stripped = _short(text)
    try:
        number = int(stripped, 0)
    except ValueError:
        raise QuantityError(stripped, "is not a whole number", "write it as 12 or 0x1f") from None
    if not least <= number <= most:
        raise QuantityError(stripped, "is out of range", f"{least} to {most} are possible")
    return number


def _short(text: str) -> str:
    """Remove blanks around it. Raises QuantityError for text that is too long, and for more than ASCII."""
    stripped = text.strip()
    if len(stripped) > _LONGEST:
        raise QuantityError(f"{stripped[:12]}...", f"has {len(stripped)} characters", f"{_LONGEST} are the most")
    if not stripped.isascii():  # digits of other scripts are numbers to Python, and to no JSON Schema
        raise QuantityError(stripped, "has characters other than ASCII", "write digits as 0 to 9, units as us or ms")
    return stripped


def _unreadable(text: str) -> RateError:
    if _BARE.fullmatch(text):
        meant = [render_rate(each) for each in (Fraction(text) / 100, Fraction(text)) if each <= 1]
        choice = ", whichever is meant" if len(set(meant)) > 1 else ""
        if meant:
            return RateError(text, "has no unit", f"write {' or '.join(dict.fromkeys(meant))}{choice}")
    return RateError(text, "is not a rate", "write it as 1%, 0.5% or 50bp")
