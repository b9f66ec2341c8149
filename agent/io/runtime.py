"""One host's agent at work: its ports, its queue pairs, and the batches that pass between them.

Decides nothing about the protocol (agent.core does) and nothing about bytes (agent.wire does); never waits.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from agent.core.config import EvProfile
from agent.core.events import Event
from agent.core.memory import RegionTable
from agent.core.qp import QueuePair
from agent.io.port import FramePort
from agent.wire.columns import SackBatch, SackColumns, WriteBatch, WriteColumns
from agent.wire.decode import Decoded, RejectReason, decode
from agent.wire.encode import encode_sacks, encode_writes
from agent.wire.template import FlowTemplate, HostAddress

BLOCK_FRAMES = 1024
"""Received frames read at a time: what a block costs whatever it holds is spread over them."""

_BACKLOG_FRAMES = 2048
"""Frames taken from one port before the others get their turn. After a stall nearly all that waits is read before a
timer is looked at, or packets would be resent whose SACK is already here."""

Columns = TypeVar("Columns", WriteColumns, SackColumns)
Batch = TypeVar("Batch", WriteBatch, SackBatch)


@dataclass(frozen=True, slots=True)
class QpEvent:
    """An event of the core, with whose it is."""

    host: int
    qpn: int
    evs: NDArray[np.uint32]
    """EV of each row number the event names."""
    event: Event


@dataclass(frozen=True, slots=True, eq=False)
class Channel:
    """A queue pair and what the wire needs to carry it."""

    qpn: int
    peer_host: int
    qp: QueuePair
    profile: EvProfile
    template: FlowTemplate


class HostRuntime:
    """Drives the queue pairs of one host over its ports."""

    def __init__(self, host: int, address: HostAddress, ports: Sequence[FramePort], *, check_icrc: bool = True) -> None:
        self.host = host
        self.address = address
        self.ports = {port.plane: port for port in ports}
        self.regions = RegionTable()
        self.channels: dict[int, Channel] = {}
        self.rejected: Counter[RejectReason] = Counter()
        """Received frames not delivered, by reason."""
        self.unknown_qp = 0
        """Packets for a queue pair that does not exist."""
        self.overflowed = 0
        """Frames dropped because a port had no room; the transport sees them as lost."""
        self._check_icrc = check_icrc
        self._ready_frames: deque[tuple[int, bytes]] = deque()

    def receive(self, now_ns: int) -> int:
        """Take in what waits at every port; frames taken."""
        return sum(self._receive_port(port, now_ns) for port in self.ports.values())

    def serve(self, now_ns: int) -> int:
        """Act on due timers and send what does not wait its turn: whole frames, then SACKs; frames sent."""
        self._put_ready_frames()
        for channel in self.channels.values():
            due_ns = channel.qp.next_deadline_ns()
            if due_ns is not None and due_ns <= now_ns:
                channel.qp.on_timer(now_ns)
            if sacks := channel.qp.acknowledge(now_ns):
                self._put(channel.template, sacks, encode_sacks)
        return self._send()

    def transmit(self, channel: Channel, limit: int, now_ns: int) -> int:
        """Send at most `limit` data packets of one queue pair; frames sent."""
        room = min(port.room() for port in self.ports.values())
        if not room or not (writes := channel.qp.transmit(min(limit, room), now_ns)):
            return 0
        self._put(channel.template, writes, encode_writes)
        return self._send()

    def send_frame(self, plane: int, frame: bytes) -> None:
        """Queue a whole frame to leave before any packet made later."""
        self._ready_frames.append((plane, frame))

    def next_deadline_ns(self) -> int | None:
        """When the next timer of a queue pair is due."""
        due = [channel.qp.next_deadline_ns() for channel in self.channels.values()]
        return min((value for value in due if value is not None), default=None)

    def drain_events(self) -> Iterator[QpEvent]:
        """What the queue pairs reported since last asked."""
        for channel in self.channels.values():
            for event in channel.qp.drain_events():
                yield QpEvent(self.host, channel.qpn, channel.profile.evs, event)

    def _receive_port(self, port: FramePort, now_ns: int) -> int:
        taken = 0
        while taken < _BACKLOG_FRAMES and (block := port.receive(BLOCK_FRAMES)):
            frames = len(block.lengths)
            decoded = decode(block.frames, block.lengths, self.address.address, port.plane, check_icrc=self._check_icrc)
            self._deliver(decoded, now_ns)
            port.release(frames)
            taken += frames
        return taken

    def _deliver(self, decoded: Decoded, now_ns: int) -> None:
        if decoded.rejected:
            self.rejected.update(decoded.rejected)
        if decoded.sacks is not None:
            for channel, sacks in self._by_channel(decoded.sacks):
                channel.qp.receive_sacks(sacks, now_ns)
        if decoded.writes is not None:
            for channel, writes in self._by_channel(decoded.writes):
                channel.qp.receive_writes(writes, now_ns)

    def _by_channel(self, columns: Columns) -> Iterator[tuple[Channel, Columns]]:
        qpns = columns.dqpn
        first = int(qpns[0])
        groups = [(first, columns)]
        if np.count_nonzero(qpns != first):
            groups = [(int(qpn), columns.take(qpns == qpn)) for qpn in np.unique(qpns)]
        for qpn, group in groups:
            channel = self.channels.get(qpn)
            if channel is None:
                self.unknown_qp += len(group)
            else:
                yield channel, group

    def _send(self) -> int:
        return sum(port.send() for port in self.ports.values())

    def _put(
        self,
        template: FlowTemplate,
        batch: Batch,
        encode: Callable[[FlowTemplate, Batch, NDArray[np.uint8]], NDArray[np.uint32]],
    ) -> None:
        """Encode a batch into the ports its EVs lead to, each port's rows in the order of the batch."""
        planes = template.planes[batch.ev_index]
        for plane, port in self.ports.items():
            rows = np.flatnonzero(planes == plane)
            done = 0
            while done < len(rows):
                out = port.reserve(len(rows) - done)
                if not len(out):
                    self.overflowed += len(rows) - done
                    break
                part = batch if len(out) == len(batch) else batch.take(rows[done : done + len(out)])
                port.fill(encode(template, part, out))
                done += len(out)

    def _put_ready_frames(self) -> None:
        # One by one: announcements, a frame a path and flow.
        while self._ready_frames:
            plane, frame = self._ready_frames[0]
            out = self.ports[plane].reserve(1)
            if not len(out):
                return
            out[0, : len(frame)] = np.frombuffer(frame, np.uint8)
            self.ports[plane].fill(np.array([len(frame)], np.uint32))
            self._ready_frames.popleft()
