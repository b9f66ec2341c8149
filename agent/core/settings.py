"""Base of settings records: each type states its range, and construction checks all ranges.

Requests carry these records unchanged, so a setting is declared once.
"""

from dataclasses import dataclass
from functools import cache
from typing import Annotated, get_args, get_origin, get_type_hints

import msgspec

from agent.core.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Range:
    """Least and greatest value of a setting, as in `Annotated[int, Range(1, 255)]`."""

    low: float
    high: float


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base of settings records; None is in every range if the type allows it."""

    def __post_init__(self) -> None:
        """Raise ConfigError with everything that is out of range."""
        problems = tuple(
            f"{name} is {value}, must be {allowed.low}..{allowed.high}"
            for name, allowed in ranges_of(type(self)).items()
            if (value := getattr(self, name)) is not None and not allowed.low <= value <= allowed.high
        )
        if problems:
            raise ConfigError(problems)


@cache
def ranges_of(settings: type[Settings]) -> dict[str, Range]:
    """Return the ranges of a record's settings by name; settings without a range are left out."""
    hints = get_type_hints(settings, include_extras=True)
    return {name: found for name, hint in hints.items() if (found := _range_in(hint)) is not None}


def _range_in(hint: object) -> Range | None:
    if get_origin(hint) is Annotated:
        return next((each for each in get_args(hint)[1:] if isinstance(each, Range)), None)
    return next((found for part in get_args(hint) if (found := _range_in(part)) is not None), None)
