"""Takes a lab down through its owner or, when that is dead or hangs, by the marks that everything of a lab carries.

It touches nothing without the lab's mark: root's own variable on processes, a prefix on namespaces, a folder.
"""

from dataclasses import dataclass
from enum import StrEnum

from scenarios.errors import LabStateError, OwnerFailedError
from scenarios.lab import protocol
from scenarios.lab.client import Owner
from scenarios.lab.lab_dir import LabDir, owner_of
from scenarios.lab.processes import end_marked, is_alive, is_marked, kill, wait_gone
from testbed.kernel.bpf.grace_period import put_back

END_TIMEOUT_S = 60.0
"""Timeout for the owner to take a lab down, which takes far less; after it the marks are used."""

GRACE_S = 3.0
"""Time for marked processes between SIGTERM and SIGKILL."""


class OwnerEnd(StrEnum):
    """What happened to the lab's owner."""

    ORDERLY = "ended"
    KILLED = "did not answer"
    BUILDING = "was building or ending"
    GONE = "was gone"
    NONE = "none"


@dataclass(frozen=True)
class Removed:
    """What was removed without the owner's help; all empty after an orderly end."""

    lab: str
    was_up: bool
    by_owner: bool
    owner: OwnerEnd
    processes: int = 0
    namespaces: int = 0
    folder: bool = False


def take_down(labdir: LabDir) -> Removed:
    """Remove everything of the lab; does no harm when there is nothing."""
    from testbed.emulation.network import remove_leftovers  # loads Mininet, for this alone

    owner = _ask_owner(labdir)
    by_owner = owner is OwnerEnd.ORDERLY
    processes = end_marked(labdir.lab, GRACE_S)
    put_back(labdir.grace)
    namespaces = remove_leftovers(labdir.lab)
    folder = labdir.path.exists()
    labdir.remove()
    was_up = by_owner or bool(processes or namespaces or folder)
    if not was_up:
        owner = OwnerEnd.NONE
    return Removed(labdir.lab, was_up, by_owner, owner, processes, len(namespaces), folder)


def _ask_owner(labdir: LabDir) -> OwnerEnd:
    """Return whether the owner took everything down itself; an owner that does not answer is killed."""
    process = owner_of(labdir)
    if process is not None and not is_marked(process, labdir.lab):
        process = None  # a stranger, whatever a file says; neither waited for nor touched
    try:
        with Owner(labdir) as owner:
            owner.ask(protocol.Shutdown(), protocol.Done)
    except LabStateError:
        return OwnerEnd.GONE if process is None else OwnerEnd.BUILDING
    except OwnerFailedError:
        pass
    else:
        if process is not None and wait_gone(process, END_TIMEOUT_S):
            return OwnerEnd.ORDERLY
    if process is None or not is_alive(process):
        return OwnerEnd.GONE
    kill(process)
    return OwnerEnd.KILLED
