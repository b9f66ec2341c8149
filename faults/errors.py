"""What can go wrong while a fault is described or put into the fabric.

    FaultError
    ├── RateError          a drop rate that cannot be read (also a ValueError)
    ├── MechanismError     no mechanism of this machine can make the fault, with what to enable
    └── NotInForceError    the kernel does not hold what was asked for

The exit code of each is chosen by the command line, not here.
"""


class FaultError(Exception):
    """Base of every error this folder raises on purpose."""


class RateError(FaultError, ValueError):
    """A rate that cannot be read; `hint` says how to write it."""

    def __init__(self, text: str, reason: str, hint: str) -> None:
        self.text, self.reason, self.hint = text, reason, hint
        super().__init__(f"{text!r} {reason}; {hint}")


class MechanismError(FaultError):
    """The asked mechanism is not available here; `advice` says what to enable, install or ask for instead."""

    def __init__(self, mechanism: str, reason: str, advice: str) -> None:
        self.mechanism, self.reason, self.advice = mechanism, reason, advice
        super().__init__(f"fault mechanism {mechanism}: {reason}; {advice}")


class NotInForceError(FaultError):
    """After a change the kernel holds something else than asked; nothing of the fault is left in place."""

    def __init__(self, link: str, wanted: str, found: str) -> None:
        self.link, self.wanted, self.found = link, wanted, found
        super().__init__(f"{link}: asked for {wanted}, the kernel holds {found}")
