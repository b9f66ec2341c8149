"""Defines option types: numbers within limits, and sizes in bytes with the units of scenarios."""

import math
import re
from contextlib import suppress
from typing import Any

import click

from faults.errors import QuantityError
from faults.quantities import parse_bytes

_DIGITS = re.compile(r"[+-]?[0-9]+")
"""Pattern of whole numbers in JSON and scenarios: no digits of other scripts, no underscores."""


class Whole(click.IntRange):
    """A whole number within limits, with a clearer error than click's."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number. Fails as click does."""
        if isinstance(value, str) and not _DIGITS.fullmatch(value):
            self.fail(f"{value!r} is not a whole number{self._limits()}", param, ctx)
        return super().convert(value, param, ctx)

    def _limits(self) -> str:
        if self.max is not None:
            return f"; {self.min or 0} to {self.max} are possible"
        return "" if self.min is None else f"; {self.min} is the least"


class Real(click.FloatRange):
    """A number within limits, which excludes `nan`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number. Fails as click does."""
        found = super().convert(value, param, ctx)
        if math.isnan(found):
            self.fail(f"{value!r} is not a number from {self.min} to {self.max}", param, ctx)
        return found


class Size(click.ParamType[int]):
    """A size: `65536`, `64KiB`, `4MiB`."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return bytes, at least 1."""
        if isinstance(value, int):
            return value
        size = 0
        with suppress(QuantityError):
            size = parse_bytes(value)
        if size < 1:
            self.fail(f"{value!r} is not a size; write bytes as 1048576, or with a unit as 1MiB", param, ctx)
        return size


SIZE = Size()
