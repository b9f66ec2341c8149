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
    requested: float
    """Drop rate asked for, as a fraction."""
    in_force: float
    """Drop rate the kernel applies."""
    mechanism: str


class FaultClear(Struct, frozen=True, kw_only=True, tag_field="event", tag="FAULT_CLEAR"):
    """A fault is gone; its counters from first to last packet."""

    ts: str
    mono_ns: int
    v: int = SCHEMA_VERSION
    node: str
    interface: str
    link: str
    kind: str
    mechanism: str
    set_mono_ns: int
    """When it was set."""
    seen: int
    dropped: int
    dropped_writes: int | None
    """MRC writes among the dropped; null where the mechanism cannot tell."""


FaultRecord = FaultSet | FaultClear
