"""A run's folder against the published schemas."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from scenarios.record_schemas import TYPES, schema_text

MOST_PROBLEMS = 10


def problems_of(folder: Path) -> list[str]:
    """What in the files of a run is not as the schemas say, `FILE:LINE: PATH: REASON`, the first few."""
    found: list[str] = []
    for file in TYPES:
        validator = Draft202012Validator(json.loads(schema_text(file)))
        for number, document in enumerate(read_file(folder / file), 1):
            for error in validator.iter_errors(document):
                found.append(f"{file}:{number}: {error.json_path}: {error.message[:200]}")
                if len(found) >= MOST_PROBLEMS:
                    return found
    return found


def read_file(path: Path) -> Iterator[Any]:
    """The document, or the documents line by line."""
    text = path.read_text()
    if path.suffix == ".json":
        yield json.loads(text)
    else:
        yield from map(json.loads, text.splitlines())
