"""Defines the records of faults: lines of truth.jsonl for readers of a run, and of the journal faults.jsonl.

The journal has one line per act, written before the act: after a crash it shows what may remain. One process writes
it, any may read it; it undoes nothing.
"""

import os
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from agent.wire.record_ranges import VERSION, Amount, Count, Name, Nanoseconds, Text, Version


class FaultSet(Struct, frozen=True, kw_only=True, tag_field="event", tag="FAULT_SET"):
    """A fault is in force, read back from the kernel."""

    ts: Name
    mono_ns: Nanoseconds
    v: Version = VERSION
    node: Name
    interface: Name
    link: Name
    kind: Name
    fault: Text
    """The request, in words."""
    fault_in_force: Text
    """What the kernel holds, in the same words."""
    only: Text
    """The packets it affects; empty for all."""
    requested: Amount | None
    """Requested drop rate, as a fraction; null for kinds that drop nothing on purpose."""
    in_force: Amount | None
    """Drop rate the kernel applies."""
    mechanism: Name
    fault_seed: int | None
    """Seed of which packets are hit; null where the mechanism leaves that to the kernel. `seed` is the run's."""


class FaultClear(Struct, frozen=True, kw_only=True, tag_field="event", tag="FAULT_CLEAR"):
    """A fault is gone; its counters from first to last packet, in its own direction unless stated otherwise."""

    ts: Name
    mono_ns: Nanoseconds
    v: Version = VERSION
    node: Name
    interface: Name
    link: Name
    kind: Name
    fault: Text
    mechanism: Name
    set_mono_ns: Nanoseconds
    """Time when it was set."""
    seen: Count
    """Packets it examined."""
    dropped: Count
    dropped_writes: Count | None
    """Dropped MRC writes; null where the mechanism does not count them."""
    dropped_reverse: Count | None
    """Packets lost in the other direction, at a shut port."""
    hit: Count | None
    """Packets it affected; null where the mechanism does not count them."""
    passed: Count | None
    """All packets of the port, where it examines only some of them."""
    overlimits: Count
    """Number of packets that a rate limit delayed."""


FaultRecord = FaultSet | FaultClear


Act = Literal["applying", "in-force", "cleared"]


class JournalLine(Struct, frozen=True, kw_only=True):
    """One act on one directed link."""

    ts: str
    act: Act
    link: str
    kind: str
    name: str
    """Name that distinguishes the faults of one link."""
    requested: str
    mechanism: str
    namespace: str
    interface: str


class Journal:
    """An append-only file, opened for each line: faults change rarely, and no descriptor can be inherited."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, *lines: JournalLine) -> None:
        """Append lines and sync them to disk, which takes milliseconds. Raises OSError."""
        fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.write(fd, b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
            os.fsync(fd)
        except OSError as error:  # a write does not say where
            raise OSError(error.errno, error.strerror, str(self.path)) from error
        finally:
            os.close(fd)


def outstanding(path: Path) -> tuple[JournalLine, ...]:
    """Return the last line of every fault that was not cleared, by link and name; a line cut short by a crash is
    ignored.
    """
    last: dict[tuple[str, str], JournalLine] = {}
    for text in path.read_bytes().splitlines() if path.exists() else ():
        try:
            line = msgspec.json.decode(text, type=JournalLine)
        except msgspec.DecodeError:
            continue
        last[line.link, line.name] = line
    return tuple(line for _, line in sorted(last.items()) if line.act != "cleared")
