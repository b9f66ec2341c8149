"""Reads detect.jsonl: its lines as typed records, and the final verdict on every path and link.

The types are those that SprayCheck writes (`agent.wire.detect_records`). Lines of older versions, which had sums of
flows in records of their own (`ADDED_UP`, `LINK_SUM`), are left aside: their verdicts and accusations are read.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Union

import msgspec

from agent.wire.detect_records import Detect, LinkConclusion, Localize, PathConclusion, Select, Start, Unmeasured
from results.errors import RecordError
from results.files.event_log import Fields
from results.files.reading import left_aside
from results.records.agent_records import CONTROLLER_RECORDS

SPRAYCHECK_RECORDS: tuple[type[msgspec.Struct], ...] = (
    Start,
    Select,
    Unmeasured,
    Detect,
    PathConclusion,
    LinkConclusion,
    Localize,
)

DETECT_LINES: Any = Union[*SPRAYCHECK_RECORDS, *CONTROLLER_RECORDS, *left_aside("ADDED_UP", "LINK_SUM")]
"""All kinds of lines in the file."""


def lines_in(records: Iterable[Fields]) -> Iterator[Any]:
    """Convert records to their types. Raises RecordError for unknown ones."""
    return (_as_type(record, DETECT_LINES) for record in records)


def _as_type(record: Fields, kind: Any) -> Any:
    try:
        return msgspec.convert(record, kind)
    except msgspec.ValidationError as error:
        raise RecordError(f"detect.jsonl, {record.get('event')} of {record.get('ts')}", str(error)) from error


def path_text(line: Detect | PathConclusion) -> str:
    """Return the path as `p0:leaf3>spine5>leaf4`."""
    return f"p{line.plane}:leaf{line.src_leaf}>spine{line.spine}>leaf{line.dst_leaf}"


@dataclass
class Said:
    """Report of SprayCheck about one run by one expectation."""

    expectation: str
    flows: list[Detect] = field(default_factory=list)
    """Verdict of each flow on each path."""
    paths: dict[str, PathConclusion] = field(default_factory=dict)
    """Final conclusion on each path."""
    links: dict[str, LinkConclusion] = field(default_factory=dict)
    """The same, also of what paths have in common, where that was ever named."""
    last: Localize | None = None
    """What is accused."""
    unmeasured: list[Unmeasured] = field(default_factory=list)
    """Flows that leaves do not measure, by neither expectation."""
    chosen: list[Select] = field(default_factory=list)
    """Flows that source leaves chose to measure, where they measure one at a time."""

    def take(self, line: Any) -> None:
        """Process one line."""
        if isinstance(line, Unmeasured):
            self.unmeasured.append(line)
        elif isinstance(line, Select):
            self.chosen.append(line)
        elif getattr(line, "expectation", None) == self.expectation:
            match line:
                case Detect():
                    self.flows.append(line)
                case PathConclusion():
                    self.paths[path_text(line)] = line
                case LinkConclusion():
                    self.links[line.link] = line
                case Localize():
                    self.last = line

    def take_all(self, lines: Iterable[Any]) -> None:
        """Several."""
        for line in lines:
            self.take(line)

    @property
    def is_whole(self) -> bool:
        """Return whether the last accusation is final: no verdict was pending."""
        return self.last is not None and self.last.pending == 0


def said_in(records: Iterable[Fields], expectation: str) -> Said:
    """Collect what the records of one run report. Raises RecordError."""
    said = Said(expectation)
    said.take_all(lines_in(records))
    return said


def accusations_in(records: Iterable[Fields]) -> Iterator[Localize]:
    """List accusations, change by change, among records of any kind. Raises RecordError."""
    return (_as_type(record, Localize) for record in records if record.get("event") == "LOCALIZE")
