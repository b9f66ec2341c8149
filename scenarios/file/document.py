"""YAML text to plain values, with the line of every key, so that a complaint can point at it.

Knows nothing of scenarios. Lists become tuples, for frozen models.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

DEEPEST = 32
"""Levels of nesting; a scenario has four."""

_TOO_DEEP = ("nested too deeply", "see docs/scenarios.md for the keys, which are few levels deep")

Place = tuple[str | int, ...]
"""Keys and list positions from the top of the document."""


@dataclass(frozen=True)
class Flaw:
    """Something wrong with the text itself."""

    place: Place
    line: int
    wrong: str
    right: str


@dataclass(frozen=True)
class Document:
    """What a YAML text says and where it says it."""

    values: Any
    lines: Mapping[Place, int]
    flaws: tuple[Flaw, ...]

    def line_of(self, place: Place) -> int:
        """Line of the key at `place`, or of the nearest thing around it that exists; lines count from 1."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place, 1)


@dataclass
class _Reading:
    loader: yaml.SafeLoader
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
        if isinstance(node, yaml.MappingNode):
            return dict(self._entries(node, place))
        if isinstance(node, yaml.SequenceNode):
            return tuple(self.value(item, (*place, at)) for at, item in enumerate(node.value))
        return self.loader.construct_object(node)

    def _entries(self, node: yaml.MappingNode, place: Place) -> Iterator[tuple[str, Any]]:
        seen: dict[str, int] = {}
        for key_node, value_node in node.value:
            key, line = str(key_node.value), key_node.start_mark.line + 1
            if key in seen:
                self.flaws.append(
                    Flaw((*place, key), line, f"key given twice, first in line {seen[key]}", "keep one of them")
                )
                continue
            seen[key] = line
            self.lines[(*place, key)] = line
            yield key, self.value(value_node, (*place, key))


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
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return Document(None, {}, (Flaw((), 1, "the file is empty", "see docs/scenarios.md for the keys"),))
        reading = _Reading(loader)
        values = reading.value(node, ())
        return Document(values, reading.lines, tuple(reading.flaws))
    finally:
        loader.dispose()
