"""Operations of a controller on the entries of an EV profile: requests and results. MRC API, EV operations."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from agent.core.ev.profile_states import ApiEvState, OpStatus

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
