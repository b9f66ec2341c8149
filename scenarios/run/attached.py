"""The lab that is up, for one run or test at a time: its owner, its workers, and nobody else's traffic meanwhile."""

from contextlib import ExitStack

from scenarios.errors import LabStateError
from scenarios.lab import protocol
from scenarios.lab.client import Owner, Worker
from scenarios.lab.lab_dir import LabDir, busy
from scenarios.run.order import LabInUse


def attached(labdir: LabDir, undo: ExitStack) -> LabInUse:
    """Connect to everything.

    Raises `LabStateError` when the lab is not up, busy, or not whole, `WorkerFailedError`.
    """
    owner = undo.enter_context(Owner(labdir))
    undo.enter_context(busy(labdir))
    status = owner.ask(protocol.Status(), protocol.LabStatus)
    if dead := ended_processes(status):
        raise LabStateError(
            f"lab {labdir.lab!r} is not whole: {dead} before this run; `{labdir.down_command}` and up again"
        )
    workers = [undo.enter_context(Worker(labdir.worker_socket(at))) for at in range(status.workers)]
    return LabInUse(status.fabric(), owner, tuple(workers), status.code)


def ended_processes(status: protocol.LabStatus) -> str:
    """The lab's processes that have ended, and how; empty when all run."""
    ended = {child.name: child.state for child in status.children if child.state != protocol.RUNNING}
    return " and ".join(f"{name} {'was ' if how.startswith('killed') else ''}{how}" for name, how in ended.items())
