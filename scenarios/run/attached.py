"""The lab that is up, for one run or test at a time: its owner, its workers, and nobody else's traffic meanwhile."""

from contextlib import ExitStack

from scenarios.lab import protocol
from scenarios.lab.client import Owner, Worker
from scenarios.lab.lab_dir import LabDir, busy
from scenarios.run.order import LabInUse
from testbed.model.fabric import Fabric, FabricSpec


def attached(labdir: LabDir, undo: ExitStack) -> LabInUse:
    """Connect to everything. Raises `LabStateError` when the lab is not up or busy, `WorkerFailedError`."""
    owner = undo.enter_context(Owner(labdir))
    undo.enter_context(busy(labdir))
    status = owner.ask(protocol.Status(), protocol.LabStatus)
    workers = [undo.enter_context(Worker(labdir.worker_socket(at))) for at in range(status.workers)]
    spec = FabricSpec(status.planes, status.leaves, status.spines, status.hosts_per_leaf, host_stack=status.host_stack)
    return LabInUse(Fabric.of(spec), owner, tuple(workers))
