"""Loads a scenario file: a `Scenario`, or every problem in it at once.

`scenarios.file.model` checks the shape (keys, types, ranges), `scenarios.file.plan` the meaning (links that exist,
sizes that fit). Valid parts are checked for meaning even when others are invalid, so that one edit can mend everything.
"""

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from faults.errors import QuantityError
from results.files.yaml_document import Document, Place, read_document
from scenarios.errors import Problem, ScenarioRefusedError
from scenarios.file.model import Scenario
from scenarios.file.plan import Complaint, complaints_of, parts_of
from scenarios.file.scenario_files import read_text
from scenarios.file.values import written

_MANUAL = "see docs/scenarios.md"
_EXAMPLES = {
    "int": "a whole number such as 8",
    "float": "a number such as 2.5",
    "string": "text such as leaf",
    "tuple": "a list, in square brackets or one `- item` a line",
    "bool": "true or false",
    "list": "a list, in square brackets or one `- item` a line",
    "dict": "keys and values, one a line",
    "mapping": "keys and values, one a line",
    "model": "keys and values, one a line",
}
_NO_QUANTITIES = (bool, Mapping, tuple)
"""Formats whose values are not described as text with a unit."""

RANGES = {
    "greater_than": ("too small", "more than {gt}"),
    "greater_than_equal": ("too small", "at least {ge}"),
    "less_than": ("too large", "less than {lt}"),
    "less_than_equal": ("too large", "at most {le}"),
    "too_short": ("too short", "at least {min_length} item(s)"),
    "too_long": ("too long", "at most {max_length} item(s)"),
    "string_too_short": ("too short", "at least {min_length} character(s)"),
}
"""Words for pydantic's findings: what is wrong, what would be right."""


def load_scenario(path: Path) -> Scenario:
    """Load the scenario in `path`.

    Raises `ScenarioRefusedError` with all problems, `UsageError`, `EnvironmentLackingError`.
    """
    return scenario_from(read_text(path), str(path))


def scenario_from(text: str, name: str) -> Scenario:
    """Load the scenario in `text`; errors name the file `name`."""
    document = read_document(text)
    if complaints := [*_flaws(document), *_shape(document), *_sense(document)]:
        raise ScenarioRefusedError(_problems(complaints, document, name))
    return Scenario.model_validate(document.values)


def _flaws(document: Document) -> Iterator[Complaint]:
    for flaw in document.flaws:
        yield Complaint(flaw.place, flaw.wrong, flaw.right)


def _shape(document: Document) -> Iterator[Complaint]:
    if document.values is None and document.flaws:
        return
    if not isinstance(document.values, Mapping):
        yield Complaint((), "this is not a scenario", "start with `version: 1`, one key a line")
        return
    try:
        Scenario.model_validate(document.values)
    except ValidationError as error:
        flawed = {flaw.place for flaw in document.flaws}
        for detail in error.errors():
            if detail["loc"] not in flawed and not is_echo(detail):
                yield _translated(detail)


def _sense(document: Document) -> Iterator[Complaint]:
    if isinstance(document.values, Mapping):
        for complaint in complaints_of(parts_of(document.values)):
            if not _is_echo_of_flaw(complaint, document):
                yield complaint


def _is_echo_of_flaw(complaint: Complaint, document: Document) -> bool:
    """Return whether a finding is about an entry with a missing part: the whole entry, or a key that is not there."""
    place = complaint.place if complaint.place in document.lines else complaint.place[:-1]
    if place == complaint.place and not any(isinstance(key, int) for key in place):
        return False
    return any(len(flaw.place) > len(place) > 0 and flaw.place[: len(place)] == place for flaw in document.flaws)


def _problems(complaints: list[Complaint], document: Document, name: str) -> list[Problem]:
    """Sort problems in the order of the file, one per place and text."""
    placed = [(document.line_of(c.place), c) for c in dict.fromkeys(complaints)]
    placed.sort(key=lambda pair: pair[0])
    return [Problem(f"{name}:{line}", ".".join(map(str, c.place)), c.wrong, c.right) for line, c in placed]


