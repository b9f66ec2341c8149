"""Errors of agent.wire when a caller requests what the wire format cannot carry. Received bytes never raise.

WireError ├── UsidError      a number that does not fit the uSID plan, or a chain too long for one address └── EvError
an entropy value that names no path of the pair it is used for
"""


class WireError(ValueError):
    """Base of this folder's errors."""


class UsidError(WireError):
    """A number does not fit the uSID plan, or a chain is too long for one address."""


class EvError(WireError):
    """An entropy value names no path of the host pair it is used for."""

    def __init__(self, ev: int, reason: str) -> None:
        super().__init__(f"EV {ev:#010x}: {reason}")
        self.ev = ev
