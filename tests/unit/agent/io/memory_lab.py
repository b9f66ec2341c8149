"""A whole lab in memory: hosts, queue pairs and regions on one engine over a `MemoryFabric`, run in virtual time."""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from agent.core.config import QpConfig
from agent.core.congestion.interface import CongestionControl
from agent.core.ev.profile_sources import EvProfile
from agent.core.memory_regions import MemoryRegion
from agent.core.qp import QueuePair
from agent.io.codec import FAST, Codec
from agent.io.engine import Engine
from agent.io.host_runtime import Channel, HostRuntime, QpEvent
from agent.io.memory_fabric import MemoryFabric, PathRule
from agent.io.peers import Neighbour
from agent.wire.array.template import FlowTemplate, HostAddress, PortAddress
from agent.wire.constants import ENDPOINT_QPN, Dscp
from agent.wire.ev import EvCodec

CODECS: ContextVar[tuple[Codec, ...]] = ContextVar("codecs", default=(FAST,))
"""What hosts speak by, one after the other: a fixture may say otherwise for all labs of a test."""

STEP_NS = 5_000
"""Virtual time one turn of the engine takes."""


@dataclass(frozen=True)
class Flow:
    """One write from a host to another: what is at both ends."""

    source: Channel
    target: Channel
    sent: MemoryRegion
    received: MemoryRegion

    def is_right(self) -> bool:
        return bool((self.sent.data == self.received.data).all())

    def is_complete(self) -> bool:
        progress = self.source.qp.progress()
        return progress.completed_messages == progress.posted_messages


@dataclass
class Lab:
    """Built by `build`."""

    engine: Engine
    fabric: MemoryFabric
    planes: int
    spines: int
    rng: np.random.Generator
    events: list[QpEvent] = field(default_factory=list)

    def flow(
        self,
        source: int,
        target: int,
        size: int,
        *,
        message_bytes: int | None = None,
        imm: int | None = None,
        control: Callable[[], CongestionControl] | None = None,
        **config: object,
    ) -> Flow:
        """Connect two hosts, register memory at both and post one write."""
        settings = {"pmtu": 256, "window_pkts": 512, "ack_timeout_ns": 5_000_000, **config}
        config_here = QpConfig(**settings)
        ends = [self._channel(a, b, config_here, control) for a, b in ((source, target), (target, source))]
        ends = [self._connect(end, other) for end, other in (ends, ends[::-1])]
        sent = self._region(source, np.frombuffer(self.rng.bytes(size), np.uint8).copy())
        received = self._region(target, ~sent.data)
        if imm is not None:
            ends[1].qp.post_receives(0, -(-size // (message_bytes or size)))
        ends[0].qp.post_writes(sent, 0, size, received.va, received.rkey, message_bytes or size, imm)
        return Flow(ends[0], ends[1], sent, received)

    def run(self, *flows: Flow, until_ns: int = 2_000_000_000, step_ns: int = STEP_NS) -> None:
        """Turn the engine until the flows are complete; skips the time in which nothing can happen."""
        while not all(flow.is_complete() for flow in flows):
            moved = self.engine.step(self.fabric.now_ns)
            self.events += self.engine.drain_events()
            next_ns = self.fabric.now_ns + step_ns
            if not moved:
                due = [self.fabric.next_arrival_ns(), self.engine.next_deadline_ns()]
                next_ns = max(next_ns, min((time for time in due if time is not None), default=next_ns))
            assert next_ns < until_ns, "the flows did not end in time"
            self.fabric.advance(next_ns)

    def _channel(
        self, host: int, peer: int, config: QpConfig, control: Callable[[], CongestionControl] | None
    ) -> Channel:
        runtime = self.engine.hosts[host]
        codec = EvCodec()
        local = runtime.address.leaf == self.engine.hosts[peer].address.leaf
        turns = [None] if local else range(self.spines)
        evs = np.array([codec.ev_of(p, s, runtime.address.leaf) for p in range(self.planes) for s in turns], np.uint32)
        profile = EvProfile(evs, codec.plane_of(evs))
        qpn = host << 12 | len(runtime.channels) + 1
        window = control() if control else None
        qp = QueuePair(qpn, config, profile, runtime.regions, np.random.default_rng(qpn), control=window)
        template = FlowTemplate.for_peer(runtime.address, self.engine.hosts[peer].address, 0, evs)
        channel = Channel(qpn, peer, qp, qp.profile, template)
        runtime.channels[qpn] = channel
        return channel

    def _connect(self, channel: Channel, other: Channel) -> Channel:
        runtime, peer = self.engine.hosts[other.peer_host], self.engine.hosts[channel.peer_host]
        channel.qp.connect(other.qp.offer(), self.fabric.now_ns)
        template = FlowTemplate.for_peer(
            runtime.address,
            peer.address,
            other.qpn,
            channel.profile.evs,
            dscp=Dscp.TRIMMABLE,
            retransmission_dscp=Dscp.TRIMMABLE_RETX,
        )
        connected = replace(channel, template=template)
        towards_host = FlowTemplate.for_peer(runtime.address, peer.address, ENDPOINT_QPN, channel.profile.evs)
        neighbour = Neighbour.of(channel.peer_host, peer.address.address, channel.profile, towards_host)
        runtime.adopt(connected, neighbour, self.fabric.now_ns)
        return connected

    def _region(self, host: int, data: NDArray[np.uint8]) -> MemoryRegion:
        regions = self.engine.hosts[host].regions
        number = 1 + sum(1 for _ in regions)
        region = MemoryRegion(number << 32, host << 16 | number, data)
        regions.register(region)
        return region


def build(
    hosts: int = 2,
    *,
    planes: int = 2,
    spines: int = 4,
    rules: tuple[PathRule, ...] = (),
    seed: int = 1,
    per_leaf: int = 1,
    frame_bytes: int = 576,
    codecs: tuple[Codec, ...] | None = None,
) -> Lab:
    """A lab of `hosts` hosts, `per_leaf` on each leaf; packets of 256 bytes fit the default frame.

    Host h speaks by `codecs`, counted around; left out, by `CODECS`.
    """
    codecs = codecs or CODECS.get()
    rng = np.random.default_rng(seed)
    fabric = MemoryFabric(rng, rules)
    runtimes = []
    for host in range(hosts):
        address = bytes.fromhex("fd5f") + bytes(12) + host.to_bytes(2)
        macs = [
            PortAddress(bytes((2, 0x30 | p, 0, host, 0x20, 0)), bytes((2, 0x20 | p, 0, host, 0x30, 0)))
            for p in range(planes)
        ]
        ports = [fabric.open_port(host, plane, address, frame_bytes=frame_bytes) for plane in range(planes)]
        place = HostAddress(address, host // per_leaf, host % per_leaf, tuple(macs))
        runtimes.append(HostRuntime(host, place, ports, codec=codecs[host % len(codecs)]))
    return Lab(Engine(runtimes), fabric, planes, spines, rng)
