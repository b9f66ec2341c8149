"""What a controller says of an EV profile before it can be used, and what each of it may be. MRC API, EV profiles."""

from dataclasses import dataclass
from enum import IntEnum

from agent.core.ev.profile import GenField
from agent.core.ev.profile_states import Act, ApiEvState
from agent.core.ev.state import EvState


class EvMode(IntEnum):
    """Where the values come from; numbers are the API's."""

    AUTO = 1
    """Picked from all paths."""
    EXP = 2
    """Put in one by one by a controller."""
    GEN = 4
    """Generated from fields."""


class EvFormat(IntEnum):
    """How a value rides in a packet; numbers are the API's."""

    STEV = 1
    SRV6 = 2
    UDP = 4


FORMAT_BITS = {EvFormat.STEV: 32, EvFormat.SRV6: 32, EvFormat.UDP: 16}
"""Width of the value that is sprayed and reflected (Table 9-1)."""


@dataclass(frozen=True, slots=True)
class Attributes:
    """What a controller says of a profile; None: not said."""

    mode: EvMode | None = None
    format: EvFormat | None = None
    count: int | None = None
    """Entries, copies included."""
    fields: tuple[GenField, ...] | None = None
    """Of GEN, the first highest."""
    min_active: int | None = None
    """Losses never leave fewer in use; at most `count`."""
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
"""What setting each attribute is."""

MASKABLE = frozenset({ApiEvState.GOOD, ApiEvState.ASSUMED_BAD})
"""States whose changes can be asked for (API)."""

SETTABLE = {
    ApiEvState.GOOD: EvState.GOOD,
    ApiEvState.ASSUMED_BAD: EvState.ASSUMED_BAD,
    ApiEvState.DENIED: EvState.DENIED,
}
"""States a controller can set, and what they are to a queue pair."""


def problems_of(attributes: Attributes) -> tuple[str, ...]:
    """Everything that is out of range."""
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
