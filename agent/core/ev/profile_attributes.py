"""Attributes that a controller sets on an EV profile before it can be used, and their ranges. MRC API, EV profiles."""

from dataclasses import dataclass
from enum import IntEnum

from agent.core.ev.profile import GenField
from agent.core.ev.profile_states import Act, ApiEvState
from agent.core.ev.state import EvState


class EvMode(IntEnum):
    """Source of the values; numbers are the API's."""

    AUTO = 1
    """Picked from all paths."""
    EXP = 2
    """Entered one by one by a controller."""
    GEN = 4
    """Generated from fields."""


class EvFormat(IntEnum):
    """Encoding of a value in a packet; numbers are the API's."""

    STEV = 1
    SRV6 = 2
    UDP = 4


FORMAT_BITS = {EvFormat.STEV: 32, EvFormat.SRV6: 32, EvFormat.UDP: 16}
"""Width of the value that is sprayed and reflected (Table 9-1)."""


@dataclass(frozen=True, slots=True)
class Attributes:
    """Attributes that a controller sets on a profile; None: not set."""

    mode: EvMode | None = None
    format: EvFormat | None = None
    count: int | None = None
    """Number of entries, copies included."""
    fields: tuple[GenField, ...] | None = None
    """Fields of GEN, the first highest."""
    min_active: int | None = None
    """Losses never leave fewer EVs in use; at most `count`."""
    event_mask: frozenset[ApiEvState] | None = None
    """Changes to these states are reported: GOOD, ASSUMED_BAD."""


ACT_OF = {
    "mode": Act.SET_SHAPE,
    "format": Act.SET_SHAPE,
    "count": Act.SET_SHAPE,
    "fields": Act.SET_FIELDS,
    "min_active": Act.SET_MIN_ACTIVE,
    "event_mask": Act.SET_EVENT_MASK,
}
"""Act that setting each attribute is."""

MASKABLE = frozenset({ApiEvState.GOOD, ApiEvState.ASSUMED_BAD})
"""States whose changes can be reported (API)."""

SETTABLE = {
    ApiEvState.GOOD: EvState.GOOD,
    ApiEvState.ASSUMED_BAD: EvState.ASSUMED_BAD,
    ApiEvState.DENIED: EvState.DENIED,
}
"""States that a controller can set, and the matching states in a queue pair."""


def problems_of(attributes: Attributes) -> tuple[str, ...]:
    """List everything that is out of range."""
    problems = []
    if attributes.count is not None and not 1 <= attributes.count <= 1 << 16:
        problems.append(f"count is {attributes.count}, must be 1..65536")
    least, count = attributes.min_active, attributes.count
    if least is not None and not 1 <= least <= (count or 1 << 16):
        problems.append(f"min_active is {least}, must be 1..{count or 1 << 16}, no more than count")
    if odd := (attributes.event_mask or frozenset()) - MASKABLE:
        problems.append(
            f"event_mask has {', '.join(sorted(state.name for state in odd))}; only GOOD and ASSUMED_BAD can be"
        )
    return tuple(problems)
