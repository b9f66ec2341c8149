"""Defines the lines of truth.jsonl: what was broken, when, and the kernel's drop counters."""

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
