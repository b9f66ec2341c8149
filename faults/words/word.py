"""One word of the descriptions of faults: an option of `fault set`, a key of a scenario."""

from dataclasses import dataclass
from enum import StrEnum


class Takes(StrEnum):
    """What is written behind a word; the value is the `format` that the scenario's JSON Schema names."""

    FLAG = "flag"
    """Nothing: the word stands alone, or is `true`."""
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
    """One word: what is written behind it, and what it means."""

    name: str
    metavar: str
    """Stands for the value in the help of the command line; empty for a flag."""
    help: str
    """Of the option."""
    meaning: str
    """Of the key in a scenario."""
    takes: Takes

    @property
    def flag(self) -> bool:
        """Whether it stands alone."""
        return self.takes is Takes.FLAG

    @property
    def key(self) -> str:
        """As a key of a scenario and an argument of a program."""
        return self.name.replace("-", "_")
