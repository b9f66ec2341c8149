"""An EV profile under control of a controller: life cycle, entries, and the queue pairs that share it.

Entries are shared, but each queue pair has its own states: what a controller sets reaches all of them, while losses
change only the states of the queue pair that saw them (our choice; docs/transport.md). A value that takes the place of
another waits until its row is idle: what is known of a row must belong to one path, because a later arrival on the same
row proves a loss. MRC API, EV profiles.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from agent.core.errors import ConfigError, ProfileStateError
from agent.core.ev.ev_set import EvSet
from agent.core.ev.profile_life_cycle import (
    ACT_OF,
    ALLOWED,
    ALLOWED_IF_CAPABLE,
    FORMAT_BITS,
    NEEDED,
    SETTABLE,
    TRANSITIONS,
    Act,
    ApiEvState,
    Attributes,
    BatchResult,
    Entry,
    EvFormat,
    EvMode,
    OpStatus,
    ProfileState,
    Replacement,
    in_order,
    problems_of,
)
from agent.core.ev.profile_sources import EvProfile, auto_profile, generated_evs
from agent.core.ev.state import EvState
from agent.core.events import Event, EvReplaced


class ProfileUser(Protocol):
    """A queue pair that sprays over a profile's entries, row by row."""

    def set_evs(self, rows: NDArray[np.int64], state: EvState, now_ns: int) -> None:
        """Set the state of rows (m,), by order of a controller."""

    def replace_ev(self, row: int, ev: int, state: EvState, now_ns: int) -> None:
        """Put another value of the same plane in a row, by order of a controller."""

    def ev_states(self) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """Return EvState (e,) and whether active (e,)."""

    def report_evs(self, states: frozenset[EvState]) -> None:
        """Report EV changes to these states, and to no others."""


@dataclass(frozen=True, slots=True)
class ProfilePaths:
    """Paths among which a profile can choose."""

    evs: NDArray[np.uint32]
    """(c,) candidates of AUTO."""
    plane_of: Callable[[int], int]
    """Returns the plane of a value. Raises ConfigError for a value that names no path."""


