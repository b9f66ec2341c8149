"""Takes a lab down: by asking its owner, or, when that is dead or deaf, by the marks that everything of a lab carries.

Touches nothing without the lab's mark: an environment variable on processes, a prefix on namespaces, a folder.
"""

from dataclasses import dataclass

from scenarios import protocol
from scenarios.client import Owner
from scenarios.errors import LabStateError, OwnerFailedError
from scenarios.lab_dir import LabDir, read_state
from scenarios.launch import END_TIMEOUT_S
from scenarios.processes import end_marked, wait_gone
from testbed.emulation.network import remove_leftovers

GRACE_S = 3.0
"""For marked processes between SIGTERM and SIGKILL."""


@dataclass(frozen=True)
class Removed:
    """What was taken away without the owner's help; all empty after an orderly end."""

    lab: str
    was_up: bool
    by_owner: bool
    processes: int = 0
    namespaces: int = 0
    folder: bool = False


def take_down(labdir: LabDir) -> Removed:
    """Leave nothing of the lab; harmless when there is nothing."""
    by_owner = _ask_owner(labdir)
    processes = end_marked(labdir.lab, GRACE_S)
    namespaces = remove_leftovers(labdir.lab)
    folder = labdir.path.exists()
    labdir.remove()
    was_up = by_owner or bool(processes or namespaces or folder)
    return Removed(labdir.lab, was_up, by_owner, processes, len(namespaces), folder)


def _ask_owner(labdir: LabDir) -> bool:
    """Whether the owner took everything down itself."""
    state = read_state(labdir)
    try:
        with Owner(labdir) as owner:
            owner.ask(protocol.Shutdown(), protocol.Done)
    except (LabStateError, OwnerFailedError):
        return False
    return state is not None and wait_gone(state.owner, END_TIMEOUT_S)
