"""Provides the Python API's EV profiles: what a controller of MRC's API creates, changes and queries. docs/api.md."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self

from agent.host.control import profile_requests as ask
from agent.host.control.profile_requests import StateName as StateName
from scenarios.errors import UsageError


class _Host(Protocol):
    """A host of the lab."""

    @property
    def index(self) -> int:
        """Number of the host."""


class _Lab(Protocol):
    """The lab that a profile belongs to, as the profile uses it."""

    def request(self, host: Any, request: Any) -> dict[str, Any]:
        """Return the answer of the host's engine worker."""

    def forget(self, made: Any) -> bool:
        """Report whether the lab had to close it, and take that off the lab."""


@dataclass(frozen=True)
class EvEntry:
    """One entry of a profile."""

    ev: int | None
    """Entropy value; None: the entry is empty."""
    plane: int | None
    state: StateName


class EvProfile:
    """An EV profile of a host for paths to one peer. Use in a `with`, or `close` it, or leave that to the lab.

    What its state does not allow, or an invalid profile, raises `WorkerFailedError`.
    """

    def __init__(self, lab: _Lab, host: _Host, peer: _Host, number: int) -> None:
        self._lab = lab
        self.host = host
        self.peer = peer
        self.number = number

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def __repr__(self) -> str:
        """Return the name, such as `EV profile 1 of h0 to h2`."""
        return f"EV profile {self.number} of {self.host} to {self.peer}"

    @property
    def state(self) -> str:
        """State: INIT, OFFLINE or ONLINE."""
        return str(self._ask(ask.ProfileState)["state"])

    def set(
        self,
        *,
        mode: Literal["AUTO", "EXP", "GEN"] | None = None,
        format: Literal["STEV", "SRV6", "UDP"] | None = None,
        count: int | None = None,
        fields: Sequence[dict[str, int]] | None = None,
        min_active: int | None = None,
        event_mask: Iterable[StateName] | None = None,
    ) -> None:
        """Set the given attributes. `fields` have `width`, `init_val` and, if generated, `mask`, `min`, `max`."""
        try:
            given = None if fields is None else tuple(ask.GenFieldSettings(**each) for each in fields)
        except TypeError as error:
            raise UsageError(f"fields: {error}") from error
        mask = None if event_mask is None else tuple(event_mask)
        self._ask(ask.SetProfile, mode, format, count, given, min_active, mask)

    def go(self, *states: Literal["INIT", "OFFLINE", "ONLINE"]) -> None:
        """Go through these states in order."""
        for state in states:
            self._ask(ask.MoveProfile, state)

    def replace(
        self, evs: Sequence[tuple[int | None, int]], state: StateName = "GOOD", *, all_copies: bool = False
    ) -> tuple[int, str]:
        """Replace each (old, new) in turn (REPLACE_EV); return how many were done, and why the next one was not.

        An old value of None is the next entry that nobody has filled. While queue pairs use the profile, a new value
        must be of the old one's plane; each changes over when nothing sent on the old one is unheard of.
        """
        wanted = tuple(ask.EvReplacement(old, new, state) for old, new in evs)
        told = self._ask(ask.ReplaceEvs, wanted, all_copies)
        return told["done"], told["status"]

    def modify(self, evs: Iterable[int], state: StateName, *, all_copies: bool = False) -> tuple[int, str]:
        """Set the state of each value in turn (MODIFY_EV_STATE), in all current and later queue pairs; return as
        `replace`.
        """
        told = self._ask(ask.ModifyEvs, tuple((ev, state) for ev in evs), all_copies)
        return told["done"], told["status"]

    def query(self, evs: Iterable[int], *, all_copies: bool = False) -> list[StateName]:
        """Return states of the values (QUERY_EV_STATE), up to the first that no entry has; UNKNOWN where queue
        pairs differ.
        """
        states: list[StateName] = self._ask(ask.QueryEvs, tuple(evs), all_copies)["states"]
        return states

    def entries(self) -> list[EvEntry]:
        """QUERY_EV_ARRAY."""
        return [EvEntry(**row) for row in self._ask(ask.QueryEntries)["entries"]]

    def close(self) -> None:
        """Destroy it, after the queue pairs that use it. Calling it twice is safe."""
        if self._lab.forget(self):
            self._ask(ask.DestroyProfile)

    def _ask(self, request: Any, *values: Any) -> dict[str, Any]:
        return self._lab.request(self.host, request(self.host.index, self.number, *values))