@dataclass(slots=True)
class ControlledProfile:
    """One EV profile."""

    paths: ProfilePaths
    rng: np.random.Generator
    modify_online: bool = False
    """The profile has the capability EV_PROFILE_MODIFY_ONLINE."""
    state: ProfileState = ProfileState.INIT
    attributes: Attributes = field(default_factory=Attributes)
    users: list[ProfileUser] = field(default_factory=list)
    _evs: NDArray[np.uint32] = field(init=False)
    _planes: NDArray[np.uint8] = field(init=False)
    _filled: NDArray[np.bool_] = field(init=False)
    _set_states: NDArray[np.uint8] = field(init=False)
    """EvState of each entry as the controller left it; a queue pair starts with these."""

    def __post_init__(self) -> None:
        """Start without entries."""
        self._allot(0)

    def set(self, attributes: Attributes, now_ns: int) -> None:
        """Take over attributes that are not None.

        Raises ProfileStateError if forbidden now, ConfigError for bad values.
        """
        names = [each.name for each in fields(attributes) if getattr(attributes, each.name) is not None]
        given = {name: getattr(attributes, name) for name in names}
        for name in given:
            self._require(ACT_OF[name])
        merged = replace(self.attributes, **given)
        if problems := problems_of(merged):
            raise ConfigError(problems)
        if "fields" in given and self.state is not ProfileState.INIT:
            self._regenerate(merged, now_ns)
        self.attributes = merged
        if "event_mask" in given:
            for user in self.users:
                user.report_evs(self.reported)

    @property
    def reported(self) -> frozenset[EvState]:
        """Return the states that the event mask selects."""
        return frozenset(SETTABLE[state] for state in self.attributes.event_mask or ())

    def go(self, state: ProfileState) -> None:
        """Change the state of the profile.

        Raises ProfileStateError if the table forbids it or queue pairs still use the profile, ConfigError for
        everything that is missing.
        """
        if state not in TRANSITIONS[self.state] or self.users:
            raise ProfileStateError(
                self.state.value, f"going to {state.value}" + (" while in use" if self.users else "")
            )
        missing = [name for name in NEEDED.get((self.state, state), ()) if getattr(self.attributes, name) is None]
        if state is ProfileState.OFFLINE and self.attributes.mode is EvMode.GEN and not self.attributes.fields:
            missing.append("fields")
        if state is ProfileState.ONLINE and (empty := int(np.count_nonzero(~self._filled))):
            missing.append(f"values for {empty} of {len(self._filled)} entries")
        if missing:
            raise ConfigError(tuple(f"{name}: needed to go to {state.value}" for name in missing))
        if (self.state, state) == (ProfileState.INIT, ProfileState.OFFLINE):
            self._make_entries()
        if state is ProfileState.INIT:
            self.attributes = Attributes()
            self._allot(0)
        self.state = state

    def profile(self) -> EvProfile:
        """Copy the values for a queue pair. Raises ProfileStateError unless ONLINE."""
        self._require(Act.USE)
        return EvProfile(self._evs.copy(), self._planes.copy())

    def join(self, user: ProfileUser, now_ns: int) -> None:
        """Add a queue pair made of `profile()`, with the states the controller left. Raises ProfileStateError."""
        self._require(Act.USE)
        self.users.append(user)
        user.report_evs(self.reported)
        for state in (EvState.ASSUMED_BAD, EvState.DENIED):
            rows = np.flatnonzero(self._set_states == state)
            if len(rows):
                user.set_evs(rows, state, now_ns)

    def leave(self, user: ProfileUser) -> None:
        """Remove a queue pair that does not use the profile any more."""
        self.users.remove(user)

    def replace(self, wanted: Sequence[Replacement], now_ns: int, all_copies: bool = False) -> BatchResult:
        """Put another value and state in the first entry that holds a value, or in all copies of it (REPLACE_EV).

        Each queue pair follows in its own time (`ProfileUser.replace_ev`); while there are any, the plane must stay the
        same. Raises ProfileStateError where this state forbids it.
        """
        self._require(Act.REPLACE_EV)
        return in_order(wanted, lambda one: self._replace(one, now_ns, all_copies))

    def modify(self, wanted: Sequence[tuple[int, ApiEvState]], now_ns: int, all_copies: bool = False) -> BatchResult:
        """Set states for all queue pairs, present and future (MODIFY_EV_STATE).

        Raises ProfileStateError if forbidden.
        """
        self._require(Act.MODIFY_EV_STATE)
        return in_order(wanted, lambda one: self._modify(*one, now_ns, all_copies))

    def query(self, evs: Sequence[int], all_copies: bool = False) -> tuple[BatchResult, list[ApiEvState]]:
        """Return the states of values, up to the first that no entry has (QUERY_EV_STATE). Raises ProfileStateError."""
        self._require(Act.QUERY)
        told: list[ApiEvState] = []

        def ask(ev: int) -> OpStatus:
            rows = self._rows_of(ev, all_copies)
            if len(rows):
                told.append(self._told(rows))
            return OpStatus.DONE if len(rows) else OpStatus.NO_SUCH_EV

        return in_order(evs, ask), told

    def query_array(self) -> list[Entry]:
        """Return all entries in order (QUERY_EV_ARRAY). Raises ProfileStateError."""
        self._require(Act.QUERY)
        return [
            Entry(ev, plane, self._told(np.array([row]))) if filled else Entry(None, None, ApiEvState.UNKNOWN)
            for row, (ev, plane, filled) in enumerate(
                zip(self._evs.tolist(), self._planes.tolist(), self._filled.tolist(), strict=True)
            )
        ]

    def _require(self, act: Act) -> None:
        allowed = ALLOWED[self.state]
        if self.state is ProfileState.ONLINE and self.modify_online:
            allowed |= ALLOWED_IF_CAPABLE
        if act not in allowed:
            raise ProfileStateError(self.state.value, act.value)

    def _make_entries(self) -> None:
        count = self.attributes.count or 0
        self._allot(count)
        self._filled[:] = self.attributes.mode is not EvMode.EXP
        if self.attributes.mode is EvMode.GEN:
            self._evs, self._planes = self._generated(self.attributes)
        elif self.attributes.mode is EvMode.AUTO:
            planes = np.array([self.paths.plane_of(ev) for ev in self.paths.evs.tolist()], np.uint8)
            picked = auto_profile(self.paths.evs, planes, count, self.rng)
            self._evs, self._planes = picked.evs.copy(), picked.planes.copy()

    def _allot(self, count: int) -> None:
        self._evs, self._planes = np.zeros(count, np.uint32), np.zeros(count, np.uint8)
        self._filled, self._set_states = np.zeros(count, np.bool_), np.zeros(count, np.uint8)

    def _generated(self, attributes: Attributes) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
        bits = FORMAT_BITS[attributes.format or EvFormat.SRV6]
        evs = generated_evs(attributes.fields or (), attributes.count or 0, bits)
        return evs, np.array([self.paths.plane_of(ev) for ev in evs.tolist()], np.uint8)

    def _regenerate(self, attributes: Attributes, now_ns: int) -> None:
        """Generate the entries again after fields changed: all or nothing."""
        if attributes.mode is not EvMode.GEN:
            return
        evs, planes = self._generated(attributes)
        if self.users and not np.array_equal(planes, self._planes):
            raise ConfigError(("fields: an entry in use cannot go to another plane",))
        changed = np.flatnonzero(evs != self._evs)
        self._planes = planes
        for row in changed.tolist():
            self._put(row, int(evs[row]), EvState(int(self._set_states[row])), now_ns)

    def _replace(self, one: Replacement, now_ns: int, all_copies: bool) -> OpStatus:
        rows = self._rows_of(one.ev, all_copies)
        if not len(rows):
            return OpStatus.NO_SUCH_EV
        if one.state not in SETTABLE:
            return OpStatus.BAD_STATE
        try:
            plane = self.paths.plane_of(one.new)
        except ConfigError:
            return OpStatus.NO_PATH
        if self.users and (self._planes[rows] != plane).any():
            return OpStatus.OTHER_PLANE
        for row in rows.tolist():
            self._planes[row] = plane
            self._filled[row] = True
            self._put(row, one.new, SETTABLE[one.state], now_ns)
        return OpStatus.DONE

    def _put(self, row: int, ev: int, state: EvState, now_ns: int) -> None:
        self._evs[row], self._set_states[row] = ev, state
        for user in self.users:
            user.replace_ev(row, ev, state, now_ns)

    def _modify(self, ev: int, state: ApiEvState, now_ns: int, all_copies: bool) -> OpStatus:
        rows = self._rows_of(ev, all_copies)
        if not len(rows):
            return OpStatus.NO_SUCH_EV
        if state not in SETTABLE:
            return OpStatus.BAD_STATE
        self._set_states[rows] = SETTABLE[state]
        for user in self.users:
            user.set_evs(rows, SETTABLE[state], now_ns)
        return OpStatus.DONE

    def _rows_of(self, ev: int | None, all_copies: bool) -> NDArray[np.int64]:
        found = np.flatnonzero(~self._filled) if ev is None else np.flatnonzero((self._evs == ev) & self._filled)
        return found if all_copies and ev is not None else found[:1]

    def _told(self, rows: NDArray[np.int64]) -> ApiEvState:
        """Return the common state of rows (m >= 1,) in all queue pairs, or as set while there are none; or UNKNOWN."""
        seen = [user.ev_states()[0][rows] for user in self.users] or [self._set_states[rows]]
        states = {EvState(int(state)) for part in seen for state in part}
        states = {EvState.GOOD if state is EvState.SKIP else state for state in states}
        if len(states) > 1:
            return ApiEvState.UNKNOWN
        return next(api for api, state in SETTABLE.items() if state in states)


