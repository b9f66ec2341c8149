"""What a run writes against the published schemas, closed: a field that is written and not published is a problem.

The published ones are open, so that fields may come on top; then a reader would not know of them.
"""

import json
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from scenarios.record_schemas import TYPES, schema_text

MOST_PROBLEMS = 10


def problems_of(folder: Path) -> list[str]:
    """What in the files of a run is not as published, `FILE:LINE: EVENT PATH: REASON`, the first few."""
    return [problem for file in TYPES for problem in problems_in(file, read_file(folder / file))][:MOST_PROBLEMS]


def problems_in(file: str, documents: Iterable[Any]) -> list[str]:
    """The same of documents that are, or will be, in one file of a run's folder."""
    found = []
    for number, document in enumerate(documents, 1):
        event = document.get("event", "")
        for error in closed_validator(file, event).iter_errors(document):
            found.append(f"{file}:{number}: {event} {error.json_path}: {error.message[-200:]}")
            if len(found) >= MOST_PROBLEMS:
                return found
    return found


@cache
def closed_validator(file: str, event: str = "") -> Draft202012Validator:
    """Of a document, or of the lines of one event, which names its one alternative in the schema."""
    schema = closed(json.loads(schema_text(file)))
    if "discriminator" in schema:
        kinds = schema["discriminator"]["mapping"]
        schema = {"$ref": kinds[event], "$defs": schema["$defs"]} if event in kinds else {"not": {}}
    return Draft202012Validator(schema)


def closed(schema: Any) -> Any:
    """The schema with every object refusing fields that it does not name."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {name: closed(value) for name, value in schema.items()}
    return {"additionalProperties": False} | inner if "properties" in schema else inner


def events_of(file: str) -> set[str]:
    """All kinds of lines that are published of a file."""
    return set(json.loads(schema_text(file))["discriminator"]["mapping"])


def read_file(path: Path) -> Iterator[Any]:
    """The document, or the documents line by line."""
    text = path.read_text()
    if path.suffix == ".json":
        yield json.loads(text)
    else:
        yield from map(json.loads, text.splitlines())
