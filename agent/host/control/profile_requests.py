"""Requests about EV profiles that a controller makes and changes (MRC API); the reply's fields stand in braces."""

from typing import Literal

import msgspec


class _Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="op"):
    host: int
    """Whose queue pairs are to use it."""


StateName = Literal["GOOD", "ASSUMED_BAD", "DENIED", "UNKNOWN"]


class GenFieldSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One field of generated EVs; names are those of `agent.core.ev.profile.GenField`."""

    width: int
    init_val: int
    min: int = 0
    max: int = 0
    mask: int = 0


class CreateProfile(_Request, frozen=True, tag="create_profile"):
    """An EV profile in INIT, for paths from `host` to `peer_host`: {profile}, its number."""

    peer_host: int
    modify_online: bool = False
    """Capability EV_PROFILE_MODIFY_ONLINE."""
    leased: bool = False
    """Destroyed when this connection ends."""


class _OfProfile(_Request, frozen=True):
    profile: int


class SetProfile(_OfProfile, frozen=True, tag="set_profile"):
    """Set what is not None; names are those of `agent.core.ev.profile_attributes.Attributes`: {}."""

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
    """None: the next entry that nobody has filled."""
    new: int
    state: StateName = "GOOD"


class ReplaceEvs(_OfProfile, frozen=True, tag="replace_evs"):
    """REPLACE_EV of each in turn, until one fails: {done, status}."""

    evs: tuple[EvReplacement, ...]
    all_copies: bool = False


class ModifyEvs(_OfProfile, frozen=True, tag="modify_evs"):
    """MODIFY_EV_STATE of each (value, state) in turn, until one fails: {done, status}."""

    evs: tuple[tuple[int, StateName], ...]
    all_copies: bool = False


class QueryEvs(_OfProfile, frozen=True, tag="query_evs"):
    """QUERY_EV_STATE of each value in turn, until one fails: {done, status, states}."""

    evs: tuple[int, ...]
    all_copies: bool = False


class ProfileState(_OfProfile, frozen=True, tag="profile_state"):
    """Where it stands: {state}."""


class QueryEntries(_OfProfile, frozen=True, tag="query_entries"):
    """QUERY_EV_ARRAY: {entries}, each `ev`, `plane` (None where nobody filled it), `state`."""


class DestroyProfile(_OfProfile, frozen=True, tag="destroy_profile"):
    """Forget a profile that no queue pair uses: {}."""


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
