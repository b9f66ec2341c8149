"""Reads what was broken in a run, from when to when, from `truth.jsonl`."""

from dataclasses import dataclass, replace
from typing import Any, Union

import msgspec

from agent.wire.ranges import VERSION, Amount, Count, Name, Nanoseconds, Text, Version
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
