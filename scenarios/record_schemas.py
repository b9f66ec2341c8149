"""The JSON Schemas of a run's files, for other programs: `python -m scenarios.record_schemas docs/schemas`.

Made from the types that write or read them, so that there is one source. Of JSON Lines a schema describes one line.
"""

import json
import sys
from pathlib import Path
from typing import Any, Union

import msgspec

from agent.spraycheck.records import AddedUpRecord, Detect, LinkSumRecord, Localize, Select, Start
from faults.records import FaultClear, FaultSet
from results.manifest import Manifest
from results.records import AGENT_RECORDS, CONTROLLER_RECORDS, FaultCount, LoadRecord, ProgressRecord, Topology
from results.summary import Summary

TYPES: dict[str, Any] = {
    "summary.json": Summary,
    "env.json": Manifest,
    "topology.json": Topology,
    "truth.jsonl": FaultSet | FaultClear | FaultCount,
    "detect.jsonl": Union[Start, Select, Detect, AddedUpRecord, LinkSumRecord, Localize, *CONTROLLER_RECORDS],
    "agent.jsonl": Union[AGENT_RECORDS],  # noqa: UP007 - of a tuple there is no other way
    "counters.jsonl": LoadRecord | ProgressRecord,
}
"""File of a run folder to the type of the document, or of a line."""


def schema_name(file: str) -> str:
    """`summary.schema.json` of `summary.json`."""
    return f"{Path(file).stem}.schema.json"


def schema_text(file: str) -> str:
    """The schema of one file as it is committed."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": file if file.endswith(".json") else f"a line of {file}",
        **msgspec.json.schema(TYPES[file]),
    }
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def main(folder: Path) -> None:
    """Write all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in TYPES:
        (folder / schema_name(file)).write_text(schema_text(file), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
