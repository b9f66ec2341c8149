"""Listens on links of a lab by Scapy's sockets: every packet where it arrives, at the receiving end of a direction.

What a fault drops on a link is therefore not heard. Loads Scapy; call `agent.io.scapy_home.leave_home` before.
"""

import select
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from typing import NamedTuple

from scapy.arch.linux import L2Socket
from scapy.config import conf

from agent.io.packet_socket import REFUSALS, newly_dropped
from scenarios.errors import LabStateError
from testbed.kernel.netns import inside, namespace_path
from testbed.model.ids import DirectedLink, namespace_name

_SO_RCVBUFFORCE = 33
_BUFFER_BYTES = 8 << 20
"""Of each direction. Our choice: some 10,000 frames."""
_LONGEST_FRAME = 65535
_LOOK_EVERY_S = 0.2


class Heard(NamedTuple):
    """A frame, where and when."""

    way: DirectedLink
    time_ns: int
    frame: bytes


class Listening:
    """Open sockets on directions of links. Use in a `with`."""

    def __init__(self, lab: str, ways: Iterable[DirectedLink]) -> None:
        self._lab = lab
        self._ways = tuple(ways)
        self._open = ExitStack()
        self._sockets: dict[L2Socket, DirectedLink] = {}

    def __enter__(self) -> "Listening":
        """Open them. Raises `LabStateError` where a namespace is gone."""
        with ExitStack() as undo:
            for way in self._ways:
                sock = self._listen(way)
                undo.callback(sock.close)
                self._sockets[sock] = way
            self._open = undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Close them."""
        self._open.close()

    def frames(self, until_s: float | None = None) -> Iterator[Heard | None]:
        """Frames as they come, None when there was none for a while; until the monotonic clock says `until_s`."""
        while until_s is None or time.monotonic() < until_s:
            ready, _, _ = select.select(list(self._sockets), [], [], _LOOK_EVERY_S)
            for sock in ready:
                yield from self._waiting(sock)
            if not ready:
                yield None

    def lost(self) -> int:
        """Frames that found no room in a socket since last asked."""
        return sum(newly_dropped(sock.ins) for sock in self._sockets)

    def _listen(self, way: DirectedLink) -> L2Socket:
        place = namespace_path(namespace_name(self._lab, way.receiver))
        conf.ifaces.reload()
        try:
            with inside(place):
                sock = L2Socket(iface=way.ingress.interface, promisc=False, nofilter=True)
        except (FileNotFoundError, ValueError) as error:
            raise LabStateError(f"{way.ingress}: cannot listen there: {error}") from error
        sock.ins.setblocking(False)
        with suppress(PermissionError):
            sock.ins.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
        return sock

    def _waiting(self, sock: L2Socket) -> Iterator[Heard]:
        for _ in range(64):
            try:
                _, frame, time_s = sock.recv_raw(_LONGEST_FRAME)
            except OSError as error:
                if error.errno in REFUSALS:
                    return
                raise
            if frame:
                yield Heard(self._sockets[sock], int(time_s * 1e9), frame)
