"""Sends requests of the owner to engine workers at once, in steps between other requests, since a worker may hang."""

import os
import socket
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from agent.host.control.requests import Request
from scenarios.errors import WorkerFailedError
from scenarios.lab.lab_dir import LabDir
from scenarios.lab.processes import stopped_text
from scenarios.lab.protocol import RUNNING, STOPPED, ChildStatus

R = TypeVar("R")

Steps = Generator[None, None, R]
"""Work that yields whenever it must wait, and returns its result."""

STEP_S = 0.005
"""Time between two steps of waiting work (our choice): a worker's turn takes milliseconds."""


class Pending(Generic[R]):
    """Work that may not be finished yet."""

    def __init__(self, steps: Steps[R]) -> None:
        self._steps = steps
        self._error: Exception | None = None
        self._result: R | None = None
        self.is_over = False

    def step(self) -> bool:
        """Continue as far as possible without waiting; return whether it is finished."""
        try:
            next(self._steps)
        except StopIteration as end:
            self._result, self.is_over = end.value, True
        except Exception as error:  # for who asked, in `result`
            self._error, self.is_over = error, True
        return self.is_over

    def result(self) -> R:
        """Return the result; only when the work is finished. Raises what the work raised."""
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]  # the generator has returned it


class Works:
    """Work done one after another, in the order in which it was added."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Pending[Any], bool]] = deque()

    def __len__(self) -> int:
        """Return how much is left, including what runs now."""
        return len(self._waiting)

    def aside(self, steps: Steps[R]) -> Steps[R | None]:
        """Run inner work, given up with None as soon as other work waits."""
        work = Pending(steps)
        while not work.step():
            if len(self) > 1:
                return None
            yield
        return work.result()

    def ask(self, steps: Steps[R]) -> Pending[R]:
        """Add work for a caller who takes its result, or its error."""
        return self._add(steps, True)

    def add(self, steps: Steps[None]) -> None:
        """Add work without a waiting caller; `run` raises its error."""
        self._add(steps, False)

    def run(self) -> None:
        """Continue as far as possible without waiting."""
        while self._waiting and self._waiting[0][0].step():
            done, is_asked_for = self._waiting.popleft()
            if not is_asked_for:
                done.result()

    def _add(self, steps: Steps[R], is_asked_for: bool) -> Pending[R]:
        work = Pending(steps)
        self._waiting.append((work, is_asked_for))
        return work


class Later(NamedTuple):
    """A result that is made of pending work."""

    work: Pending[Any]
    of: Callable[[Any], Any]
    """Make it of the work's result."""

    def result(self) -> Any:
        """Return the result; only when the work is finished. Raises what the work raised."""
        return self.of(self.work.result())


WORKERS_WITHIN_S = 4.0
"""Timeout of a request to all workers (our choice): it is shorter than a client's `PATIENCE_S`, so that the client
learns which worker hangs.
"""

ENDING_S = 1.0
"""Time after which a process that closed its connections is gone, and its end is known (our choice)."""

StatusOf = Callable[[str], ChildStatus]
"""Returns the state of a lab's process by name."""


class Exchange:
    """One request to a worker and its reply, over its own connection that never blocks. Use in a `with`."""

    def __init__(self, path: Path, line: bytes) -> None:
        self._path = path
        self._unsent = line
        self._received = b""
        self._connected = False
        self._link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)

    def __enter__(self) -> "Exchange":
        """Prepare a request; nothing is sent yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """Disconnect."""
        self._link.close()

    def reply(self) -> bytes | None:
        """Return the answer; None while it has not come. Raises OSError when the other side is gone."""
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
    """Check that the worker runs. Raises `WorkerFailedError` for one that is stopped or has ended."""
    if worker.state == STOPPED:
        raise WorkerFailedError(stopped_text(worker.name, worker.process))
    if worker.state != RUNNING:
        raise WorkerFailedError(f"{worker.name} has ended: {worker.state}")


def replies_of(
    labdir: LabDir, indexes: Iterable[int], request: Request, status_of: StatusOf
) -> Steps[list[dict[str, Any]]]:
    """Send requests to these workers at once; return the fields of their replies, in order.

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
    """Wait once. Raises `WorkerFailedError` when there is nothing left to wait for."""
    require_running(worker)
    if time.monotonic() > until:
        raise WorkerFailedError(f"{worker.name} (process {worker.process.pid}) {why}")
    yield


def _fields(name: str, request: Request, line: bytes) -> dict[str, Any]:
    reply: dict[str, Any] = msgspec.json.decode(line)
    if not reply.pop("ok"):
        raise WorkerFailedError(f"{name}: {type(request).__name__}: {reply['error']}")
    return reply
