"""Runs MRC agents alone, for a network that a program has built itself: engine workers without an owner."""

import os
from contextlib import ExitStack

from scenarios.lab.client import Worker
from scenarios.lab.lab_dir import UMASK, LabDir, owned
from scenarios.lab.start import deploy
from scenarios.lab.start.children import Children
from testbed.model.fabric import Fabric

SEED = 1
"""Settings of a lab without a scenario; queue pairs have their own seeds."""


def started_agents(labdir: LabDir, fabric: Fabric, undo: ExitStack) -> tuple[Worker, ...]:
    """Start an engine worker per core for the hosts of a fabric that is up, and connect to them; `undo` ends them.

    The lab's folder is held meanwhile, so `down` finds all when this program was killed. Raises `LabStateError` when a
    lab of this name is up, `OwnerFailedError` with a worker's last words when it does not get ready.
    """
    before = os.umask(UMASK)
    try:
        return _started(labdir, fabric, undo)
    finally:
        os.umask(before)


def _started(labdir: LabDir, fabric: Fabric, undo: ExitStack) -> tuple[Worker, ...]:
    undo.enter_context(owned(labdir))
    children = Children(labdir)
    undo.callback(children.end)
    cpus = sorted(os.sched_getaffinity(0))
    count = deploy.worker_count(None, fabric.host_count, len(cpus))
    for index, told in enumerate(deploy.worker_settings(fabric, labdir, count, cpus, SEED)):
        children.start(deploy.worker_name(index), deploy.WORKER_MODULE, told)
    for index in range(count):
        children.wait_until(deploy.worker_name(index), labdir.worker_socket(index).exists)
    return tuple(undo.enter_context(Worker(labdir.worker_socket(index))) for index in range(count))
