"""Errors of describing a fault and of setting it in the fabric.

    FaultError
    ├── QuantityError        a number with a unit that cannot be read (also a ValueError)
    │   └── RateError        the same of a rate
    ├── WordingError         a description that makes no fault, with everything that is wrong in it
    ├── TargetError          what a fault is to be put on cannot be, or is not in the fabric
    ├── MechanismError       no mechanism of this machine can make the fault, with what to enable
    └── NotInForceError      the kernel does not hold what was asked for

The exit code of each is chosen by the command line, not here.
"""

from collections.abc import Sequence


class FaultError(Exception):
    """Base of every error this folder raises on purpose."""


class QuantityError(FaultError, ValueError):
    """A quantity that cannot be read; `hint` says how to write it."""

    def __init__(self, text: str, reason: str, hint: str) -> None:
        self.text, self.reason, self.hint = text, reason, hint
        super().__init__(f"{text!r} {reason}; {hint}")


class RateError(QuantityError):
    """A rate that cannot be read."""


class WordingError(FaultError, ValueError):
    """A description of faults that cannot be used; `problems` are (word, what is wrong, what would be right)."""

    def __init__(self, problems: Sequence[tuple[str, str, str]]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(f"{word}: {wrong}; {right}" for word, wrong, right in problems))


class TargetError(FaultError, ValueError):
    """A target that cannot be found, or on which this fault makes no sense; `hint` says what would be right."""

    def __init__(self, text: str, reason: str, hint: str) -> None:
        self.text, self.reason, self.hint = text, reason, hint
        super().__init__(f"target {text!r}: {reason}; {hint}")


class MechanismError(FaultError):
    """The requested mechanism is not available here; `advice` says what to enable, install or request instead."""

    def __init__(self, mechanism: str, reason: str, advice: str) -> None:
        self.mechanism, self.reason, self.advice = mechanism, reason, advice
        super().__init__(f"fault mechanism {mechanism}: {reason}; {advice}")


class NotInForceError(FaultError):
    """The kernel holds something else than requested after a change; nothing of the fault is left in place."""

    def __init__(self, link: str, wanted: str, found: str) -> None:
        self.link, self.wanted, self.found = link, wanted, found
        super().__init__(f"{link}: asked for {wanted}, the kernel holds {found}")
