"""Speaks to the processes of a lab over their unix sockets: the owner, and the engine workers.

One request at a time, one line each way; an error reply becomes an exception of the right kind.
"""

import os
import socket
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from agent.host import requests as worker
from scenarios.errors import LabStateError, OwnerFailedError, ScenariosError, WorkerFailedError
from scenarios.lab_dir import LabDir, labs_up
from scenarios.protocol import Answer, Request

R = TypeVar("R")

ANSWER_TIMEOUT_S = 120.0
"""Longer than anything that is asked takes on a slow machine; the other side died silently if this passes."""


class LineSocket:
    """A connected unix socket that carries lines. Use in a `with`."""

    def __init__(self, path: Path, gone: type[ScenariosError]) -> None:
        self._path = path
        self._gone = gone
        self._socket: socket.socket | None = None
        self._received = b""

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

    def ask(self, line: bytes) -> bytes:
        """Send one line, return the line that answers it."""
        if self._socket is None:
            raise self._gone(f"{self._path.name} is not connected")
        try:
            self._socket.sendall(line + b"\n")
            while b"\n" not in self._received:
                data = self._socket.recv(1 << 16)
                if not data:
                    raise self._gone(f"{self._path.stem} ended without an answer; see its log in {self._path.parent}")
                self._received += data
        except TimeoutError as error:
            raise self._gone(f"{self._path.stem} did not answer for {ANSWER_TIMEOUT_S:.0f} s") from error
        except OSError as error:
            raise self._gone(f"{self._path.stem} is gone: {error.strerror}") from error
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
        answer = msgspec.json.decode(self._line.ask(msgspec.json.encode(request)), type=Answer)
        if answer.refusal is not None:
            raise answer.refusal.blame.error(answer.refusal.error)
        return msgspec.json.decode(answer.result, type=reply)


def not_up(labdir: LabDir) -> str:
    """Says that a lab is not up, and what is."""
    others = [name for name in labs_up(labdir.root) if name != labdir.lab]
    if labdir.path.exists():
        return f"lab {labdir.lab!r} has no living owner; `spraylab down --lab {labdir.lab}` removes what is left of it"
    hint = f"; up: {', '.join(others)} (choose with --lab)" if others else "; start it with `spraylab up`"
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
            raise WorkerFailedError(f"{self._path.stem} is gone: {error.strerror}") from error
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
