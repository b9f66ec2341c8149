"""Reads what was broken in a run, and what SprayCheck reported: faults, verdicts, accusations."""

from array import array
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, Union

import msgspec
import numpy as np
from numpy.typing import NDArray

from agent.wire.detect_records import Detect, Localize
from agent.wire.record_ranges import VERSION, Amount, Count, Name, Nanoseconds, Text, Version
from results.detect_log import DETECT_LINES
from results.files.reading import Lines, left_aside


@dataclass(frozen=True)
class FaultSpan:
    """One fault on one direction while it was in force."""

    link: str
    words: str
    """The fault as requested: `drop 1%`."""
    in_force: str
    """The fault as read back from the kernel."""
    mechanism: str
    by: str
    since_ns: int
    until_ns: int | None
    """None when it was in force to the end of the records."""
    seen: int | None
    """Packets it examined from first to last; None while unknown."""
    dropped: int | None
    dropped_reverse: int | None = None
    """Packets that the other end of a shut port could not send."""
    hit: int | None = None
    """Packets that it affected, dropped or not."""
    requested: float | None = None
    """Requested drop rate, as a fraction; None for kinds that drop nothing on purpose."""


class Set(msgspec.Struct, tag_field="event", tag="FAULT_SET"):
    """The fields that are read when a fault is set; fields with a default are missing in older files."""

    mono_ns: Nanoseconds
    link: Name
    kind: Name
    mechanism: Name
    fault: Text = ""
    fault_in_force: Text = ""
    requested: Amount | None = None
    by: Name = ""
    v: Version = VERSION


class Cleared(msgspec.Struct, tag_field="event", tag="FAULT_CLEAR"):
    """The fields that are read when a fault is removed."""

    mono_ns: Nanoseconds
    link: Name
    kind: Name
    seen: Count
    dropped: Count
    fault: Text = ""
    dropped_reverse: Count | None = None
    hit: Count | None = None
    v: Version = VERSION


TRUTH_VIEW: Any = Union[Set, Cleared, *left_aside("FAULT_COUNT")]
"""All kinds of lines in truth.jsonl, as far as a report reads them."""


def read_truth(lines: Lines) -> list[FaultSpan]:
    """Read all faults of a run, in the order in which they were set."""
    open_: dict[tuple[str, str], int] = {}
    spans: list[FaultSpan] = []
    for line in lines.of_type(TRUTH_VIEW):
        if not isinstance(line, Set | Cleared):
            continue
        key = line.link, line.fault or line.kind
        if isinstance(line, Set):
            open_[key] = len(spans)
            words, in_force = line.fault or line.kind, line.fault_in_force or line.fault
            span = FaultSpan(line.link, words, in_force, line.mechanism, line.by, line.mono_ns, None, None, None)
            spans.append(replace(span, requested=line.requested))
        elif key in open_:
            at = open_.pop(key)
            spans[at] = replace(
                spans[at],
                until_ns=line.mono_ns,
                seen=line.seen,
                dropped=line.dropped,
                dropped_reverse=line.dropped_reverse,
                hit=line.hit,
            )
    return spans


class Verdict(IntEnum):
    """The verdict on a path; a word that this program does not know is OTHER."""

    HEALTHY = 0
    FAILED = 1
    INSUFFICIENT = 2
    OTHER = 3


_CODES = {verdict.name.lower(): verdict for verdict in Verdict}


@dataclass(frozen=True)
class Verdicts:
    """One row per flow and path, `(n,)` each."""

    at_ns: NDArray[np.int64]
    plane: NDArray[np.int64]
    src_leaf: NDArray[np.int64]
    spine: NDArray[np.int64]
    dst_leaf: NDArray[np.int64]
    count: NDArray[np.int64]
    expected: NDArray[np.float64]
    threshold: NDArray[np.float64]
    """NaN where none was set."""
    code: NDArray[np.int64]
    """Verdict."""
    src_host: NDArray[np.int64]
    dst_host: NDArray[np.int64]
    qpn: NDArray[np.int64]
    """The flow's queue pair at its destination."""

    def __len__(self) -> int:
        """Rows."""
        return len(self.at_ns)


@dataclass(frozen=True)
class Accusation:
    """All accusations from a moment on."""

    at_ns: int
    state: str
    links: tuple[str, ...]
    """Links accused for certain; patterns such as `p0:leaf3>spine*` where a cause is common to several."""
    candidates: tuple[tuple[str, ...], ...]
    pending: int


_INTS = ("mono_ns", "plane", "src_leaf", "spine", "dst_leaf", "count", "src_host", "dst_host", "qpn")


def read_detect(lines: Lines, expectation: str) -> tuple[Verdicts, list[Accusation]]:
    """Read `detect.jsonl` for one expectation; of accusations only those that differ from the one before."""
    ints = {name: array("q") for name in _INTS}
    expected, threshold, code = array("d"), array("d"), array("q")
    accusations: list[Accusation] = []
    for line in lines.of_type(DETECT_LINES):
        if not isinstance(line, Detect | Localize) or line.expectation != expectation:
            continue
        if isinstance(line, Detect):
            for name, column in ints.items():
                column.append(getattr(line, name))
            expected.append(line.expected)
            threshold.append(np.nan if line.threshold is None else line.threshold)
            code.append(_CODES.get(line.verdict, Verdict.OTHER))
        else:
            _add(accusations, line)
    columns = {name: np.frombuffer(column, np.int64) for name, column in ints.items()}
    verdicts = Verdicts(
        at_ns=columns.pop("mono_ns"),
        **columns,
        expected=np.frombuffer(expected, np.float64),
        threshold=np.frombuffer(threshold, np.float64),
        code=np.frombuffer(code, np.int64),
    )
    return verdicts, accusations


def _add(accusations: list[Accusation], line: Localize) -> None:
    candidates = tuple(map(tuple, (*line.candidates, *line.common_candidates)))
    said = Accusation(line.mono_ns, line.state, (*line.links, *line.common), candidates, line.pending)
    last = accusations[-1] if accusations else None
    if last is not None and (last.state, last.links, last.candidates) == (said.state, said.links, said.candidates):
        accusations[-1] = Accusation(last.at_ns, last.state, last.links, last.candidates, said.pending)
    else:
        accusations.append(said)
