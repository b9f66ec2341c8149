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
    if idle := idle_processes(status):
        raise LabStateError(
            f"lab {labdir.lab!r} is not whole before this run: {idle}; `{labdir.down_command}` and up again"
        )
    workers = [undo.enter_context(Worker(labdir.worker_socket(at))) for at in range(status.workers)]
    return LabInUse(status.fabric(), owner, tuple(workers), status.code)


def idle_processes(status: protocol.LabStatus) -> str:
    """The lab's processes that have ended, and how, or are stopped; empty when all run."""
    return " and ".join(_idle_text(child) for child in status.children if child.state != protocol.RUNNING)


def _idle_text(child: protocol.ChildStatus) -> str:
    if child.state == protocol.STOPPED:
        return f"{child.name} (process {child.process.pid}) is stopped (`kill -CONT {child.process.pid}` wakes it)"
    return f"{child.name} {'was ' if child.state.startswith('killed') else ''}{child.state}"
