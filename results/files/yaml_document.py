"""Parses YAML text to plain values, with the line of every key, so that an error can state it.

This is the only reader of YAML. It has limits, because a small text can become a huge value. It knows nothing of
scenarios. Lists become tuples, for frozen models.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

MOST_BYTES = 1 << 20
"""Most bytes of a file; a scenario with a thousand flows has a twentieth of it (our choice)."""

DEEPEST = 32
"""Most levels of nesting; a scenario has four."""

_PLAIN_TAGS = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")
"""YAML tags of keys, values and lists without an explicit tag."""

_TOO_DEEP = ("nested too deeply", "see docs/scenarios.md for the keys")

_BROKEN = ("half a character (a UTF-16 surrogate)", "write the character itself")

_LONGEST_SHOWN = 40
"""Most characters of the text in an error (our choice)."""

Place = tuple[str | int, ...]
"""Position: keys and list positions from the top of the document."""


@dataclass(frozen=True)
class Flaw:
    """An error in the text itself."""

    place: Place
    line: int
    wrong: str
    right: str


@dataclass(frozen=True)
class Document:
    """The values of a YAML text and their positions."""

    values: Any
    lines: Mapping[Place, int]
    flaws: tuple[Flaw, ...]

    def line_of(self, place: Place) -> int:
        """Return the line of the flaw or key at `place`, or of the nearest enclosing key; lines count from 1."""
        flawed = next((flaw.line for flaw in self.flaws if flaw.place == place), None)
        if flawed is not None:
            return flawed
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place, 1)


class _Loader(yaml.SafeLoader):
    """Loader that keeps dates as text: a scenario has none, and a run may have a date as its name."""

    yaml_implicit_resolvers = {  # noqa: RUF012 -- PyYAML's own shape
        letter: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


@dataclass
class _Reading:
    loader: _Loader
    text: str
    lines: dict[Place, int] = field(default_factory=dict)
    flaws: list[Flaw] = field(default_factory=list)
    visited: set[int] = field(default_factory=set)

    def value(self, node: yaml.Node, place: Place) -> Any:
        self.lines.setdefault(place, node.start_mark.line + 1)
        if len(place) > DEEPEST:
            self.flaws.append(Flaw(place[:1], self.lines[place], *_TOO_DEEP))
            return None
        if id(node) in self.visited:
            # An alias is the one way to make a small text huge or endless, and a scenario is short.
            self.flaws.append(Flaw(place, self.lines[place], "a YAML alias is used", "write the value out"))
            return None
        self.visited.add(id(node))
        if not isinstance(node, yaml.ScalarNode) and node.tag not in _PLAIN_TAGS:
            tag = node.tag.replace("tag:yaml.org,2002:", "!!")
            self.flaws.append(Flaw(place, self.lines[place], f"the tag {tag} is not supported", "leave it out"))
            return None
        if isinstance(node, yaml.MappingNode):
            return dict(self._entries(node, place))
        if isinstance(node, yaml.SequenceNode):
            return tuple(self.value(item, (*place, at)) for at, item in enumerate(node.value))
        return self._scalar(node, place)

    def _scalar(self, node: yaml.Node, place: Place) -> Any:
        if is_broken(node.value):
            self.flaws.append(Flaw(place, self.lines[place], *_BROKEN))
            return None
        try:
            value = self.loader.construct_object(node)
            if (odd := odd_number(node.value, value)) is not None:
                self.flaws.append(Flaw(place, self.lines[place], *odd))
                return None
            return value
        except (AttributeError, LookupError, ValueError):  # what PyYAML makes of `!!int x`, and of too many digits
            kind = node.tag.rpartition(":")[2]
            wrong = f"{self._source(node)} cannot be read as !!{kind}"
            self.flaws.append(Flaw(place, self.lines[place], wrong, "write a plain word or number"))
            return None

    def _source(self, node: yaml.Node) -> str:
        """Return a node as written, cut to a few words."""
        written = " ".join(self.text[node.start_mark.index : node.end_mark.index].split())
        return written if len(written) <= _LONGEST_SHOWN else f"{written[:_LONGEST_SHOWN]}..."

    def _entries(self, node: yaml.MappingNode, place: Place) -> Iterator[tuple[str, Any]]:
        seen: dict[str, int] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                kind = "a list" if isinstance(key_node, yaml.SequenceNode) else "keys and values"
                wrong = f"{kind} where a key should be"
                self.flaws.append(Flaw((*place, self._source(key_node)), line, wrong, "a key is one word, as `name`"))
                continue
            key = str(key_node.value)
            if is_broken(key):
                self.flaws.append(Flaw(place, line, *_BROKEN))
                continue
            if key in seen:
                self.flaws.append(
                    Flaw((*place, key), line, f"key given twice, first in line {seen[key]}", "keep one of them")
                )
                continue
            seen[key] = line
            self.lines[(*place, key)] = line
            yield key, self.value(value_node, (*place, key))


def is_broken(text: str) -> bool:
    """Return whether a text cannot be written: YAML's escapes can name halves of characters (UTF-16 surrogates)."""
    return any("\ud800" <= letter <= "\udfff" for letter in text)


def odd_number(text: str, value: Any) -> tuple[str, str] | None:
    """State why a number means something else in YAML 1.1 than people expect, and how to write it."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not math.isfinite(value):
        return f"{text} is not a number", "write a plain one, such as 8 or 2.5"
    digits = text.lstrip("+-").replace("_", "")
    if ":" in digits:
        return f"{text} would be read as {value}, in base 60", f"write {value}, or text in quotes"
    if digits.startswith("0b"):
        return f"{text} would be read as {value}, in base 2", f"write {value}"
    if isinstance(value, int) and len(digits) > 1 and digits.startswith("0") and digits.isdecimal():
        plain = int(text.replace("_", ""))
        choice = str(value) if plain == value else f"{plain} or {value}, whichever is meant"
        return f"{text} would be read as {value}, in base 8", f"write {choice}"
    return None


def read_document(text: str) -> Document:
    """Parse one YAML document; broken YAML is a flaw, not an exception."""
    try:
        return _read(text)
    except RecursionError:
        return Document(None, {}, (Flaw((), 1, *_TOO_DEEP),))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        wrong = f"not YAML: {error.problem or error.context}"
        return Document(None, {}, (Flaw((), line, wrong, "check indentation, quotes and brackets there"),))
    except (yaml.YAMLError, ValueError) as error:
        wrong = f"not YAML: {str(error).splitlines()[0]}"
        return Document(None, {}, (Flaw((), 1, wrong, "write plain UTF-8 text"),))


def _read(text: str) -> Document:
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return Document(None, {}, (Flaw((), 1, "the file is empty", "see docs/scenarios.md for the keys"),))
        reading = _Reading(loader, text)
        values = reading.value(node, ())
        return Document(values, reading.lines, tuple(reading.flaws))
    finally:
        loader.dispose()
