"""When faults that come and go take a port out of service, which costs packets that nobody counts. Pure.

The kernel swaps the qdisc of a port that is up in some milliseconds, and what is sent then is lost (docs/faults.md).
Programs need clsact: switches' ports have it from the start, hosts' from the first program to the last. netem and tbf
share a port's root, which is swapped for the first of them and after the last.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from faults.kinds import By

CLSACT, ROOT = "clsact", "root"
"""What of a port comes with the first fault that needs it, and goes with the last."""

_HOST = re.compile(r"h\d+")


def swapped_by(mechanism: str, on_host: bool) -> str | None:
    """What of a port a fault by this mechanism swaps when it is the first or last there; None where it is nothing."""
    if mechanism == By.EBPF:
        return CLSACT if on_host else None
    return ROOT if mechanism in (By.NETEM, By.TBF) else None


@dataclass(frozen=True, slots=True)
class Outage:
    """A port was out of service for a moment."""

    link: str
    """The direction that it sends into."""
    fault: str
    """What came or went, in words."""
    mechanism: str
    set: bool
    """Came; otherwise it went."""
    mono_ns: int

    def __str__(self) -> str:
        """As `p0:h3>leaf3 drop 1% by ebpf was set`."""
        return f"{self.link} {self.fault} by {self.mechanism} was {'set' if self.set else 'cleared'}"


def outages_of(records: Iterable[Mapping[str, Any]], since_ns: int, until_ns: int) -> tuple[Outage, ...]:
    """The outages between two moments, by FAULT_SET and FAULT_CLEAR records in the order of time.

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
