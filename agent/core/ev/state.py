"""State table of an entropy value: state by signal. A pair that is not in the table changes nothing.

Knows one EV's state, and no sets, planes, floors or time. MRC Figure 5, 9.3.1, 11.2.2. SKIP is internal to the
transport; the API knows only GOOD, ASSUMED_BAD and DENIED.
"""

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray


class EvState(IntEnum):
    """State of an EV."""

    GOOD = 0
    SKIP = 1
    """Congested: skipped for one rotation."""
    ASSUMED_BAD = 2
    """Lost a packet: not used until probes are answered."""
    DENIED = 3
    """Forbidden by a controller: not used until the controller allows it."""


class EvSignal(IntEnum):
    """Signals that may change the state of an EV."""

    MARKED = 0
    """A SACK says SKIP_ONCE for it: its packet met congestion (ECN)."""
    TRIMMED = 1
    """A NACK says that its packet was trimmed inside the fabric; trimming at the last hop does not count."""
    ALWAYS_SKIP = 2
    """A SACK says ALWAYS_SKIP for it."""
    LOST = 3
    """Packets on it were lost without a NACK, as often as the loss policy tolerates."""
    PASSED = 4
    """It was skipped for one rotation, or the time of the SKIP ended."""
    REVIVED = 5
    """Enough probes were answered."""
    REVIVED_MARKED = 6
    """Enough probes were answered, and the last answer says SKIP_ONCE."""
    DENY = 7
    ALLOW = 8
    SET_GOOD = 9
    """A controller sets this state, whatever it was (API, MODIFY_EV_STATE and REPLACE_EV)."""
    SET_BAD = 10


_G, _S, _B, _D = EvState.GOOD, EvState.SKIP, EvState.ASSUMED_BAD, EvState.DENIED

TRANSITIONS: dict[EvState, dict[EvSignal, EvState]] = {
    _G: {
        EvSignal.MARKED: _S,
        EvSignal.TRIMMED: _S,
        EvSignal.ALWAYS_SKIP: _B,
        EvSignal.LOST: _B,
        EvSignal.DENY: _D,
        EvSignal.SET_BAD: _B,
    },
    _S: {
        EvSignal.ALWAYS_SKIP: _B,
        EvSignal.LOST: _B,
        EvSignal.PASSED: _G,
        # Sources disagree whether only a GOOD EV can be denied; the API sets any state.
        EvSignal.DENY: _D,
        EvSignal.SET_GOOD: _G,
        EvSignal.SET_BAD: _B,
    },
    _B: {
        EvSignal.REVIVED: _G,
        # SKIP or GOOD is open: SKIP, or a path that is congested now would be used at once.
        EvSignal.REVIVED_MARKED: _S,
        EvSignal.DENY: _D,
        EvSignal.SET_GOOD: _G,
    },
    _D: {EvSignal.ALLOW: _G, EvSignal.SET_GOOD: _G, EvSignal.SET_BAD: _B},
}
"""State that follows each state on each signal (MRC Figure 5, 9.3.1, 11.2.2)."""


def _table() -> NDArray[np.uint8]:
    table = np.repeat(np.arange(len(EvState), dtype=np.uint8)[:, None], len(EvSignal), axis=1)
    for state, moves in TRANSITIONS.items():
        for signal, after in moves.items():
            table[state, signal] = after
    return table


_NEXT = _table()


def after(states: NDArray[np.uint8], signal: EvSignal) -> NDArray[np.uint8]:
    """Return the states (n,) that follow `states` (n,) on a signal."""
    following: NDArray[np.uint8] = _NEXT[states, signal]
    return following
