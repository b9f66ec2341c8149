"""Speaks to the processes of a lab over their unix sockets: the owner, and the engine workers.

One request at a time, one line each way; an error reply becomes an exception of the right kind.
"""

import logging
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from agent.host import requests as worker
from scenarios.errors import LabStateError, OwnerFailedError, ScenariosError, WorkerFailedError
from scenarios.lab.lab_dir import LabDir, labs_up, owner_of, read_state
from scenarios.lab.processes import is_stopped
from scenarios.lab.protocol import Answer, FaultEvent, FaultShow, Request, Shutdown, Status

R = TypeVar("R")

_log = logging.getLogger("spraylab")

ANSWER_TIMEOUT_S = 120.0
"""Longer than anything that is asked takes on a slow machine; the other side died silently if this passes."""

QUICK_TIMEOUT_S = 20.0
"""For requests that take no time themselves; the owner may still be busy with somebody else's (our choice)."""

PATIENCE_S = 5.0
"""After this the user hears what is waited for, and a process that is stopped is not waited for any longer."""

_QUICK = (Status, FaultShow, FaultEvent, Shutdown)


def _dead(path: Path, what: str) -> str:
    """Says of the process that answers at `path`, in its lab's folder, what became of it, and how to go on."""
    labdir = LabDir(path.parent.name, path.parent.parent)
    then = f"see {path.with_suffix('.log')}, then `{labdir.down_command}` and up again"
    return f"{path.stem} {what}; if lab {labdir.lab!r} is still up, {then}"


class LineSocket:
    """A connected unix socket that carries lines. Use in a `with`.

    A request that is broken off, by a signal or for want of an answer, leaves its answer on the way: the next one
    goes over a fresh connection, so that it cannot be given the wrong answer.
    """

    def __init__(self, path: Path, gone: type[ScenariosError]) -> None:
        self._path = path
        self._gone = gone
        self._socket: socket.socket | None = None
        self._received = b""
        self._broken_off = False

    def __enter__(self) -> "LineSocket":
        """Connect. Raises OSError."""
        link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            link.settimeout(ANSWER_TIMEOUT_S)
            link.connect(os.fspath(self._path))
        except OSError:
            link.close()
            raise
        self._socket = link
        return self

    def __exit__(self, *_: object) -> None:
        """Disconnect."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def ask(self, line: bytes, timeout_s: float = ANSWER_TIMEOUT_S, waiting: Callable[[], None] | None = None) -> bytes:
        """Send one line, return the line that answers it; `waiting` is called when it takes long, and may raise."""
        if self._socket is None:
            raise self._gone(f"{self._path.name} is not connected")
        try:
            if self._broken_off:
                self._connect_again()
            self._broken_off = True
            answer = self._exchange(self._socket, line, timeout_s, waiting)
            self._broken_off = False
        except TimeoutError as error:
            raise self._gone(f"{self._path.stem} did not answer for {timeout_s:.0f} s") from error
        except OSError as error:
            raise self._gone(_dead(self._path, f"is gone: {error.strerror}")) from error
        return answer

    def _connect_again(self) -> None:
        self.__exit__()
        self._received = b""
        self.__enter__()

    def _exchange(
        self, link: socket.socket, line: bytes, timeout_s: float, waiting: Callable[[], None] | None
    ) -> bytes:
        until = time.monotonic() + timeout_s
        link.settimeout(min(PATIENCE_S, timeout_s) if waiting else timeout_s)
        link.sendall(line + b"\n")
        while b"\n" not in self._received:
            try:
                data = link.recv(1 << 16)
            except TimeoutError:
                if waiting is None or time.monotonic() >= until:
                    raise
                waiting()
                waiting = None
                link.settimeout(max(0.1, until - time.monotonic()))
                continue
            if not data:
                raise self._gone(_dead(self._path, "ended without an answer"))
            self._received += data
        answer, _, self._received = self._received.partition(b"\n")
        return answer


class Owner:
    """The owner of a lab that is up. Use in a `with`."""

    def __init__(self, labdir: LabDir) -> None:
        self._labdir = labdir
        self._line = LineSocket(labdir.socket, OwnerFailedError)

    def __enter__(self) -> "Owner":
        """Connect. Raises `LabStateError` when the lab is not up."""
        try:
            self._line.__enter__()
        except OSError as error:
            raise LabStateError(not_up(self._labdir)) from error
        return self

    def __exit__(self, *_: object) -> None:
        """Disconnect."""
        self._line.__exit__()

    def ask(self, request: Request, reply: type[R]) -> R:
        """What the owner answers. Raises the error that it names."""
        timeout_s = QUICK_TIMEOUT_S if isinstance(request, _QUICK) else ANSWER_TIMEOUT_S
        line = self._line.ask(msgspec.json.encode(request), timeout_s, self._takes_long)
        answer = msgspec.json.decode(line, type=Answer)
        if answer.refusal is not None:
            raise answer.refusal.blame.error(answer.refusal.error)
        return msgspec.json.decode(answer.result, type=reply)

    def _takes_long(self) -> None:
        owner = owner_of(self._labdir)
        if owner is not None and is_stopped(owner):
            raise OwnerFailedError(
                f"the owner of lab {self._labdir.lab!r} (process {owner.pid}) is stopped and does not answer; "
                f"`kill -CONT {owner.pid}` wakes it, `{self._labdir.down_command}` removes the lab"
            )
        _log.warning("the owner of lab %r has not answered for %.0f s; waiting", self._labdir.lab, PATIENCE_S)


def not_up(labdir: LabDir) -> str:
    """Says that a lab is not up, and what is."""
    others = [name for name in labs_up(labdir.root) if name != labdir.lab]
    if owner_of(labdir) is not None:
        if labdir.state.exists() and read_state(labdir) is None:
            return f"{labdir.state} cannot be read; `{labdir.down_command}` takes the lab down all the same"
        return f"lab {labdir.lab!r} is being built or taken down; try again in a moment"
    if labdir.path.exists():
        return f"lab {labdir.lab!r} has no living owner; `{labdir.down_command}` removes what is left of it"
    start = labdir.command("up")
    hint = f"; up: {', '.join(others)} (choose with --lab)" if others else f"; start it with `{start}`"
    return f"lab {labdir.lab!r} is not up{hint}"


class Worker:
    """One engine worker. Use in a `with`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._line = LineSocket(path, WorkerFailedError)

    def __enter__(self) -> "Worker":
        """Connect. Raises `WorkerFailedError`."""
        try:
            self._line.__enter__()
        except OSError as error:
            raise WorkerFailedError(_dead(self._path, f"is gone: {error.strerror}")) from error
        return self

    def __exit__(self, *_: object) -> None:
        """Disconnect."""
        self._line.__exit__()

    def ask(self, request: worker.Request) -> dict[str, Any]:
        """The fields of the worker's reply. Raises `WorkerFailedError`."""
        reply: dict[str, Any] = msgspec.json.decode(self._line.ask(msgspec.json.encode(request)))
        if not reply.pop("ok"):
            raise WorkerFailedError(f"{self._path.stem}: {type(request).__name__}: {reply['error']}")
        return reply
