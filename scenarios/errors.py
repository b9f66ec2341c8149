"""Errors of driving a lab.

ScenariosError
├── UsageError                   what was asked for is wrong
│   └── ScenarioRefusedError     a scenario has problems, all of them listed
├── EnvironmentLackingError      this machine or kernel cannot do it
├── LabStateError                a lab is up that should not be, or the other way round
├── OwnerFailedError             the lab's owner answered with an error of its own, or died
├── WorkerFailedError            an engine worker answered with an error, or died
└── RunStalledError              traffic made no progress for too long

KeyboardInterrupt
└── InterruptedRunError          a signal asked for the end
"""

from collections.abc import Sequence
from dataclasses import dataclass


class ScenariosError(Exception):
    """Base of this folder's errors; its text is one readable line."""


class UsageError(ScenariosError):
    """The user gave an invalid name, number or combination."""


@dataclass(frozen=True)
class Problem:
    """One problem of a scenario, described so that it can be corrected without a manual."""

    where: str
    """`file:line`, or the file alone when no line is the cause."""
    path: str
    """Dotted path inside the document, as `faults.0.link`; empty for the document itself."""
    wrong: str
    """What is wrong."""
    right: str
    """What would be right."""

    def __str__(self) -> str:
        """Return `gray-link.yaml:7: topology.leafs: unknown key; did you mean 'leaves'?`."""
        at = f"{self.where}: {self.path}" if self.path else self.where
        return f"{at}: {self.wrong}; {self.right}"


class ScenarioRefusedError(UsageError):
    """A scenario file has problems; nothing was started."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class EnvironmentLackingError(ScenariosError):
    """Root, a kernel feature, a tool or memory is missing; the text says which and what to do."""


class LabStateError(ScenariosError):
    """The lab is up, down or busy when the request needs the opposite."""


class OwnerFailedError(ScenariosError):
    """The lab's owner failed to do what was requested, or is gone."""


class WorkerFailedError(ScenariosError):
    """An engine worker refused a request or is gone."""


class RunStalledError(ScenariosError):
    """Nothing was acknowledged for too long, though packets were outstanding."""


class InterruptedRunError(KeyboardInterrupt):
    """The user or the system asked this process to end; what was started is taken down first."""
