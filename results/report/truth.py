"""What was broken in a run, from when to when, as `truth.jsonl` has it."""

from dataclasses import dataclass, replace

import msgspec

from results.report.lines import Lines


@dataclass(frozen=True)
class FaultSpan:
    """One fault on one direction while it was in force."""

    link: str
    words: str
    """As asked for: `drop 1%`."""
    in_force: str
    """As read back from the kernel."""
    mechanism: str
    by: str
    since_ns: int
    until_ns: int | None
    """None when it was in force to the end of the records."""
    seen: int | None
    """Packets it looked at from first to last; None while that is not known."""
    dropped: int | None
    dropped_reverse: int | None = None
    """Packets that the other end of a shut port could not send."""
    hit: int | None = None
    """Packets to which it did what it does, dropped or not."""


class _Line(msgspec.Struct):
    event: str
    mono_ns: int = 0
    link: str = ""
    kind: str = ""
    fault: str = ""
    fault_in_force: str = ""
    mechanism: str = ""
    by: str = ""
    seen: int | None = None
    dropped: int | None = None
    dropped_reverse: int | None = None
    hit: int | None = None


def read_truth(lines: Lines) -> list[FaultSpan]:
    """All faults of a run, in the order in which they were set."""
    open_: dict[tuple[str, str], int] = {}
    spans: list[FaultSpan] = []
    for line in lines.of_type(_Line):
        key = line.link, line.fault or line.kind
        if line.event == "FAULT_SET":
            open_[key] = len(spans)
            words, in_force = line.fault or line.kind, line.fault_in_force or line.fault
            spans.append(FaultSpan(line.link, words, in_force, line.mechanism, line.by, line.mono_ns, None, None, None))
        elif line.event == "FAULT_CLEAR" and key in open_:
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
