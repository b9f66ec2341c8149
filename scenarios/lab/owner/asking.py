"""Asks engine workers from the owner, all at once and without waiting for any: one may hang."""

import os
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from agent.host.control.requests import Request
from scenarios.errors import WorkerFailedError
from scenarios.lab.lab_dir import LabDir
from scenarios.lab.owner.pending import Pending, Steps
from scenarios.lab.processes import stopped_text
from scenarios.lab.protocol import RUNNING, STOPPED, ChildStatus

WORKERS_WITHIN_S = 4.0
"""All workers together answer within this, or the request fails (our choice): who asked hears which one hangs before a
client would call the owner slow (`PATIENCE_S`)."""

ENDING_S = 1.0
"""Within this a process that has closed its connections is gone, and how it ended is known (our choice)."""

StatusOf = Callable[[str], ChildStatus]
"""Shows by name how a process of the lab is."""


class Exchange:
    """One request to a worker and its reply, over a connection of its own that never blocks. Use in a `with`."""

    def __init__(self, path: Path, line: bytes) -> None:
        self._path = path
        self._unsent = line
        self._received = b""
        self._connected = False
        self._link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)

    def __enter__(self) -> "Exchange":
        """Nothing is sent yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """Disconnect."""
        self._link.close()

    def reply(self) -> bytes | None:
        """The line that answers; None while it has not come. Raises OSError when the other side is gone."""
        with suppress(BlockingIOError):  # also from `connect`, when many wait there already
            if not self._connected:
                self._link.connect(os.fspath(self._path))
                self._connected = True
            while self._unsent:
                self._unsent = self._unsent[self._link.send(self._unsent) :]
            while b"\n" not in self._received:
                data = self._link.recv(1 << 16)
                if not data:
                    raise ConnectionResetError("it hung up")
                self._received += data
            return self._received.partition(b"\n")[0]
        return None


def require_running(worker: ChildStatus) -> None:
    """Raises `WorkerFailedError` for one that is stopped or has ended."""
    if worker.state == STOPPED:
        raise WorkerFailedError(stopped_text(worker.name, worker.process))
    if worker.state != RUNNING:
        raise WorkerFailedError(f"{worker.name} has ended: {worker.state}")


def replies_of(
    labdir: LabDir, indexes: Iterable[int], request: Request, status_of: StatusOf
) -> Steps[list[dict[str, Any]]]:
    """Ask these workers at once; the fields of their replies, in order.

    Raises `WorkerFailedError` as soon as one is stopped, has ended, refuses or has not answered in time.
    """
    until = time.monotonic() + WORKERS_WITHIN_S
    works = [Pending(_reply(labdir.worker_socket(index), request, status_of, until)) for index in indexes]
    while waiting := [work for work in works if not (work.is_over or work.step())]:
        for work in works:
            if work not in waiting:
                work.result()
        yield
    return [work.result() for work in works]


def _reply(path: Path, request: Request, status_of: StatusOf, until: float) -> Steps[dict[str, Any]]:
    name, why = path.stem, f"has not answered for {WORKERS_WITHIN_S:.0f} s; it runs, but may hang"
    with Exchange(path, msgspec.json.encode(request) + b"\n") as exchange:
        while True:
            try:
                if (line := exchange.reply()) is not None:
                    return _fields(name, request, line)
            except OSError as error:
                why, until = f"does not answer: {error.strerror or error}", min(until, time.monotonic() + ENDING_S)
                break
            yield from _waited(status_of(name), why, until)
    while True:
        yield from _waited(status_of(name), why, until)


def _waited(worker: ChildStatus, why: str, until: float) -> Steps[None]:
    """One wait. Raises `WorkerFailedError` when there is nothing to wait for any longer."""
    require_running(worker)
    if time.monotonic() > until:
        raise WorkerFailedError(f"{worker.name} (process {worker.process.pid}) {why}")
    yield


def _fields(name: str, request: Request, line: bytes) -> dict[str, Any]:
    reply: dict[str, Any] = msgspec.json.decode(line)
    if not reply.pop("ok"):
        raise WorkerFailedError(f"{name}: {type(request).__name__}: {reply['error']}")
    return reply
