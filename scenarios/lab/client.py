"""Sends requests to the processes of a lab over their unix sockets: the owner, and the engine workers.

One request at a time, one line each way; an error reply becomes an exception of the right type.
"""

import logging
import os
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from agent.host.control import requests as worker
from scenarios.errors import LabStateError, OwnerFailedError, ScenariosError, WorkerFailedError
from scenarios.lab.lab_dir import ChildState, LabDir, labs_up, owner_of, read_state
from scenarios.lab.processes import is_stopped, last_words, stays_stopped, stopped_text
from scenarios.lab.protocol import RUNNING, Answer, FaultEvent, FaultShow, LabStatus, Request, Shutdown, Status

ANSWER_TIMEOUT_S = 120.0
"""Longest time of a request on a slow machine; after it the other side is considered dead."""

PATIENCE_S = 5.0
"""Time after which the user sees what is awaited, and the caller may look for the cause; repeated."""


class LineSocket:
    """A connected unix socket that carries lines. Use in a `with`.

    A request that is broken off, by a signal or for want of an answer, leaves its answer on the way: the next one
    goes over a fresh connection, so that it cannot be given the wrong answer.
    """

    def __init__(self, path: Path, gone: Callable[[str], ScenariosError], patience_s: float | None = None) -> None:
        """Prepare a socket; `gone` turns what was seen at the socket into an error, and may look for the cause."""
        self._path = path
        self._gone = gone
        self._patience_s = patience_s or PATIENCE_S
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
        """Send one line and return its answer; `waiting` is called regularly meanwhile, and may raise."""
        return self.ask_all((line,), timeout_s, waiting)[0]

    def ask_all(
        self, lines: Sequence[bytes], timeout_s: float = ANSWER_TIMEOUT_S, waiting: Callable[[], None] | None = None
    ) -> list[bytes]:
        """Send lines at once and return their answers in order; each may take the full time."""
        if self._socket is None:
            raise self._gone("is not connected")
        try:
            if self._broken_off:
                self._connect_again()
            self._broken_off = True
            self._socket.settimeout(timeout_s)
            self._socket.sendall(b"".join(line + b"\n" for line in lines))
            answers = [self._answer(self._socket, timeout_s, waiting) for _ in lines]
            self._broken_off = False
        except TimeoutError as error:
            raise self._gone(f"did not answer for {timeout_s:.0f} s") from error
        except OSError as error:
            raise self._gone(f"is gone ({error.strerror})") from error
        return answers

    def _connect_again(self) -> None:
        self.__exit__()
        self._received = b""
        self.__enter__()

    def _answer(self, link: socket.socket, timeout_s: float, waiting: Callable[[], None] | None) -> bytes:
        until = time.monotonic() + timeout_s
        while b"\n" not in self._received:
            left_s = max(0.1, until - time.monotonic())
            link.settimeout(min(self._patience_s, left_s) if waiting else left_s)
            try:
                data = link.recv(1 << 16)
            except TimeoutError:
                if waiting is None or time.monotonic() >= until:
                    raise
                waiting()
                continue
            if not data:
                raise self._gone("ended without an answer")
            self._received += data
        answer, _, self._received = self._received.partition(b"\n")
        return answer


R = TypeVar("R")

_log = logging.getLogger("spraylab")

QUICK_TIMEOUT_S = 20.0
"""Timeout of requests that take no time themselves; the owner may still be busy with another client (our choice)."""

WORKER_PATIENCE_S = 1.0
"""Time for a worker's answer, which needs some turns of its engine, milliseconds each; each time it passes, check
whether the worker is stopped (our choice).
"""

WORKER_LOOK_S = 5.0
"""Timeout of a request for a worker's counters: a worker that has not answered by then hangs (our choice)."""

_ENDING_S = 1.0
"""Time after which a process that closed its connections is gone (our choice)."""

_QUICK = (Status, FaultShow, FaultEvent, Shutdown)


class Owner:
    """A connection to the owner of a lab that is up. Use in a `with`."""

    def __init__(self, labdir: LabDir) -> None:
        self._labdir = labdir
        self._line = LineSocket(labdir.socket, self._gone)
        self._has_warned = False

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
        """Return the owner's answer. Raises the error that it names."""
        timeout_s = QUICK_TIMEOUT_S if isinstance(request, _QUICK) else ANSWER_TIMEOUT_S
        self._has_warned = False
        line = self._line.ask(msgspec.json.encode(request), timeout_s, self._takes_long)
        answer = msgspec.json.decode(line, type=Answer)
        if answer.refusal is not None:
            raise answer.refusal.blame.error(answer.refusal.error)
        return msgspec.json.decode(answer.result, type=reply)

    def _gone(self, seen: str) -> OwnerFailedError:
        return OwnerFailedError(lab_end(self._labdir) or f"the owner of lab {self._labdir.lab!r} {seen}")

    def _takes_long(self) -> None:
        owner = owner_of(self._labdir)
        if owner is not None and is_stopped(owner):
            text = stopped_text(f"the owner of lab {self._labdir.lab!r}", owner)
            raise OwnerFailedError(f"{text}, `{self._labdir.down_command}` removes the lab")
        if not self._has_warned:
            _log.warning("the owner of lab %r has not answered for %.0f s; waiting", self._labdir.lab, PATIENCE_S)
        self._has_warned = True


