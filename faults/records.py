"""The lines of truth.jsonl: what was broken, when, and what the kernel says it dropped."""

from datetime import UTC, datetime

from msgspec import Struct

SCHEMA_VERSION = 1


class Moment(Struct, frozen=True):
    """When something happened, by both clocks."""

    utc_ns: int
    mono_ns: int

    @property
    def text(self) -> str:
        """RFC 3339, UTC, microseconds."""
        seconds, ns = divmod(self.utc_ns, 10**9)
        moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=ns // 1000, tzinfo=None)
        return moment.isoformat(timespec="microseconds") + "Z"


class FaultSet(Struct, frozen=True, kw_only=True, tag_field="event", tag="FAULT_SET"):
    """A fault is in force, read back from the kernel."""

    ts: str
    mono_ns: int
    v: int = SCHEMA_VERSION
    node: str
    interface: str
    link: str
    kind: str
    fault: str
    """What was asked for, in words."""
    fault_in_force: str
    """What the kernel holds, in the same words."""
    only: str
    """The packets it looks at; empty for all."""
    requested: float | None
    """Drop rate asked for, as a fraction; null for kinds that drop nothing on purpose."""
    in_force: float | None
    """Drop rate the kernel applies."""
    mechanism: str
    fault_seed: int | None
    """Fixes which packets are hit; null where the mechanism leaves that to the kernel. `seed` is the run's."""


class FaultClear(Struct, frozen=True, kw_only=True, tag_field="event", tag="FAULT_CLEAR"):
    """A fault is gone; its counters from first to last packet, in its own direction unless told otherwise."""

    ts: str
    mono_ns: int
    v: int = SCHEMA_VERSION
    node: str
    interface: str
    link: str
    kind: str
    fault: str
    mechanism: str
    set_mono_ns: int
    """When it was set."""
    seen: int
    """Packets it looked at."""
    dropped: int
    dropped_writes: int | None
    """MRC writes among the dropped; null where the mechanism cannot tell."""
    dropped_reverse: int | None
    """Lost in the other direction, where a kind takes that along: a shut port."""
    hit: int | None
    """Packets it did something to; null where the mechanism cannot tell."""
    passed: int | None
    """All packets of the port, where it looks at a part of them only."""
    overlimits: int
    """How often a rate limit made a packet wait."""


FaultRecord = FaultSet | FaultClear
