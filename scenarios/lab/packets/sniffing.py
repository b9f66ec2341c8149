"""Listens on links of a lab: every packet where it arrives, at the receiving end of a direction.

So packets that a fault drops on a link are not shown. It uses packet rings, into which the kernel copies a packet when
it passes: a plain socket would show the outer address after the switch's next shift.
"""

import select
import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from operator import attrgetter
from typing import NamedTuple

from agent.io.packet_ring import PacketRingPort, open_packet_ring
from agent.io.port import PortOpenError
from scenarios.errors import LabStateError
from scenarios.lab.client import lab_end
from scenarios.lab.lab_dir import LabDir
from scenarios.lab.processes import ProcessId, is_alive
from testbed.kernel.netns import namespace_path
from testbed.model.node_names import DirectedLink, namespace_name

_SLOTS = 1024
"""Bytes of each direction's ring. Our choice: a third of a second of what an emulated link carries."""
_LOOK_EVERY_S = 0.2
_AT_A_TIME = 64
_TIME = attrgetter("time_ns")


class Heard(NamedTuple):
    """A frame, with its place and time."""

    way: DirectedLink
    time_ns: int
    """Time since 1970, by the kernel."""
    frame: bytes


class Listening:
    """Open rings on directions of links. Use in a `with`."""

    def __init__(self, labdir: LabDir, owner: ProcessId, ways: Iterable[DirectedLink], frame_bytes: int) -> None:
        """Prepare; without `owner` the lab is gone; `frame_bytes` is the longest frame that is read whole."""
        self._labdir = labdir
        self._lab = labdir.lab
        self._owner = owner
        self._ways = tuple(ways)
        self._frame_bytes = frame_bytes
        self._open = ExitStack()
        self._ports: dict[PacketRingPort, DirectedLink] = {}

    def __enter__(self) -> "Listening":
        """Open them. Raises `LabStateError` where a namespace is gone."""
        with ExitStack() as undo:
            for way in self._ways:
                port = self._listen(way)
                undo.callback(port.close)
                self._ports[port] = way
            self._open = undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Close them."""
        self._open.close()

    def frames(self) -> Iterator[Heard | None]:
        """Yield frames for ever, in the order of their times; None when none is due.

        Raises `LabStateError` when the lab is gone. A link that goes down is silent until it is up again.
        """
        held: list[Heard] = []
        look_s = 0.0
        while True:
            if time.monotonic() > look_s:
                self._require_owner()
                look_s = time.monotonic() + _LOOK_EVERY_S
            due_ns = time.time_ns()  # what came before is in the rings by now; what comes later may come in any order
            ready, _, _ = select.select(list(self._ports), [], [], 0 if held else _LOOK_EVERY_S)
            for port in ready:
                found = self._waiting(port)
                held += found
                if len(found) == _AT_A_TIME:
                    due_ns = min(due_ns, found[-1].time_ns)
                if port.take_error():
                    self._require_node(self._ports[port])
            held.sort(key=_TIME)
            due = bisect_right(held, due_ns, key=_TIME) if ready else len(held)
            yield from held[:due]
            del held[:due]
            yield None

    def _require_node(self, way: DirectedLink) -> None:
        if not namespace_path(namespace_name(self._lab, way.receiver)).exists():
            raise LabStateError(f"{way}: {way.receiver} is gone, since the lab {self._lab} was taken down")

    def _require_owner(self) -> None:
        """Check whether the lab ended: open rings keep the ports of both ends alive, so they show nothing of it."""
        if not is_alive(self._owner):
            raise LabStateError(lab_end(self._labdir) or f"lab {self._lab!r} was taken down; another has its name now")

    def lost(self) -> int:
        """Return the number of frames lost because a ring was full."""
        return sum(port.counters().rx_drops for port in self._ports)

    def _listen(self, way: DirectedLink) -> PacketRingPort:
        place = str(namespace_path(namespace_name(self._lab, way.receiver)))
        try:
            return open_packet_ring(
                way.ingress.interface,
                way.plane,
                netns=place,
                frame_bytes=self._frame_bytes,
                rx_slots=_SLOTS,
                tx_slots=1,
            )
        except PortOpenError as error:
            self._require_node(way)
            raise LabStateError(f"{way}: {error}") from error

    def _waiting(self, port: PacketRingPort) -> list[Heard]:
        block = port.receive(_AT_A_TIME)
        if block is None:
            return []
        count = len(block.lengths)
        times = port.arrived_ns(count).tolist()
        heard = [
            Heard(self._ports[port], when, frame[:length].tobytes())
            for when, frame, length in zip(times, block.frames, block.lengths.tolist(), strict=True)
        ]
        port.release(count)
        return heard
