"""Defines one word of the descriptions of faults: an option of `fault set`, a key of a scenario."""

from dataclasses import dataclass
from enum import StrEnum


class Takes(StrEnum):
    """Type of a word's value; each member's value is the `format` that the scenario's JSON Schema names."""

    FLAG = "flag"
    """No value: the word stands alone, or is `true`."""
    SHARE = "share"
    BIT_RATE = "bit-rate"
    TIME = "time"
    COUNT = "count"
    HOST = "host"
    SETTINGS = "settings"
    """`a=1,b=2`, or a mapping."""
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Word:
    """One word: its value's type, and its meaning."""

    name: str
    metavar: str
    """Placeholder of the value in the help of the command line; empty for a flag."""
    help: str
    """Help of the option."""
    meaning: str
    """Description of the scenario key."""
    takes: Takes

    @property
    def flag(self) -> bool:
        """Return whether it takes no value."""
        return self.takes is Takes.FLAG

    @property
    def key(self) -> str:
        """Return its name as a key of a scenario and an argument of a program."""
        return self.name.replace("-", "_")
