"""Defines the request of a run, its listener, and the lab it uses; connects to a lab that is up."""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from results.records.source_hash import SourceCode
from scenarios.errors import LabStateError
from scenarios.file.model import Scenario
from scenarios.lab import protocol
from scenarios.lab.client import Owner, Worker
from scenarios.lab.lab_dir import LabDir, busy
from testbed.model.fabric import Fabric


@dataclass(frozen=True)
class RunRequest:
    """Request of a user for a run."""

    scenario: Scenario
    labdir: LabDir
    attach: bool
    """Use the lab that is up instead of building one."""
    runs: Path
    """Parent of run folders."""
    command: tuple[str, ...]
    workers: int | Literal["per-host"] | None = None
    mechanism: str = "auto"


class Listener(Protocol):
    """Receiver of a run's messages."""

    def stage(self, name: str) -> None:
        """Show that a stage begins."""

    def note(self, text: str) -> None:
        """Show a message."""

    def waiting(self, text: str) -> None:
        """Show what the run waits for; called often."""

    def progress(self, done_bytes: int, all_bytes: int, resent: int) -> None:
        """Show how far traffic is."""


@dataclass(frozen=True)
class LabInUse:
    """The lab that a run or test uses."""

    fabric: Fabric
    owner: Owner
    workers: tuple[Worker, ...]
    code: SourceCode | None = None
    """The copy of the program that the lab runs."""
    scapy_hosts: tuple[int, ...] = ()
    """Hosts whose packets Scapy builds and reads."""


def attached(labdir: LabDir, undo: ExitStack) -> LabInUse:
    """Connect to a lab that is up, and reserve it for one run or test.

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
    return LabInUse(status.fabric(), owner, tuple(workers), status.code, status.scapy_hosts)


def idle_processes(status: protocol.LabStatus) -> str:
    """Name the lab's processes that have ended, and how, or are stopped; empty when all run."""
    return " and ".join(_idle_text(child) for child in status.children if child.state != protocol.RUNNING)


def _idle_text(child: protocol.ChildStatus) -> str:
    if child.state == protocol.STOPPED:
        return f"{child.name} (process {child.process.pid}) is stopped (`kill -CONT {child.process.pid}` wakes it)"
    return f"{child.name} {'was ' if child.state.startswith('killed') else ''}{child.state}"
