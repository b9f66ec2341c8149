"""Starts, watches and ends the long-lived processes of a lab: engine workers and SprayCheck.

One thread of one owner uses it; the end of each child is kept. `started_agents` starts engine workers without an
owner, for a network that a program has built itself.
"""

import os
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import msgspec

from results.files.user_files import naming
from scenarios.errors import OwnerFailedError
from scenarios.isolated import isolated_command
from scenarios.lab.client import Worker
from scenarios.lab.lab_dir import UMASK, ChildState, LabDir, owned
from scenarios.lab.processes import (
    ProcessId,
    ask_to_end,
    end_text,
    identify,
    last_words,
    spawn,
    stays_stopped,
    worker_count,
    worker_name,
)
from scenarios.lab.protocol import RUNNING, STOPPED, ChildStatus
from scenarios.lab.start import deploy
from scenarios.lab.start.capacity import full_disk_text
from testbed.kernel.netns import command_inside
from testbed.model.fabric import Fabric
from testbed.model.node_names import NodeId, namespace_name

START_TIMEOUT_S = 60.0
"""Start timeout: importing numpy and scipy on a slow, emulated machine takes several seconds."""

END_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class _Child:
    name: str
    process: subprocess.Popen[bytes]
    id: ProcessId
    node: str

    def state_text(self) -> str:
        """Return `running`, `stopped` (by SIGSTOP or a debugger), `exited 1` or `killed by SIGKILL`."""
        code = self.process.poll()
        if code is not None:
            return end_text(code)
        return STOPPED if stays_stopped(self.id) else RUNNING


class Children:
    """All long-lived processes of a lab."""

    def __init__(self, labdir: LabDir) -> None:
        self._labdir = labdir
        self._children: list[_Child] = []

    def start(self, name: str, module: str, settings: msgspec.Struct, node: NodeId | None = None) -> None:
        """Start `module SETTINGS`, isolated, with its settings and its log in the lab's folder.

        In the network namespace of `node` from its first instruction on, if there is one.
        """
        file = self._labdir.settings(name)
        with naming(file):
            file.write_bytes(msgspec.json.format(msgspec.json.encode(settings)) + b"\n")
        command = isolated_command(module, str(file))
        if node is not None:
            command = tuple(command_inside(namespace_name(self._labdir.lab, node), command))
        process = spawn(command, self._labdir.lab, self._labdir.log(name))
        identity = identify(process.pid) or ProcessId(process.pid, 0)
        self._children.append(_Child(name, process, identity, "" if node is None else str(node)))

    def wait_until(self, name: str, ready: Callable[[], bool]) -> None:
        """Wait until a child is ready. Raises `OwnerFailedError` with its last output when it ends."""
        child = self._named(name)
        until = time.monotonic() + START_TIMEOUT_S
        while not ready():
            if child.process.poll() is not None:
                raise OwnerFailedError(f"{name} {child.state_text()}: {_last_line(self._labdir.log(name))}")
            if time.monotonic() > until:
                how = f"is {STOPPED}, and so" if child.state_text() == STOPPED else "is"
                raise OwnerFailedError(f"{name} {how} not ready after {START_TIMEOUT_S:.0f} s")
            time.sleep(0.01)

    def end(self, names: tuple[str, ...] | None = None) -> None:
        """End children, all by default: SIGTERM, wait, SIGKILL. Calling it twice is safe."""
        ending = [child for child in self._children if names is None or child.name in names]
        for child in ending:
            if child.process.poll() is None:
                ask_to_end(child.process)
        until = time.monotonic() + END_TIMEOUT_S
        for child in ending:
            try:
                child.process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.process.kill()
                child.process.wait()
        self._children = [child for child in self._children if child not in ending]

    def statuses(self) -> tuple[ChildStatus, ...]:
        """Return the state of every child."""
        return tuple(self.status(child.name) for child in self._children)

    def status(self, name: str) -> ChildStatus:
        """Return the state of one child."""
        child = self._named(name)
        return ChildStatus(child.name, child.id, child.state_text(), child.node)

    def states(self) -> tuple[ChildState, ...]:
        """Return the children's processes, for `down`."""
        return tuple(ChildState(child.name, child.id) for child in self._children)

    def _named(self, name: str) -> _Child:
        return next(child for child in self._children if child.name == name)


def _last_line(log: Path) -> str:
    return last_words(log) or full_disk_text(log.parent) or "without output"


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
    count = worker_count(None, fabric.host_count, len(cpus))
    for index, settings in enumerate(deploy.worker_settings(fabric, labdir, count, cpus, SEED)):
        children.start(worker_name(index), deploy.WORKER_MODULE, settings)
    for index in range(count):
        children.wait_until(worker_name(index), labdir.worker_socket(index).exists)
    return tuple(undo.enter_context(Worker(labdir.worker_socket(index))) for index in range(count))
