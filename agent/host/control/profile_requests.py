"""Requests about EV profiles that a controller makes and changes (MRC API); braces show the reply's fields."""

from typing import Literal

import msgspec


class _Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="op"):
    host: int
    """Host whose queue pairs are to use the profile."""


StateName = Literal["GOOD", "ASSUMED_BAD", "DENIED", "UNKNOWN"]


class GenFieldSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One field of generated EVs; names are those of `agent.core.ev.profile_sources.GenField`."""

    width: int
    init_val: int
    min: int = 0
    max: int = 0
    mask: int = 0


class CreateProfile(_Request, frozen=True, tag="create_profile"):
    """Create an EV profile in INIT, for paths from `host` to `peer_host`: {profile}, its number."""

    peer_host: int
    modify_online: bool = False
    """Give it the capability EV_PROFILE_MODIFY_ONLINE."""
    leased: bool = False
    """Destroy it when this connection ends."""


class _OfProfile(_Request, frozen=True):
    profile: int


class SetProfile(_OfProfile, frozen=True, tag="set_profile"):
    """Set attributes that are not None; names as in `agent.core.ev.profile_life_cycle.Attributes`: {}."""

    mode: Literal["AUTO", "EXP", "GEN"] | None = None
    format: Literal["STEV", "SRV6", "UDP"] | None = None
    count: int | None = None
    fields: tuple[GenFieldSettings, ...] | None = None
    min_active: int | None = None
    event_mask: tuple[StateName, ...] | None = None


class MoveProfile(_OfProfile, frozen=True, tag="move_profile"):
    """Go to the next state, up or down: {}."""

    state: Literal["INIT", "OFFLINE", "ONLINE"]


class EvReplacement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One REPLACE_EV."""

    ev: int | None
    """Value to replace; None: the next entry that is not filled."""
    new: int
    state: StateName = "GOOD"


class ReplaceEvs(_OfProfile, frozen=True, tag="replace_evs"):
    """Replace values in order until one fails (REPLACE_EV): {done, status}."""

    evs: tuple[EvReplacement, ...]
    all_copies: bool = False


class ModifyEvs(_OfProfile, frozen=True, tag="modify_evs"):
    """Set the state of each (value, state) in order until one fails (MODIFY_EV_STATE): {done, status}."""

    evs: tuple[tuple[int, StateName], ...]
    all_copies: bool = False


class QueryEvs(_OfProfile, frozen=True, tag="query_evs"):
    """Query the state of each value in order until one fails (QUERY_EV_STATE): {done, status, states}."""

    evs: tuple[int, ...]
    all_copies: bool = False


class ProfileState(_OfProfile, frozen=True, tag="profile_state"):
    """Report the state of a profile: {state}."""


class QueryEntries(_OfProfile, frozen=True, tag="query_entries"):
    """Report all entries, each `ev`, `plane` (None if not filled), `state` (QUERY_EV_ARRAY): {entries}."""


class DestroyProfile(_OfProfile, frozen=True, tag="destroy_profile"):
    """Destroy a profile that no queue pair uses: {}."""


ProfileRequest = (
    CreateProfile
    | SetProfile
    | MoveProfile
    | ReplaceEvs
    | ModifyEvs
    | QueryEvs
    | ProfileState
    | QueryEntries
    | DestroyProfile
)
