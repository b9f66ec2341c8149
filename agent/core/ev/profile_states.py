"""Life cycle of an EV profile as literal tables: transitions, what each needs, and what each state allows.

Knows no entropy values. MRC API, EV profiles; what that leaves open is marked as our choice.
"""

from enum import Enum, IntEnum


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