def is_echo(detail: ErrorDetails) -> bool:
    """Return whether other findings cause it: pydantic counts valid items only, so a list of invalid ones seems
    too short.
    """
    return detail["type"] == "too_short" and bool(detail["input"])


def _translated(detail: ErrorDetails) -> Complaint:
    """Describe pydantic's finding for someone who does not know pydantic."""
    place, kind, context = detail["loc"], detail["type"], detail.get("ctx", {})
    if kind == "extra_forbidden":
        return _unknown_key(place)
    if kind == "missing":
        what = f"item {place[-1]}" if isinstance(place[-1], int) else repr(place[-1])
        return Complaint(place, "missing", f"add {what} here ({_meaning(place)})")
    if kind == "literal_error":
        return _unknown_word(place, detail["input"])
    if kind == "value_error":
        wrong, _, right = str(context["error"]).partition("; ")
        if isinstance(context["error"], QuantityError) and isinstance(detail["input"], _NO_QUANTITIES):
            wrong = f"{written(detail['input'])} is of the wrong kind"
        return Complaint(place, wrong, right or _meaning(place))
    if kind.endswith(("_type", "_parsing")) and detail["input"] is None:
        wanted = _EXAMPLES.get(kind.rsplit("_", 1)[0])
        return Complaint(place, "has no value", f"write {wanted or 'one'}, or leave the key out")
    if kind.endswith(("_type", "_parsing")):
        wanted = _EXAMPLES.get(kind.rsplit("_", 1)[0])
        right = f"write {wanted}" if wanted else _meaning(place)
        return Complaint(place, f"{written(detail['input'])} is of the wrong kind", right)
    if kind in RANGES:
        wrong, right = RANGES[kind]
        return Complaint(place, f"{written(detail['input'])} is {wrong}", right.format_map(context))
    return Complaint(place, f"{written(detail['input'])} is not allowed", _meaning(place))


def _unknown_key(place: Place) -> Complaint:
    known = sorted(_fields(place[:-1]))
    near = difflib.get_close_matches(str(place[-1]), known, n=1)
    right = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(known)}"
    return Complaint(place, "unknown key", right)


def _unknown_word(place: Place, given: Any) -> Complaint:
    field = _fields(place[:-1]).get(str(place[-1]))
    words = list(_words_in(field.annotation)) if field else []
    near = difflib.get_close_matches(str(given), words, n=1)
    right = f"did you mean {near[0]}? ({', '.join(words)})" if near else f"write {' or '.join(words)}"
    return Complaint(place, f"{written(given)} is not known", right)


def _words_in(annotation: Any) -> Iterator[str]:
    """Return the words that an annotation such as `Literal["a", "b"] | None` allows."""
    if get_origin(annotation) is Literal:
        yield from map(str, get_args(annotation))
    else:
        for part in get_args(annotation):
            yield from _words_in(part)


def _meaning(place: Place) -> str:
    field = _fields(place[:-1]).get(str(place[-1]))
    text = (field.description or _MANUAL).rstrip(".") if field else _MANUAL
    return text[0].lower() + text[1:]


def _fields(place: Place) -> dict[str, Any]:
    """Return fields of the model at `place`, empty where there is none."""
    model: type[BaseModel] | None = Scenario
    for key in place:
        if isinstance(key, int):
            continue
        field = _fields_of(model).get(key)
        model = _model_in(field.annotation) if field else None
    return _fields_of(model)


def _fields_of(model: type[BaseModel] | None) -> dict[str, Any]:
    """Return fields of a model by their keys in a file; empty for none."""
    return {field.alias or name: field for name, field in model.model_fields.items()} if model else {}


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model named in an annotation such as `tuple[Workload, ...]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_in(part))), None)
