"""Provides a unix socket that carries lines, each answered by one. It does not know who answers, or why nobody does."""

import os
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from scenarios.errors import ScenariosError

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
