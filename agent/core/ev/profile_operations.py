"""A controller's operations on the entries of an EV profile: what is asked and answered. MRC API, EV operations."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from agent.core.ev.profile_states import ApiEvState, OpStatus

Wanted = TypeVar("Wanted")


class Replacement(NamedTuple):
    """One REPLACE_EV; `ev` None: the next entry that nobody has filled."""

    ev: int | None
    new: int
    state: ApiEvState = ApiEvState.GOOD


class Entry(NamedTuple):
    """One answer of QUERY_EV_ARRAY."""

    ev: int | None
    """None: nobody has filled it."""
    plane: int | None
    state: ApiEvState


class BatchResult(NamedTuple):
    """What became of an operation's list: entries before the first failure are done, those behind it untouched."""

    done: int
    """How many succeeded."""
    status: OpStatus
    """Of the one that did not; DONE if there is none."""


def in_order(wanted: Sequence[Wanted], serve: Callable[[Wanted], OpStatus]) -> BatchResult:
    """Serve one after the other until one fails."""
    for done, one in enumerate(wanted):
        status = serve(one)
        if status is not OpStatus.DONE:
            return BatchResult(done, status)
    return BatchResult(len(wanted), OpStatus.DONE)
