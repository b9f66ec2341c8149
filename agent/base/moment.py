"""A moment by both clocks, as every record carries it."""

import time
from datetime import UTC, datetime

from msgspec import Struct


class Moment(Struct, frozen=True):
    """Time of an event."""

    utc_ns: int
    """CLOCK_REALTIME."""
    mono_ns: int
    """CLOCK_MONOTONIC."""

    @property
    def text(self) -> str:
        """Format as RFC 3339, UTC, microseconds."""
        seconds, ns = divmod(self.utc_ns, 10**9)
        moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=ns // 1000, tzinfo=None)
        return moment.isoformat(timespec="microseconds") + "Z"


def now() -> Moment:
    """Return the present moment."""
    return Moment(time.time_ns(), time.monotonic_ns())
