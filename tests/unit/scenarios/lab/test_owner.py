"""Whose error an owner says it is, and in which words."""

import errno

import pytest

from scenarios.cli.runs import detect
from scenarios.errors import EnvironmentLackingError, LabStateError, OwnerFailedError, UsageError
from scenarios.lab.owner.process import blame_of
from scenarios.lab.protocol import Blame
from scenarios.lab.start import deploy


@pytest.mark.parametrize(
    ("error", "blame"),
    [
        (UsageError("x"), Blame.USAGE),
        (EnvironmentLackingError("x"), Blame.ENVIRONMENT),
        (LabStateError("x"), Blame.LAB_STATE),
        (OwnerFailedError("x"), Blame.OWNER),
        (OSError(errno.ENOSPC, "No space left on device", "/run/x"), Blame.ENVIRONMENT),
        (OSError(errno.EROFS, "Read-only file system", "/run/x"), Blame.ENVIRONMENT),
        (OSError(errno.ECHILD, "No child processes"), Blame.OWNER),
    ],
)
def test_blame(error: Exception, blame: Blame) -> None:
    assert blame_of(error) is blame


def test_detect_looks_for_the_process_that_the_owner_starts() -> None:
    assert detect.SPRAYCHECK == deploy.SPRAYCHECK
