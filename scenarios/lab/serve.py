"""The owner's loop: answers requests over a unix socket, one at a time, until it is told to end.

Knows sockets and lines; what a request does is decided by who passes `handle`.
"""

import itertools
import os
import selectors
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from enum import Enum
from pathlib import Path
from typing import Protocol

import msgspec

from scenarios.lab.protocol import Answer, Blame, Refusal, Request, Shutdown

_LONGEST_LINE = 1 << 20
"""No request is nearly as long (our choice)."""

_PATIENCE_S = 5.0
"""A client that does not take its answer for so long is left (our choice): it must not stop everybody else."""

Handle = Callable[[Request, int], Answer]
"""Answers a request of a client; clients are told apart by a number, which is never used again."""

Left = Callable[[int, bool], None]
"""Hears that a client is gone; True: it did not hear the answer to the last request that was handled, which was its."""


class Chore(Protocol):
    """What is to be done between requests when its time comes."""

    def due_in_s(self) -> float | None:
        """Seconds until then; None when nothing is planned."""
        ...

    def run(self) -> None:
        """Do what is due."""
        ...


class _Attended(Enum):
    """What became of a client."""

    WAITS = "it may ask again"
    GONE = "it has left"
    UNHEARD = "it has left before its answer"
    ENDS = "it asked for the end of the lab"


class _Client:
    def __init__(self, link: socket.socket, number: int) -> None:
        self.link = link
        self.number = number
        self.received = b""

    def lines(self) -> list[bytes] | None:
        """Whole lines that have come; None when the other side is gone."""
        try:
            data = self.link.recv(1 << 16)
        except OSError:
            return None
        self.received += data
        if not data or len(self.received) > _LONGEST_LINE:
            return None
        *lines, self.received = self.received.split(b"\n")
        return lines


@contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
    """A socket at which root, and nobody else, can ask."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(os.fspath(path))
        path.chmod(0o600)
        listener.listen(16)
        yield listener


def serve(
    listener: socket.socket,
    handle: Handle,
    lease: socket.socket | None,
    chore: Chore | None = None,
    left: Left | None = None,
) -> None:
    """Serve until a `Shutdown` request, or until the other end of `lease` is gone."""
    decoder, numbers = msgspec.json.Decoder(Request), itertools.count(1)
    with ExitStack() as held:
        selector = held.enter_context(selectors.DefaultSelector())
        held.callback(_hang_up, selector)
        selector.register(listener, selectors.EVENT_READ)
        if lease is not None:
            selector.register(lease, selectors.EVENT_READ)
        while True:
            events = selector.select(chore.due_in_s() if chore else None)
            if chore:
                chore.run()
            for key, _ in events:
                if key.fileobj is lease:
                    return
                if key.fileobj is listener:
                    link = listener.accept()[0]
                    link.settimeout(_PATIENCE_S)
                    selector.register(link, selectors.EVENT_READ, _Client(link, next(numbers)))
                    continue
                match _attend(key.data, decoder, handle):
                    case _Attended.ENDS:
                        return
                    case _Attended.GONE | _Attended.UNHEARD as how:
                        selector.unregister(key.fileobj)
                        key.data.link.close()
                        if left is not None:
                            left(key.data.number, how is _Attended.UNHEARD)


def _hang_up(selector: selectors.BaseSelector) -> None:
    """Close the connections of all clients that are left."""
    for key in selector.get_map().values():
        if isinstance(key.data, _Client):
            key.data.link.close()


def _attend(client: _Client, decoder: msgspec.json.Decoder[Request], handle: Handle) -> _Attended:
    """Answer one client's lines."""
    lines = client.lines()
    for line in filter(None, lines or ()):
        reply, ends = _answered(decoder, line, handle, client.number)
        try:
            client.link.sendall(reply + b"\n")
        except OSError:
            return _Attended.ENDS if ends else _Attended.UNHEARD
        if ends:
            return _Attended.ENDS
    return _Attended.GONE if lines is None else _Attended.WAITS


def _answered(decoder: msgspec.json.Decoder[Request], line: bytes, handle: Handle, client: int) -> tuple[bytes, bool]:
    try:
        request = decoder.decode(line)
    except msgspec.DecodeError as error:
        return msgspec.json.encode(Answer(refusal=Refusal(f"not a request: {error}", Blame.USAGE))), False
    return msgspec.json.encode(handle(request, client)), isinstance(request, Shutdown)
