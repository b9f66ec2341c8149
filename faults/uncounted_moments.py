"""Lists moments when starting or ending a fault takes a port out of service, which loses uncounted packets. Pure.

The kernel needs some milliseconds to replace the qdisc of a port that is up, and loses what is sent then
(docs/faults.md). Programs need clsact: switches' ports have it from the start, hosts' from the first program to the
last. netem and tbf share a port's root, which is replaced for the first of them and after the last.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from faults.kinds import By

CLSACT, ROOT = "clsact", "root"
"""The part of a port that comes with the first fault that needs it, and goes with the last."""

_HOST = re.compile(r"h\d+")


def swapped_by(mechanism: str, on_host: bool) -> str | None:
    """Return the part of a port that the first or last fault of this mechanism replaces; None for none."""
    if mechanism == By.EBPF:
        return CLSACT if on_host else None
    return ROOT if mechanism in (By.NETEM, By.TBF) else None


@dataclass(frozen=True, slots=True)
class Outage:
    """A moment when a port was out of service."""

    link: str
    """The direction that the port sends into."""
    fault: str
    """The fault that began or ended, in words."""
    mechanism: str
    set: bool
    """Whether it began; otherwise it ended."""
    mono_ns: int

    def __str__(self) -> str:
        """Return `p0:h3>leaf3 drop 1% by ebpf was set`."""
        return f"{self.link} {self.fault} by {self.mechanism} was {'set' if self.set else 'cleared'}"


def outages_of(records: Iterable[Mapping[str, Any]], since_ns: int, until_ns: int) -> tuple[Outage, ...]:
    """List the outages between two moments, from FAULT_SET and FAULT_CLEAR records in the order of time.

    The records begin with what was in force before. A record is written when the kernel has been read back, so that
    an outage that began before `since_ns` by some milliseconds counts too.
    """
    return tuple(outage for outage in _outages(records) if since_ns <= outage.mono_ns <= until_ns)


def _outages(records: Iterable[Mapping[str, Any]]) -> Iterator[Outage]:
    there = Counter[tuple[str, str, str]]()
    for record in records:
        if record["event"] not in ("FAULT_SET", "FAULT_CLEAR"):
            continue
        swapped = swapped_by(record["mechanism"], _HOST.fullmatch(record["node"]) is not None)
        if swapped is None:
            continue
        key, is_set = (record["node"], record["interface"], swapped), record["event"] == "FAULT_SET"
        before = there[key]
        there[key] = max(0, before + (1 if is_set else -1))
        if before == 0 if is_set else there[key] == 0:
            yield Outage(record["link"], record["fault"], record["mechanism"], is_set, record["mono_ns"])
