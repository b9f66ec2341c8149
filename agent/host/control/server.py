"""Control socket of a worker, and leases: requests as JSON Lines over a unix socket, one reply per request, in order.

Transports and checks messages; `Commands` in commands.py executes requests. Never blocks the drive loop. Resources that
a connection made and leased are destroyed when it ends, so no traffic continues for a client that was killed.
"""

import contextlib
import itertools
import os
import select
import socket
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from agent.core.errors import CoreError
from agent.host.control.profile_requests import CreateProfile, DestroyProfile
from agent.host.control.program_requests import CreateCq, DestroyRank
from agent.host.control.requests import CreateQp, Destroy, QpName, RegionName, RegisterRegion, Request, ShareRegion
from agent.host.errors import RequestError
from agent.io.daemon import listen_at
from agent.wire.usid import WireError

_RECEIVE_BYTES = 1 << 16
_LONGEST_REQUEST_BYTES = 1 << 24  # our limit; a client that sends more without a newline is not ours

Reply = dict[str, Any]
Serve = Callable[[Request, int], Reply]
"""Executes a client's request; a number identifies the client and is never used again."""

Left = Callable[[int], None]
"""Called when a client has disconnected."""


class _Client:
    def __init__(self, connection: socket.socket, number: int) -> None:
        self.connection = connection
        self.number = number
        self.received = bytearray()
        self.to_send = bytearray()


class ControlServer:
    """Listens on a unix socket path and serves its clients when polled. Use in a `with`."""

    def __init__(self, path: Path, serve: Serve, left: Left) -> None:
        self._path = path
        self._serve = serve
        self._left = left
        self._numbers = itertools.count(1)
        self._listener: socket.socket | None = None
        self._clients: list[_Client] = []
        self._decoder = msgspec.json.Decoder(Request)

    def __enter__(self) -> "ControlServer":
        """Start to listen. Raises OSError, also when another process already listens there."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            _remove_dead(self._path)
            listen_at(self._path, listener, 16)
        except OSError:
            listener.close()
            raise
        self._listener = listener
        return self

    def __exit__(self, *_: object) -> None:
        """Stop, and remove the socket file."""
        if self._listener is None:
            return
        for client in self._clients:
            client.connection.close()
        self._clients.clear()
        self._listener.close()
        self._listener = None
        self._path.unlink(missing_ok=True)

    def wait(self, seconds: float) -> None:
        """Sleep until a socket is ready, at most `seconds`."""
        readers = [client.connection for client in self._clients]
        if self._listener is not None:
            readers.append(self._listener)
        writers = [client.connection for client in self._clients if client.to_send]
        select.select(readers, writers, [], seconds)

    def poll(self) -> None:
        """Accept clients, and read, serve and answer their requests."""
        if self._listener is None:
            return
        with contextlib.suppress(BlockingIOError):
            connection, _ = self._listener.accept()
            connection.setblocking(False)
            self._clients.append(_Client(connection, next(self._numbers)))
        self._clients = [client for client in self._clients if self._attend(client)]

    def _attend(self, client: _Client) -> bool:
        """Serve one client; False when it has disconnected."""
        try:
            alive = self._read(client)
            self._answer(client)
            self._write(client)
        except OSError:
            alive = False
        if not alive:
            client.connection.close()
            self._left(client.number)
        return alive

    def _read(self, client: _Client) -> bool:
        with contextlib.suppress(BlockingIOError):
            while data := client.connection.recv(_RECEIVE_BYTES):
                client.received += data
                if len(client.received) > _LONGEST_REQUEST_BYTES:
                    return False
            return False
        return True

    def _answer(self, client: _Client) -> None:
        *lines, rest = client.received.split(b"\n")
        client.received = rest
        for line in lines:
            if line.strip():
                client.to_send += msgspec.json.encode(self._reply(bytes(line), client.number)) + b"\n"

    def _reply(self, line: bytes, client: int) -> Reply:
        try:
            return {"ok": True, **self._serve(self._decoder.decode(line), client)}
        except (msgspec.DecodeError, RequestError, CoreError, WireError) as error:
            return {"ok": False, "error": str(error)}

    def _write(self, client: _Client) -> None:
        with contextlib.suppress(BlockingIOError):
            while client.to_send:
                del client.to_send[: client.connection.send(client.to_send)]


def _remove_dead(path: Path) -> None:
    """Remove a socket file on which nothing listens; raises OSError if a process does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(os.fspath(path))
        except FileNotFoundError:
            return
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
    raise OSError(f"{path} is in use by another worker")


Undo = Destroy | DestroyRank | DestroyProfile
"""Request that undoes another: it destroys one resource."""


class Leases:
    """Serves requests by `serve`, and remembers the leased resources of each client that still exist."""

    def __init__(self, serve: Callable[[Request], Reply]) -> None:
        self._serve = serve
        self._held: defaultdict[int, dict[Undo, None]] = defaultdict(dict)
        """Leases by client, in the order of the requests."""

    def serve(self, request: Request, client: int) -> Reply:
        """Serve one request. Raises what the commands raise."""
        reply = self._serve(request)
        match request:
            case CreateQp(host=host, leased=True):
                self._held[client][Destroy(qps=(QpName(host, reply["qpn"]),))] = None
            case RegisterRegion(host=host, leased=True) | ShareRegion(host=host, leased=True):
                self._held[client][Destroy(regions=(RegionName(host, reply["rkey"]),))] = None
            case CreateProfile(host=host, leased=True):
                self._held[client][DestroyProfile(host, reply["profile"])] = None
            case CreateCq(host=host, leased=True):
                self._held[client][DestroyRank(host, reply["cq"])] = None
            case Destroy() | DestroyRank() | DestroyProfile():
                self._forget(request)
        return reply

    def left(self, client: int) -> None:
        """Destroy what a disconnected client has leased, the newest first."""
        for undo in reversed(self._held.pop(client, {})):
            with suppress(RequestError, CoreError):
                self._serve(undo)

    def _forget(self, done: Undo) -> None:
        """Remove the lease of a destroyed resource: another may get its number."""
        each = [done]
        if isinstance(done, Destroy):
            each = [*(Destroy(qps=(qp,)) for qp in done.qps), *(Destroy(regions=(name,)) for name in done.regions)]
        for held in self._held.values():
            for undo in each:
                held.pop(undo, None)
