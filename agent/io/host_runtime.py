"""Runtime of one host's agent: its ports, its queue pairs, and the batches that pass between them.

Decides nothing about the protocol (agent.core does) and nothing about bytes (agent.wire does); never waits.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from agent.core.ev.profile_sources import EvProfile
from agent.core.events import Event
from agent.core.memory_regions import RegionTable
from agent.core.qp import QueuePair
from agent.io.codec import FAST, Codec, Encode
from agent.io.peers import Neighbour, Neighbours
from agent.io.port import FramePort
from agent.wire.array.columns import SackBatch, SackColumns, WriteBatch, WriteColumns, alike
from agent.wire.array.control_columns import AckColumns, ControlBatch, NackColumns, ProbeColumns
from agent.wire.array.decode import Decoded, RejectReason
from agent.wire.array.template import FlowTemplate, HostAddress
from agent.wire.constants import ENDPOINT_QPN

_CARRIER_PERIOD_NS = 10_000_000
"""Period of checking carriers. Our choice: a check costs 1 us per port, and a failed port is noticed within a sixth of
a timeout."""

Columns = TypeVar("Columns", WriteColumns, SackColumns, AckColumns, NackColumns, ProbeColumns)
Batch = TypeVar("Batch", WriteBatch, SackBatch, ControlBatch)


_TAKEN: tuple[tuple[str, Callable[[QueuePair, Any, int], None]], ...] = (
    ("nacks", QueuePair.receive_nacks),
    ("sacks", QueuePair.receive_sacks),
    ("acks", QueuePair.receive_acks),
    ("probes", QueuePair.receive_probes),
    ("writes", QueuePair.receive_writes),
)
"""Columns of `Decoded` by name, in delivery order: NACKs before SACKs, otherwise refused packets would count as
lost."""


def by_hand_qpn(host: int) -> int:
    """Return the queue pair number to which packets built by hand on a host are answered.

    It is the last number that its agent would assign (host << 12 | n), so it stays free for long. Our choice.
    """
    return host << 12 | 0xFFF


@dataclass(frozen=True, slots=True)
class QpEvent:
    """An event of the core, with its host and queue pair."""

    host: int
    qpn: int
    evs: NDArray[np.uint32]
    """EV of each row that the event names."""
    event: Event
    peer_host: int
    """Host of the queue pair at the other end."""


@dataclass(frozen=True, slots=True, eq=False)
class Channel:
    """A queue pair and what the wire format needs to carry it."""

    qpn: int
    peer_host: int
    qp: QueuePair
    profile: EvProfile
    """EV profile of the queue pair itself."""
    template: FlowTemplate
    coming: dict[int, FlowTemplate] = field(default_factory=dict)
    """Templates by row, for when the queue pair has another value there."""


class HostRuntime:
    """Drives the queue pairs of one host over its ports."""

    def __init__(
        self,
        host: int,
        address: HostAddress,
        ports: Sequence[FramePort],
        *,
        check_icrc: bool = True,
        codec: Codec = FAST,
    ) -> None:
        self.host = host
        self.address = address
        self.codec = codec
        self.ports = {port.plane: port for port in ports}
        self.regions = RegionTable()
        self.channels: dict[int, Channel] = {}
        self.rejected: Counter[RejectReason] = Counter()
        """Received frames not delivered, by reason."""
        self.unknown_qp = 0
        """Packets for a queue pair that does not exist, without answers to packets built by hand."""
        self.not_its_peer = 0
        """Packets for a queue pair from another host than its peer."""
        self.overflowed = 0
        """Frames dropped because a port had no room; the transport sees them as lost."""
        self.neighbours = Neighbours()
        self._check_icrc = check_icrc
        self._up = np.ones(256, np.bool_)
        self._held_down: set[int] = set()
        self._ports_checked_ns: int | None = None
        self._ready_frames: deque[tuple[int, bytes]] = deque()
        self._path_answers: list[tuple[int, int, bool]] = []

    def receive(self, now_ns: int) -> int:
        """Process frames that wait at every port; return how many."""
        taken = 0
        for port in self.ports.values():
            taken += self._receive_port(port, now_ns)
        return taken

    def serve(self, now_ns: int) -> int:
        """Act on due timers and ports, and send what does not wait for its turn: whole frames, control, SACKs.

        Returns frames sent.
        """
        self._watch_ports(now_ns)
        self._put_ready_frames()
        for channel in self.channels.values():
            if channel.qp.is_due(now_ns):
                self._serve(channel, now_ns)
        if self.neighbours.are_due(now_ns):
            self._serve_neighbours(now_ns)
        return self._send()

    def transmit(self, channel: Channel, limit: int, now_ns: int) -> int:
        """Send at most `limit` data packets of one queue pair; return frames sent."""
        if not channel.qp.has_backlog:
            return 0
        room = min(port.room() for port in self.ports.values())
        if not room or not (writes := channel.qp.transmit(min(limit, room), now_ns)):
            return 0
        self._put(channel.template, writes, self.codec.encode_writes)
        return self._send()

    def send_frame(self, plane: int, frame: bytes) -> None:
        """Queue a whole frame to leave before any packet made later."""
        self._ready_frames.append((plane, frame))

    def next_deadline_ns(self) -> int | None:
        """Time at which the next timer of a queue pair is due."""
        due = [channel.qp.next_deadline_ns() for channel in self.channels.values()]
        due.append(self.neighbours.next_deadline_ns())
        return min((value for value in due if value is not None), default=None)

    def on_port_state(self, plane: int, up: bool, now_ns: int) -> None:
        """Update all queue pairs and announce to all neighbours that a port of ours went up or down."""
        if bool(self._up[plane]) is up:
            return
        self._up[plane] = up
        for channel in self.channels.values():
            channel.qp.on_port_state(plane, up, now_ns)
        self.neighbours.tell_ports(self._up, sorted(self.ports), now_ns)

    def hold_port(self, plane: int, up: bool, now_ns: int) -> None:
        """Hold a port down whatever its carrier is, or end that."""
        if up:
            self._held_down.discard(plane)
        else:
            self._held_down.add(plane)
        self.on_port_state(plane, up and self.ports[plane].carrier(), now_ns)

    def adopt(self, channel: Channel, neighbour: Neighbour, now_ns: int) -> None:
        """Drive a connected queue pair, replacing any with its number; both ends learn which ports are down."""
        self.channels[channel.qpn] = channel
        mask = self.neighbours.meet(neighbour, now_ns)
        if mask is not None:
            channel.qp.on_peer_ports(mask, now_ns)
        for plane in self.ports:
            if not self._up[plane]:
                channel.qp.on_port_state(plane, False, now_ns)

    def drain_path_answers(self) -> list[tuple[int, int, bool]]:
        """Return host, EV and whether it was answered, of each controller's probe completed since the last call."""
        answers, self._path_answers = self._path_answers, []
        return answers

    def drain_events(self) -> Iterator[QpEvent]:
        """Yield the events that queue pairs reported since the last call."""
        for channel in self.channels.values():
            for event in channel.qp.drain_events():
                yield QpEvent(self.host, channel.qpn, channel.profile.evs, event, channel.peer_host)

    def _receive_port(self, port: FramePort, now_ns: int) -> int:
        taken = 0
        while taken < self.codec.backlog_frames and (block := port.receive(self.codec.block_frames)):
            frames = len(block.lengths)
            decoded = self.codec.decode(
                block.frames,
                block.lengths,
                self.address.address,
                port.plane,
                check_icrc=self._check_icrc,
                runs=block.runs,
            )
            self._deliver(decoded, now_ns)
            port.release(frames)
            taken += frames
        return taken

    def _deliver(self, decoded: Decoded, now_ns: int) -> None:
        if decoded.rejected:
            self.rejected.update(decoded.rejected)
        if decoded.endpoint_requests is not None:
            for host, mask in self.neighbours.receive_requests(decoded.endpoint_requests):
                for channel in self.channels.values():
                    if channel.peer_host == host:
                        channel.qp.on_peer_ports(mask, now_ns)
        if decoded.endpoint_responses is not None:
            self.neighbours.receive_responses(decoded.endpoint_responses, now_ns)
        for name, give in _TAKEN:
            columns = getattr(decoded, name)
            if columns is not None:
                for channel, group in self._by_channel(columns):
                    give(channel.qp, group, now_ns)

    def _by_channel(self, columns: Columns) -> Iterator[tuple[Channel, Columns]]:
        qpns = columns.dqpn
        first = int(qpns[0])
        groups = [(first, columns)]
        if np.count_nonzero(qpns != first):
            groups = [(int(qpn), columns.take(qpns == qpn)) for qpn in np.unique(qpns)]
        for qpn, group in groups:
            channel = self.channels.get(qpn)
            if channel is None:
                self.unknown_qp += len(group) if qpn != by_hand_qpn(self.host) else 0
            elif mine := self._of_peer(channel, group):
                yield channel, mine

    def _of_peer(self, channel: Channel, columns: Columns) -> Columns | None:
        """Keep the rows that its peer sent; None if there are none."""
        if columns.source is None:
            return None
        strange = columns.source != channel.template.peer
        if not np.count_nonzero(strange):
            return columns
        mine = ~strange.any(axis=1)
        self.not_its_peer += len(columns) - int(np.count_nonzero(mine))
        return columns.take(mine) if np.count_nonzero(mine) else None

    def _serve(self, channel: Channel, now_ns: int) -> None:
        """Act on a due timer and send acknowledgements of arrivals."""
        channel.qp.on_timer(now_ns)
        control = channel.qp.control(now_ns)
        if channel.coming:
            channel = self._with_new_evs(channel)
        for batch in control:
            self._put(channel.template, batch, self.codec.encode_control)
        while sacks := channel.qp.acknowledge(now_ns):
            self._put(channel.template, sacks, self.codec.encode_sacks)
        ev = channel.qp.wanted_ev_probe(now_ns)
        if ev is not None:
            self.neighbours.probe(channel.peer_host, ev, channel.qpn)
        channel.qp.rest(now_ns)

    def _with_new_evs(self, channel: Channel) -> Channel:
        """Return the channel with templates for the values that the queue pair has put in rows."""
        template = channel.template
        for row in channel.qp.drain_replaced():
            template = template.with_row(row, channel.coming.pop(row))
        if template is not channel.template:
            channel = self.channels[channel.qpn] = replace(channel, template=template)
        return channel

    def _serve_neighbours(self, now_ns: int) -> None:
        """Send what is due to hosts rather than to queue pairs."""
        for host in self.neighbours.owed_answers():
            mine = (channel.qp.ways() for channel in self.channels.values() if channel.peer_host == host)
            if ways := [each for each in mine if each is not None]:
                self.neighbours.follow(host, ways)
        for template, batch in self.neighbours.batches(now_ns):
            self._put(template, batch, self.codec.encode_control)
        for host, ev, answer in self.neighbours.answers(now_ns):
            if answer.qpn == ENDPOINT_QPN:
                self._path_answers.append((host, ev, answer.rtt_ns is not None))
                continue
            channel = self.channels.get(answer.qpn)
            if channel is not None:
                channel.qp.on_ev_probe(ev, answer.rtt_ns is not None)
        self.neighbours.rest()

    def _watch_ports(self, now_ns: int) -> None:
        """Check from time to time for ports that lost or regained their carrier: each check costs a system call."""
        if self._ports_checked_ns is not None and now_ns - self._ports_checked_ns < _CARRIER_PERIOD_NS:
            return
        self._ports_checked_ns = now_ns
        for plane, port in self.ports.items():
            self.on_port_state(plane, port.carrier() and plane not in self._held_down, now_ns)

    def _send(self) -> int:
        sent = 0
        for port in self.ports.values():
            sent += port.send()
        return sent

    def _put(self, template: FlowTemplate, batch: Batch, encode: Encode) -> None:
        """Encode a batch into the ports of its EVs, each port's rows in the order of the batch."""
        planes = template.planes[batch.ev_index]
        if alike(planes):
            self._put_into(self.ports[int(planes[0])], template, batch, encode)
            return
        for plane, port in self.ports.items():
            rows = (planes == plane).nonzero()[0]
            if len(rows):
                self._put_into(port, template, batch.take(rows), encode)

    def _put_into(self, port: FramePort, template: FlowTemplate, batch: Batch, encode: Encode) -> None:
        done, count = 0, len(batch)
        while done < count:
            space = port.reserve(count - done)
            if not len(space):
                self.overflowed += count - done
                return
            part = batch if len(space) == count else batch.take(slice(done, done + len(space)))
            port.fill(encode(template, part, space.frames, space.runs))
            done += len(space)

    def _put_ready_frames(self) -> None:
        # One by one: announcements, one frame per path and flow.
        while self._ready_frames:
            plane, frame = self._ready_frames[0]
            space = self.ports[plane].reserve(1)
            if not len(space):
                return
            space.frames[0, : len(frame)] = np.frombuffer(frame, np.uint8)
            self.ports[plane].fill(np.array([len(frame)], np.uint32))
            self._ready_frames.popleft()
