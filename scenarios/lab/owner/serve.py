"""Runs the owner's loop: answers requests over a unix socket, one at a time, until it must end.

It knows sockets and lines; the caller's `handle` decides what a request does. No client waits for another: each
has one request served per turn, and an answer that is not ready yet comes later.
"""

import itertools
import selectors
import socket
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Protocol

import msgspec

from agent.io.daemon import listen_at
from scenarios.lab.owner.worker_requests import STEP_S
from scenarios.lab.protocol import Answer, Blame, Refusal, Request, Shutdown

_LONGEST_LINE = 1 << 20
"""Most bytes of a request; none is nearly as long (our choice)."""

_PATIENCE_S = 0.5
"""Time for a client to read its answer while `_ANSWER_BYTES` are on the way; after it the client is dropped (our
choice), so that it does not block others.
"""

_ANSWER_BYTES = 8 << 20
"""Bytes that the kernel keeps for a client that does not read (our choice): more than the longest answer."""

_SO_SNDBUFFORCE = 32
"""SO_SNDBUFFORCE of asm-generic/socket.h; root may exceed the machine's limit."""

LaterAnswer = Callable[[], Answer | None]
"""The answer once it is ready, checked every turn."""

Handle = Callable[[Request, int], Answer | LaterAnswer]
"""Answers a request of a client; each client has a number that is never used again."""

Left = Callable[[int, bool], None]
"""Handles a client that is gone; True: it did not get the answer to the last handled request, which was its own
and was answered at once.
"""


class Chore(Protocol):
    """Work to be done between requests when its time comes."""

    def due_in_s(self) -> float | None:
        """Return seconds until then; None when nothing is planned."""
        ...

    def run(self) -> None:
        """Do what is due."""
        ...


class _Client:
    def __init__(self, link: socket.socket, number: int) -> None:
        self.link = link
        self.number = number
        self.received = b""
        self.lines = deque[bytes]()
        """Requests that have not begun."""
        self.later: LaterAnswer | None = None
        """Returns the answer to the request that began and is not answered yet."""
        self.is_ending = False
        """Whether it requested the end of the lab."""
        self.is_gone = False
        self.is_unheard = False
        """Whether it is gone and did not get its last answer."""

    def take_in(self) -> None:
        """Receive what has come."""
        try:
            data = self.link.recv(1 << 16)
        except OSError:
            data = b""
        *lines, self.received = (self.received + data).split(b"\n")
        self.lines += filter(None, lines)
        self.is_gone = not data or len(self.received) > _LONGEST_LINE

    def send(self, answer: Answer) -> bool:
        """Send a line; return whether it was sent."""
        try:
            self.link.sendall(msgspec.json.encode(answer) + b"\n")
        except OSError:
            self.is_gone = True
            return False
        return True


class _Server:
    """The clients, and the answers they wait for."""

    def __init__(self, handle: Handle, left: Left | None) -> None:
        self._handle = handle
        self._left = left
        self._decoder = msgspec.json.Decoder(Request)
        self._numbers = itertools.count(1)
        self._clients: list[_Client] = []
        self.selector = selectors.DefaultSelector()

    def close(self) -> None:
        """Close the connections of all clients that are left."""
        for client in self._clients:
            client.link.close()
        self.selector.close()

    def accept(self, listener: socket.socket) -> None:
        """Accept a client."""
        link = listener.accept()[0]
        link.settimeout(_PATIENCE_S)
        with suppress(OSError):  # as when it is not root who serves
            link.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, _ANSWER_BYTES)
        self._clients.append(_Client(link, next(self._numbers)))
        self._watch(self._clients[-1])

    def due_in_s(self) -> float | None:
        """Return seconds until `turn` has something to do that no socket shows; None when there is nothing."""
        if any(client.lines and client.later is None for client in self._clients):
            return 0.0
        return STEP_S if any(client.later for client in self._clients) else None

    def turn(self) -> bool:
        """Serve one request of each client; return whether one requested the end of the lab."""
        for client in list(self._clients):
            self._attend(client)
            if client.is_ending:
                return True
            self._watch(client)
            if client.is_gone and (client.is_unheard or not (client.lines or client.later)):
                self._forget(client)
        return False

    def _watch(self, client: _Client) -> None:
        """Listen only to clients without an unserved request, so that none fills memory here."""
        wanted, is_watched = not (client.is_gone or client.lines), client.link in self.selector.get_map()
        if wanted and not is_watched:
            self.selector.register(client.link, selectors.EVENT_READ, client)
        if is_watched and not wanted:
            self.selector.unregister(client.link)

    def _attend(self, client: _Client) -> None:
        if client.later is not None:
            if (answer := client.later()) is not None:
                client.later = None
                client.send(answer)
        elif client.lines:
            self._serve(client, client.lines.popleft())

    def _serve(self, client: _Client, line: bytes) -> None:
        try:
            request = self._decoder.decode(line)
        except msgspec.DecodeError as error:
            client.send(Answer(refusal=Refusal(f"not a request: {error}", Blame.USAGE)))
            return
        answer = self._handle(request, client.number)
        if not isinstance(answer, Answer):
            client.later = answer
            return
        client.is_unheard = not client.send(answer)
        client.is_ending = isinstance(request, Shutdown)

    def _forget(self, client: _Client) -> None:
        client.link.close()
        self._clients.remove(client)
        if self._left is not None:
            self._left(client.number, client.is_unheard)


@contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
    """Return a socket that only root can use."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listen_at(path, listener, 16)
        yield listener


def serve(
    listener: socket.socket,
    handle: Handle,
    lease: socket.socket | None,
    chore: Chore | None = None,
    left: Left | None = None,
) -> None:
    """Serve until a `Shutdown` request, or until the other end of `lease` is gone."""
    with closing(_Server(handle, left)) as server:
        server.selector.register(listener, selectors.EVENT_READ)
        if lease is not None:
            server.selector.register(lease, selectors.EVENT_READ)
        while True:
            times = (server.due_in_s(), chore.due_in_s() if chore else None)
            events = server.selector.select(min((each for each in times if each is not None), default=None))
            if chore:
                chore.run()
            for key, _ in events:
                if key.fileobj is lease:
                    return
                if key.fileobj is listener:
                    server.accept(listener)
                else:
                    key.data.take_in()
            if server.turn():
                return
