"""Generates the JSON Schemas of a run's files, for other programs: `python -m scenarios.record_schemas
docs/schemas`.

They are made from the types that write or read the files, so that there is one source. For JSON Lines a schema
describes one line.
"""

import json
import sys
from inspect import cleandoc
from pathlib import Path
from typing import Any, Union

import msgspec

from faults.records import FaultClear, FaultSet
from results.detect_log import SPRAYCHECK_RECORDS
from results.records.agent_records import (
    AGENT_RECORDS,
    CONTROLLER_RECORDS,
    FaultCount,
    LoadRecord,
    ProgressRecord,
    Topology,
)
from results.records.manifest import Manifest
from results.summary import Summary


def kept(record: type[msgspec.Struct], **more: type) -> Any:
    """Extend a record by the fields that a run's folder adds: the run's name and seed, and others where it is kept."""
    added: list[Any] = [*more.items(), ("run", str, ""), ("seed", int, 0)]
    tag, told = record.__struct_config__.tag, {"__doc__": record.__doc__}
    return msgspec.defstruct(
        record.__name__, added, bases=(record,), namespace=told, frozen=True, kw_only=True, tag=tag
    )


TYPES: dict[str, Any] = {
    "summary.json": Summary,
    "env.json": Manifest,
    "topology.json": Topology,
    "truth.jsonl": Union[kept(FaultSet, by=str), kept(FaultClear, by=str), FaultCount],  # noqa: UP007 - made here
    "detect.jsonl": Union[*map(kept, SPRAYCHECK_RECORDS), *CONTROLLER_RECORDS],
    "agent.jsonl": Union[AGENT_RECORDS],  # noqa: UP007 - of a tuple there is no other way
    "counters.jsonl": LoadRecord | ProgressRecord,
}
"""Type of the document, or of a line, of each file of a run folder."""


def schema_name(file: str) -> str:
    """Return the name of a file's schema: `summary.schema.json` of `summary.json`."""
    return f"{Path(file).stem}.schema.json"


def schema_text(file: str) -> str:
    """Return the schema of one file as it is committed."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": file if file.endswith(".json") else f"a line of {file}",
        **_dedented(msgspec.json.schema(TYPES[file])),
    }
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def _dedented(schema: Any) -> Any:
    """Remove the indentation of docstrings from descriptions, which only some versions of msgspec do."""
    if isinstance(schema, dict):
        return {
            key: cleandoc(value) if key == "description" and isinstance(value, str) else _dedented(value)
            for key, value in schema.items()
        }
    return [_dedented(each) for each in schema] if isinstance(schema, list) else schema


def main(folder: Path) -> None:
    """Write all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in TYPES:
        (folder / schema_name(file)).write_text(schema_text(file), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
