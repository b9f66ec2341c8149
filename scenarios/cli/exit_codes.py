"""Maps errors to the exit codes of the command line; no other module has these numbers."""

from enum import IntEnum

from faults.errors import FaultError, MechanismError, QuantityError, TargetError, WordingError
from results.errors import ResultsError
from scenarios.errors import (
    EnvironmentLackingError,
    LabStateError,
    ScenariosError,
    UsageError,
)
from testbed.errors import FabricError, MissingFeatureError, TestbedError, UnknownNameError
from testbed.errors import LabStateError as TestbedLabStateError


class ExitCode(IntEnum):
    """The exit codes of a command."""

    OK = 0
    CHECK_FAILED = 1
    """The run finished, but detection, data or another check is not as expected; or the program itself has a fault."""
    USAGE = 2
    """Wrong arguments or a scenario with problems; nothing was started."""
    ENVIRONMENT = 3
    """Not root, a kernel feature or tool is missing, or a file cannot be read or written."""
    LAB_STATE = 4
    """The lab is up, down or busy when the opposite is needed, or one of its processes is gone."""
    OVERLOADED = 5
    """The machine did not keep up; the result cannot be trusted."""
    INTERRUPTED = 130
    """Ended by Ctrl-C or SIGTERM, after cleaning up."""
    PIPE_CLOSED = 141
    """The reader of the output has gone, as `head` does; the code that a shell reports for SIGPIPE."""


_CODES: tuple[tuple[tuple[type[Exception], ...], ExitCode], ...] = (
    ((UsageError, FabricError, UnknownNameError, QuantityError, WordingError, TargetError), ExitCode.USAGE),
    ((EnvironmentLackingError, MissingFeatureError, MechanismError), ExitCode.ENVIRONMENT),
    ((LabStateError, TestbedLabStateError), ExitCode.LAB_STATE),
    ((ScenariosError, TestbedError, FaultError), ExitCode.LAB_STATE),
    ((ResultsError,), ExitCode.ENVIRONMENT),
)

EXPECTED = (ScenariosError, TestbedError, FaultError, ResultsError)
"""Errors whose text is all that a user needs; any other error is a fault of the program and keeps its traceback."""


def exit_code_of(error: Exception) -> ExitCode:
    """Return the code for an expected error."""
    return next((code for kinds, code in _CODES if isinstance(error, kinds)), ExitCode.CHECK_FAILED)