class Replacements:
    """Values that a controller puts in place of others while a queue pair sends.

    It owns the values of `profile`, which is the queue pair's own copy; `uses` reports whether a row is busy.
    """

    def __init__(
        self, profile: EvProfile, ev_set: EvSet, uses: Callable[[int], bool], report: Callable[[Event], None]
    ) -> None:
        self._profile = profile
        self._set = ev_set
        self._uses = uses
        self._report = report
        self._coming: dict[int, tuple[int, EvState]] = {}
        self._replaced: list[int] = []

    def __len__(self) -> int:
        """Count the replacements that wait."""
        return len(self._coming)

    def others(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return those of (m,) rows that wait for no value."""
        return np.setdiff1d(rows, list(self._coming)) if self._coming else rows

    def add(self, row: int, ev: int, state: EvState, now_ns: int) -> None:
        """Stop using a row until it has another value of its plane; then it continues in `state`."""
        self._coming[row] = (ev, state)
        self._set.set_states(np.array([row]), EvState.DENIED, now_ns)

    def set_states(self, rows: NDArray[np.int64], state: EvState) -> None:
        """Change the state in which those of (m,) rows that wait for a value will continue."""
        for row in self._coming.keys() & set(rows.tolist()):
            self._coming[row] = (self._coming[row][0], state)

    def settle(self, now_ns: int) -> None:
        """Change the values of rows that are idle now."""
        for row in [row for row in self._coming if not self._uses(row)]:
            ev, state = self._coming.pop(row)
            self._report(EvReplaced(now_ns, row, int(self._profile.evs[row]), ev))
            self._profile.evs[row] = ev
            self._replaced.append(row)
            self._set.set_states(np.array([row]), state, now_ns)

    def drain_replaced(self) -> list[int]:
        """Remove and return rows whose value has changed since the last call."""
        rows, self._replaced = self._replaced, []
        return rows
