"""Ranges of values in records: one place for writers, readers and schemas.

A writer never exceeds them; a reader refuses values outside, since other programs may have changed the files.
"""

from typing import Annotated, Final, Literal

from msgspec import Meta

from agent.wire.usid import MAX_INDEX, MAX_PLANES

Version = Literal[1]
VERSION: Final = 1
"""Version of the schema of every record and document; raised when a field changes its meaning or is removed."""

Count = Annotated[int, Meta(ge=0, le=2**53 - 1)]
"""Packets, bytes and other counts: every JSON reader represents these exactly (RFC 8259, section 6)."""

Difference = Annotated[int, Meta(ge=-(2**53) + 1, le=2**53 - 1)]
"""Difference of two counts."""

Nanoseconds = Annotated[int, Meta(ge=0, le=2**62)]
"""Time of the monotonic clock: 146 years, so that differences and sums of two fit 64 bits (our choice)."""

Seed = Annotated[int, Meta(ge=0, le=2**32 - 1)]
Plane = Annotated[int, Meta(ge=0, le=MAX_PLANES - 1)]
Switch = Annotated[int, Meta(ge=0, le=MAX_INDEX - 1)]
"""Number of a leaf or a spine in its plane."""
Host = Annotated[int, Meta(ge=0, le=MAX_INDEX * MAX_INDEX - 1)]
QueuePair = Annotated[int, Meta(ge=0, le=2**24 - 1)]
"""Queue pair number: 24 bits of the BTH."""

Amount = Annotated[float, Meta(ge=0, le=1e18)]
"""Rates, seconds and other measures that are never negative; far above any machine's values (our choice)."""
Seconds = Annotated[float, Meta(ge=-1e10, le=1e10)]
"""Time between two moments, either way: 300 years (our choice)."""
Share = Annotated[float, Meta(ge=0, le=1)]

EntropyValue = Annotated[int, Meta(ge=0, le=2**32 - 1)]
EvText = Annotated[str, Meta(pattern="^0x[0-9a-f]{8}$")]
"""Entropy value as `0xc0001005`."""
Late = Annotated[tuple[Count, ...], Meta(max_length=64)]
"""Packets by the power of two of their lateness; a count has no more bits."""

Name = Annotated[str, Meta(max_length=255)]
"""Name of a node, a link or a state: a word or two."""
Text = Annotated[str, Meta(max_length=16_384)]
"""Text for people; the limit is our choice."""
