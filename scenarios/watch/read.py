"""Reads a lab that is up, from outside: it asks the owner and engine workers, and reads detect.jsonl as it grows.

No request changes anything.
"""

import time
from contextlib import ExitStack
from typing import TypeVar

import msgspec

from agent.host.control import requests as ask
from results.files.event_log import Tail, timestamp
from scenarios.errors import LabStateError, OwnerFailedError, WorkerFailedError
from scenarios.lab.client import Owner, Worker, not_up
from scenarios.lab.lab_dir import LabDir, owner_of, run_going_on
from scenarios.lab.processes import worker_name
from scenarios.lab.protocol import LabStatus, Status
from scenarios.watch.snapshot import EvReading, QpReading, Reading

T = TypeVar("T")

_GOING_DOWN_S = 60.0
"""Time within which an owner that no longer answers has taken its lab down, or never will (our choice)."""

_REMOVED_WITHIN_S = 2.0
"""Time until the folder is removed after the owner released its lock (our choice, with room)."""


class LabReader:
    """Connections to a lab that is up. Use in a `with`; raises `LabStateError` when it is not."""

    def __init__(self, labdir: LabDir) -> None:
        self._labdir = labdir
        self._held = ExitStack()
        self._owner = Owner(labdir)
        self._workers: dict[str, Worker] = {}
        self._tail = Tail(labdir.detect, labdir.older_detect)

    def __enter__(self) -> "LabReader":
        """Connect to all processes that answer."""
        with ExitStack() as held:
            held.enter_context(self._owner)
            status = self._owner.ask(Status(), LabStatus)
            self.fabric = status.fabric()
            for index in range(status.workers):
                worker = Worker(self._labdir.worker_socket(index))
                try:
                    self._workers[worker_name(index)] = held.enter_context(worker)
                except WorkerFailedError:
                    continue  # every reading tells of it
            self._held = held.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Disconnect."""
        self._held.close()

    def read(self) -> Reading:
        """Return the lab's current state. Raises `LabStateError`, `OwnerFailedError` when there is no answer."""
        status = self._owner.ask(Status(), LabStatus)
        qps: list[QpReading] = []
        evs: list[EvReading] = []
        silent = [worker_name(index) for index in range(status.workers) if worker_name(index) not in self._workers]
        now_ns = time.monotonic_ns()
        for name, worker in self._workers.items():
            try:
                qps += _rows(worker.ask(ask.Progress())["qps"], QpReading)
                evs += _rows(worker.ask(ask.Counters())["evs"], EvReading)
            except WorkerFailedError:
                silent.append(name)
        return Reading(
            now_ns,
            timestamp(time.time_ns()),
            status,
            run_going_on(self._labdir),
            tuple(qps),
            tuple(evs),
            tuple(self._tail.fresh()),
            tuple(silent),
        )


def ended_in_order(labdir: LabDir) -> bool:
    """Wait while an owner that stopped answering takes its lab down; return whether it did; False when it still
    runs.

    Raises `LabStateError` when it died over it.
    """
    until = time.monotonic() + _GOING_DOWN_S
    while (alive := owner_of(labdir) is not None) and time.monotonic() < until:
        time.sleep(0.1)
    until = time.monotonic() + _REMOVED_WITHIN_S
    while not alive and labdir.path.exists() and time.monotonic() < until:
        time.sleep(0.1)
    if not alive and labdir.path.exists():
        raise LabStateError(not_up(labdir))
    return not alive


def _rows(rows: object, kind: type[T]) -> list[T]:
    return msgspec.convert(rows, list[kind])  # type: ignore[valid-type]


ANSWERS_NO_MORE = (LabStateError, OwnerFailedError)
"""Errors that `LabReader.read` raises while a lab goes down."""
