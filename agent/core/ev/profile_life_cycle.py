"""EV profiles as a controller sees them: life cycle, attributes, and operations on entries.

States, transitions and what each state allows are literal tables. Knows no entropy values. MRC API, EV profiles; what
that leaves open is marked as our choice.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import NamedTuple, TypeVar

from agent.core.ev.profile_sources import GenField
from agent.core.ev.state import EvState


class ProfileState(Enum):
    """State of an EV profile."""

    INIT = "INIT"
    """Being described; the profile has no entries."""
    OFFLINE = "OFFLINE"
    """The profile has entries, and no queue pair may use it."""
    ONLINE = "ONLINE"
    """Queue pairs may use it."""


class Act(Enum):
    """Actions of a controller or a queue pair on a profile."""

    SET_SHAPE = "setting mode, format or count"
    SET_FIELDS = "setting fields"
    SET_MIN_ACTIVE = "setting min_active"
    SET_EVENT_MASK = "setting the event mask"
    REPLACE_EV = "replacing an EV"
    MODIFY_EV_STATE = "changing the state of an EV"
    QUERY = "asking about EVs"
    USE = "use by a queue pair"


class ApiEvState(IntEnum):
    """State of an EV in the API; congestion (SKIP) is internal to the transport and shows as GOOD."""

    GOOD = 1
    ASSUMED_BAD = 2
    DENIED = 4
    UNKNOWN = 1 << 31
    """Only in answers: the entry has no value, or its queue pairs disagree (our choice)."""


class OpStatus(Enum):
    """Result of an operation on an EV."""

    DONE = "done"
    NO_SUCH_EV = "no such EV"
    NO_PATH = "the new EV names no path"
    OTHER_PLANE = "the new EV is of another plane"
    BAD_STATE = "a state that cannot be set"


_INIT, _OFFLINE, _ONLINE = ProfileState.INIT, ProfileState.OFFLINE, ProfileState.ONLINE

TRANSITIONS: dict[ProfileState, frozenset[ProfileState]] = {
    _INIT: frozenset({_OFFLINE}),
    _OFFLINE: frozenset({_ONLINE, _INIT}),
    _ONLINE: frozenset({_OFFLINE}),
}
"""States that may follow each state: up one by one, and down the same way."""

NEEDED: dict[tuple[ProfileState, ProfileState], tuple[str, ...]] = {
    (_INIT, _OFFLINE): ("mode", "format", "count"),
    (_OFFLINE, _ONLINE): ("min_active", "event_mask"),
}
"""Attributes that must be set before; also fields for GEN on the first step, and all entries for EXP on the second."""

ALLOWED: dict[ProfileState, frozenset[Act]] = {
    _INIT: frozenset({Act.SET_SHAPE, Act.SET_FIELDS, Act.SET_MIN_ACTIVE, Act.SET_EVENT_MASK}),
    # Entries exist by then, and what shapes them is fixed until INIT (our reading).
    _OFFLINE: frozenset(
        {Act.SET_FIELDS, Act.SET_MIN_ACTIVE, Act.SET_EVENT_MASK, Act.REPLACE_EV, Act.MODIFY_EV_STATE, Act.QUERY}
    ),
    _ONLINE: frozenset({Act.MODIFY_EV_STATE, Act.QUERY, Act.USE}),
}
"""Actions allowed in each state."""

ALLOWED_IF_CAPABLE: frozenset[Act] = frozenset({Act.SET_EVENT_MASK, Act.REPLACE_EV, Act.SET_FIELDS})
"""Actions also allowed ONLINE with the capability EV_PROFILE_MODIFY_ONLINE."""


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


Wanted = TypeVar("Wanted")


class Replacement(NamedTuple):
    """One REPLACE_EV; `ev` None: the next entry without a value."""

    ev: int | None
    new: int
    state: ApiEvState = ApiEvState.GOOD


class Entry(NamedTuple):
    """One entry in the answer of QUERY_EV_ARRAY."""

    ev: int | None
    """Value of the entry; None: not filled yet."""
    plane: int | None
    state: ApiEvState


class BatchResult(NamedTuple):
    """Result of an operation's list: entries before the first failure are done, later ones are untouched."""

    done: int
    """Number of entries that succeeded."""
    status: OpStatus
    """Status of the entry that failed; DONE if none did."""


def in_order(wanted: Sequence[Wanted], serve: Callable[[Wanted], OpStatus]) -> BatchResult:
    """Apply the entries in order until one fails."""
    for done, one in enumerate(wanted):
        status = serve(one)
        if status is not OpStatus.DONE:
            return BatchResult(done, status)
    return BatchResult(len(wanted), OpStatus.DONE)
