"""Defines the words that describe faults, and reads the words of one request. It knows no kind of fault.

Problems are collected, so that all are shown at once; a word with a problem has no value.
"""

import difflib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any, TypeVar

from faults.errors import QuantityError
from faults.quantities import parse_duration, parse_lasting, parse_number, parse_rate, render_duration


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


Problem = tuple[str, str, str]
"""A problem: word, what is wrong, what would be right."""
T = TypeVar("T")

MOST_DELAY_NS = 10 * 10**9
"""Longest delay of packets (our choice): beyond all timeouts of the transport; waiting packets pass before it is
cleared.
"""


class Reader:
    """The words of one order; values are text, or True for a flag."""

    def __init__(self, words: Mapping[str, Any], known: Iterable[Word]) -> None:
        self._words = {name: value for name, value in words.items() if value is not None and value is not False}
        self.problems: list[Problem] = []
        there = {word.name: word for word in known}
        for name, value in list(self._words.items()):
            if name not in there:
                self._unknown(name, list(there))
                del self._words[name]
            elif there[name].flag and value is not True:
                self.wrong(name, f"{value!r} is not understood", "this word takes no value")

    def __contains__(self, name: str) -> bool:
        """Return whether a word is given."""
        return name in self._words

    def wrong(self, word: str, wrong: str, right: str) -> None:
        """Add a problem, once."""
        if (word, wrong, right) not in self.problems:
            self.problems.append((word, wrong, right))

    def is_wrong(self, word: str) -> bool:
        """Return whether a word has a problem."""
        return any(each == word for each, *_ in self.problems)

    def read(self, name: str, parse: Callable[[str], T]) -> T | None:
        """Return the value of a word; None without it or when it cannot be read."""
        if name not in self._words:
            return None
        try:
            return parse(str(self._words[name]))
        except QuantityError as error:
            self.wrong(name, f"{error.text!r} {error.reason}", error.hint)
            return None

    def rate(self, name: str) -> Fraction:
        """Return a share of packets; 0 without the word."""
        return self.read(name, parse_rate) or Fraction(0)

    def duration(self, name: str) -> int:
        """Nanoseconds."""
        return self.read(name, parse_duration) or 0

    def lasting(self, name: str) -> int:
        """Return the nanoseconds of something that lasts."""
        return self.read(name, parse_lasting) or 0

    def waiting(self, name: str) -> int:
        """Return nanoseconds of a packet's delay, at most MOST_DELAY_NS."""
        ns = self.duration(name)
        if ns > MOST_DELAY_NS:
            self.wrong(name, "is longer than packets can wait", f"at most {render_duration(MOST_DELAY_NS)}")
        return ns

    def number(self, name: str, least: int, most: int) -> int:
        """Return a whole number."""
        return self.read(name, lambda text: parse_number(text, least, most)) or 0

    def host(self, name: str) -> int:
        """Return the number of a host."""
        return self.read(name, parse_host) or 0

    def pairs(self, word: str, readers: Mapping[str, Callable[[str], Any]]) -> dict[str, Any]:
        """Return `a=1,b=2` with each value read; a mapping is accepted as it is."""
        values: dict[str, Any] = {}
        for name, text in self._parts(word):
            if name in values:
                self.wrong(word, f"{name} is given twice", "leave one out")
            if not text and (fitting := _that_reads(name, readers)):
                self.wrong(word, f"{name!r} has no name", f"write {fitting}={name}")
                continue
            if name not in readers:
                near = difflib.get_close_matches(name, list(readers), n=1)
                self.wrong(word, f"{name!r} is not known", did_you_mean(near, readers))
                continue
            try:
                values[name] = readers[name](text)
            except QuantityError as error:
                self.wrong(word, f"{name}: {error.text!r} {error.reason}", error.hint)
        return values

    def named(self, word: str) -> set[str]:
        """Return the names in `a=1,b=2`, whether their values can be read or not."""
        return {name for name, _ in self._parts(word)}

    def _parts(self, word: str) -> list[tuple[str, str]]:
        given = self._words[word]
        parts = given.items() if isinstance(given, Mapping) else (part.partition("=")[::2] for part in given.split(","))
        return [(str(name).strip(), str(text)) for name, text in parts]

    def _unknown(self, name: str, known: list[str]) -> None:
        near = difflib.get_close_matches(name, known, n=1)
        self.wrong(name, "unknown word", did_you_mean(near, known))


def parse_host(text: str) -> int:
    """Return the number of `h3`. Raises QuantityError."""
    if text[:1] != "h" or not text[1:].isdecimal():
        raise QuantityError(text, "is not a host", "write it as h3")
    return parse_number(text[1:], 0, 0xFFFF)


def one_of(text: str, words: list[str], reason: str) -> str:
    """Return the text, if it is one of these words. Raises QuantityError with the nearest."""
    if text in words:
        return text
    raise QuantityError(text, reason, did_you_mean(difflib.get_close_matches(text, words, n=1), words))


def did_you_mean(near: list[str], known: Iterable[str]) -> str:
    """Return a correction: the nearest name, or all known ones."""
    return f"did you mean {near[0]}?" if near else f"known here: {', '.join(known)}"


def _that_reads(text: str, readers: Mapping[str, Callable[[str], Any]]) -> str | None:
    """Return the first name whose value `text` can be."""
    for name, reader in readers.items():
        with suppress(QuantityError):
            reader(text)
            return name
    return None
