"""The lines of truth.jsonl: what was broken, when, and what the kernel says it dropped."""

from msgspec import Struct

from agent.wire.ranges import VERSION, Amount, Count, Name, Nanoseconds, Text, Version


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
    """What was asked for, in words."""
    fault_in_force: Text
    """What the kernel holds, in the same words."""
    only: Text
    """The packets it looks at; empty for all."""
    requested: Amount | None
    """Drop rate asked for, as a fraction; null for kinds that drop nothing on purpose."""
    in_force: Amount | None
    """Drop rate the kernel applies."""
    mechanism: Name
    fault_seed: int | None
    """Fixes which packets are hit; null where the mechanism leaves that to the kernel. `seed` is the run's."""


class FaultClear(Struct, frozen=True, kw_only=True, tag_field="event", tag="FAULT_CLEAR"):
    """A fault is gone; its counters from first to last packet, in its own direction unless told otherwise."""

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
    """When it was set."""
    seen: Count
    """Packets it looked at."""
    dropped: Count
    dropped_writes: Count | None
    """MRC writes among the dropped; null where the mechanism cannot tell."""
    dropped_reverse: Count | None
    """Lost in the other direction, where a kind takes that along: a shut port."""
    hit: Count | None
    """Packets it did something to; null where the mechanism cannot tell."""
    passed: Count | None
    """All packets of the port, where it looks at a part of them only."""
    overlimits: Count
    """How often a rate limit made a packet wait."""


FaultRecord = FaultSet | FaultClear