def lab_end(labdir: LabDir) -> str:
    """State what happened to a lab whose owner has hung up; empty when it lives and is not ending."""
    if not labdir.path.exists():
        return f"lab {labdir.lab!r} was taken down meanwhile"
    if owner_of(labdir) is None:
        return (
            f"the owner of lab {labdir.lab!r} has died, killed or by an error, and all of the lab's processes with it"
            f"{_quoted(last_words(labdir.log('owner')))}"
        )
    if not labdir.socket.exists() or not _answers(labdir):
        return f"lab {labdir.lab!r} is being taken down, by `{labdir.down_command}` or a signal to its owner"
    return ""


def _quoted(words: str) -> str:
    """Return a process's last output: its log goes with the lab, perhaps before anybody could look."""
    return words and f"; its last output: {words}"


def _answers(labdir: LabDir) -> bool:
    """Return whether the owner accepts connections; it stops that first when it ends."""
    with suppress(LabStateError), Owner(labdir):
        return True
    return False


def not_up(labdir: LabDir) -> str:
    """State that a lab is not up, and which labs are."""
    others = [name for name in labs_up(labdir.root) if name != labdir.lab]
    if owner_of(labdir) is not None:
        if labdir.state.exists() and read_state(labdir) is None:
            return f"{labdir.state} cannot be read; `{labdir.down_command}` takes the lab down all the same"
        return f"lab {labdir.lab!r} is being built or taken down; try again in a moment"
    if labdir.path.exists():
        return f"lab {labdir.lab!r} has no living owner; `{labdir.down_command}` removes what is left of it"
    start = labdir.command("up")
    hint = f"start it with `{start}`"
    if others:
        hint = f"choose one that is up with --lab ({', '.join(others)}), or {hint}"
    return f"lab {labdir.lab!r} is not up; {hint}"


def _state_of(labdir: LabDir, child: str) -> str:
    """Return the state of a lab's process that hung up; its connections end a moment before it does."""
    until = time.monotonic() + _ENDING_S
    with Owner(labdir) as owner:
        while True:
            children = owner.ask(Status(), LabStatus).children
            state = next((each.state for each in children if each.name == child), RUNNING)
            if state != RUNNING or time.monotonic() > until:
                return state
            time.sleep(0.02)


def _child_of(labdir: LabDir, name: str) -> ChildState | None:
    """Find the process of a lab with this name in its files; None if it is not there."""
    state = read_state(labdir)
    return next((child for child in state.children if child.name == name), None) if state else None


class Worker:
    """A connection to one engine worker. Use in a `with`.

    One that is stopped, as by SIGSTOP, is not waited for: that is an error which names the process.
    """

    def __init__(self, path: Path, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        """Prepare a connection; the worker has `timeout_s` to answer."""
        self._path = path
        self._labdir = LabDir(path.parent.name, path.parent.parent)
        self._timeout_s = timeout_s
        self._line = LineSocket(path, self._gone, WORKER_PATIENCE_S)
        self._was_stopped = False

    def __enter__(self) -> "Worker":
        """Connect. Raises `WorkerFailedError`."""
        try:
            self._line.__enter__()
        except OSError as error:
            raise self._gone(f"is gone ({error.strerror})") from error
        return self

    def __exit__(self, *_: object) -> None:
        """Disconnect."""
        self._line.__exit__()

    def ask(self, request: worker.Request) -> dict[str, Any]:
        """Return the fields of the worker's reply. Raises `WorkerFailedError`."""
        return self.ask_all((request,))[0]

    def ask_all(self, requests: Sequence[worker.Request]) -> list[dict[str, Any]]:
        """Return the fields of the replies, in order; all requests are sent at once.

        Raises `WorkerFailedError` for the first that failed; those behind it are served all the same.
        """
        if self._was_stopped:
            self._require_going()
        lines = [msgspec.json.encode(request) for request in requests]
        answers = self._line.ask_all(lines, self._timeout_s, self._require_going)
        return [self._read(*pair) for pair in zip(requests, answers, strict=True)]

    def _read(self, request: worker.Request, answer: bytes) -> dict[str, Any]:
        reply: dict[str, Any] = msgspec.json.decode(answer)
        if not reply.pop("ok"):
            raise WorkerFailedError(f"{self._path.stem}: {type(request).__name__}: {reply['error']}")
        return reply

    def _require_going(self) -> None:
        """Check that its process is not stopped. Raises `WorkerFailedError`."""
        child = _child_of(self._labdir, self._path.stem)
        self._was_stopped = child is not None and stays_stopped(child.process)
        if child is not None and self._was_stopped:
            raise WorkerFailedError(stopped_text(child.name, child.process))

    def _gone(self, seen: str) -> WorkerFailedError:
        """Return the cause, as far as the owner knows it, instead of the broken connection's error."""
        labdir, name = self._labdir, self._path.stem
        try:
            self._require_going()
            state = _state_of(labdir, name)
        except WorkerFailedError as stopped:
            return stopped
        except ScenariosError:
            return WorkerFailedError(lab_end(labdir) or f"{name} {seen}, and the owner does not answer either")
        what = seen if state == RUNNING else f"was {state}" if state.startswith("killed") else state
        return WorkerFailedError(f"{name} {what}{_quoted(last_words(labdir.log(name)))}")
