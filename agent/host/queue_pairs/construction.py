"""Construction of queue pairs and their surroundings from settings: EV sets, templates, numbers, keys.

Numbers are unique in a lab because a host's index is part of them, so workers need not coordinate.
"""

from collections.abc import Collection, Container, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import msgspec
import numpy as np

from agent.core.completion import CompletionQueue
from agent.core.config import PeerQp
from agent.core.congestion.interface import NOMINAL_HEADER_BYTES, CongestionControl
from agent.core.congestion.nscc import Nscc
from agent.core.ev.controlled_profile import ControlledProfile
from agent.core.ev.profile_sources import EvProfile
from agent.core.ev.state import EvState
from agent.core.qp import QueuePair
from agent.host.control.requests import QpSettings
from agent.host.errors import RequestError
from agent.host.queue_pairs.controlled_profiles import ChannelUser, ControlledProfiles, HostProfile
from agent.host.queue_pairs.denied_links import Denylist, LinkProbes
from agent.host.queue_pairs.ev_profiles import Paths
from agent.host.queue_pairs.flow_announcements import Announcements
from agent.host.settings import FabricSettings
from agent.io.host_runtime import Channel, HostRuntime
from agent.io.peers import Neighbour
from agent.wire.array.template import FlowTemplate, HostAddress
from agent.wire.constants import ENDPOINT_QPN, Dscp
from agent.wire.ev import EvCodec

_QPN_BITS = 12
"""Low bits of a QP number, host << 12 | n: 4095 QPs at a time on each of 4096 hosts. Our choice; SprayCheck uses it as
a key."""

_KEY_BITS = 16
"""Low bits of a remote key, host << 16 | n: 65535 regions at a time. Our choice."""

_REGION_ALIGN = 1 << 21
"""Regions start at 2 MiB boundaries of a host's address space. Our choice: the addresses are easy to read."""

_PICKING = 1
"""Seed component that separates the choice of EVs from the queue pair's other random numbers."""

_EV_COLUMNS = ("tx_first", "tx_rtx", "acked", "lost", "timed_out", "trimmed", "probes")


@dataclass(slots=True)
class Wiring:
    """Creates and connects queue pairs of one worker's hosts."""

    fabric: FabricSettings
    peers: dict[int, HostAddress]
    """Address of every host of the lab."""
    seed: int
    udp_port: int
    codec: EvCodec = field(default_factory=EvCodec)
    announcements: Announcements = field(init=False)
    """Announcements of flows to leaves."""
    denylist: Denylist = field(init=False)
    """Links that no queue pair may use."""
    probes: LinkProbes = field(init=False)
    """Probes over those denied links that a controller wants to check."""
    profiles: ControlledProfiles = field(default_factory=ControlledProfiles)
    """EV profiles that a controller made."""
    _shared: dict[tuple[int, int], CongestionControl] = field(default_factory=dict)
    """Congestion windows shared by all queue pairs from one host to another."""
    _trimmable: dict[int, bool] = field(default_factory=dict)
    _last_qpn: dict[int, int] = field(default_factory=dict)
    _last_key: dict[int, int] = field(default_factory=dict)
    _next_va: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Create what shares these peers and this codec."""
        self.announcements = Announcements(self.fabric.spines, self.peers, self.codec)
        self.denylist = Denylist(self.codec)
        self.probes = LinkProbes(self.codec, {host: address.leaf for host, address in self.peers.items()})

    def introduce(self, hosts: Iterable[HostRuntime]) -> None:
        """Let hosts answer requests of any host of the lab (MRC 5.2), with or without a queue pair."""
        for runtime in hosts:
            runtime.neighbours.introduce = partial(self._stranger, runtime)

    def turn(self, hosts: Collection[HostRuntime]) -> None:
        """Send due announcements and probes. Call this every control period."""
        self.announcements.turn()
        self.probes.turn(hosts)

    def next_key(self, runtime: HostRuntime, size: int) -> tuple[int, int]:
        """Return address and key for a new region of `size` bytes: (va, rkey). Raises RequestError."""
        if size < 1:
            raise RequestError(f"a region of {size} bytes")
        host = runtime.host
        key = _next_free(self._last_key, host, _KEY_BITS, runtime.regions, "regions")
        va = self._next_va.get(host, 1 << 32)
        self._next_va[host] = va + -(-size // _REGION_ALIGN) * _REGION_ALIGN
        return va, key

    def create(
        self,
        runtime: HostRuntime,
        peer_host: int,
        settings: QpSettings,
        completions: CompletionQueue | None = None,
        controlled: int | None = None,
        now_ns: int = 0,
    ) -> Channel:
        """Create a queue pair in INIT on `runtime` towards `peer_host`, over a `controlled` EV profile or its own.

        Raises RequestError, ConfigError or ProfileStateError.
        """
        qpn = _next_free(self._last_qpn, runtime.host, _QPN_BITS, runtime.channels, "queue pairs")
        mine = None if controlled is None else self._controlled(runtime, peer_host, controlled)
        profile = self._profile(runtime, peer_host, settings, qpn) if mine is None else mine.control.profile()
        config = settings.core
        if mine is not None:
            own_least = msgspec.structs.replace(config.ev, min_active=mine.control.attributes.min_active)
            config = msgspec.structs.replace(config, ev=own_least)
        rng = np.random.default_rng((self.seed, runtime.host, qpn))
        control = self._control(runtime, peer_host, settings)
        qp = QueuePair(qpn, config, profile, runtime.regions, rng, completions, control)
        channel = Channel(qpn, peer_host, qp, qp.profile, self._template(runtime, peer_host, 0, profile))
        self._trimmable[qpn] = settings.trimming
        runtime.channels[qpn] = channel
        if mine is not None:
            own, peer = runtime.address.leaf, self.peers[peer_host].leaf
            user = ChannelUser(channel, lambda ev: self.denylist.covers(ev, own, peer))
            self.profiles.join(mine, user, now_ns)
        return channel

    def connect(self, runtime: HostRuntime, channel: Channel, peer_host: int, peer: PeerQp, now_ns: int) -> None:
        """Take a queue pair to RTS towards `peer`. Raises RequestError or StateError."""
        if peer_host != channel.peer_host:
            raise RequestError(f"queue pair {channel.qpn:#x} was made for h{channel.peer_host}, not for h{peer_host}")
        channel.qp.connect(peer, now_ns)
        profile = channel.profile
        trimmable = self._trimmable[channel.qpn] and peer.trim_nack
        template_of = partial(self._template, runtime, peer_host, peer.qpn, trimmable=trimmable)
        template = template_of(profile)
        channel = replace(channel, template=template)
        runtime.adopt(channel, self._neighbour(runtime, peer_host, profile), now_ns)
        asking = partial(self._template, runtime, peer_host, ENDPOINT_QPN, trimmable=trimmable)
        runtime.neighbours.probe_as_data(peer_host, trimmable, asking)
        self.profiles.connected(channel, template_of, now_ns)
        self.denylist.apply(channel, runtime.address.leaf, self.peers[peer_host].leaf, now_ns)

    def forget(self, runtime: HostRuntime, channel: Channel) -> None:
        """Remove a destroyed queue pair; a shared window goes with its last user."""
        self._trimmable.pop(channel.qpn, None)
        self.profiles.leave(channel.qpn)
        if all(other.peer_host != channel.peer_host for other in runtime.channels.values()):
            self._shared.pop((runtime.host, channel.peer_host), None)

    def ev_counters(self, runtime: HostRuntime, channel: Channel) -> Iterator[dict[str, Any]]:
        """Return counters of a queue pair per EV; the spine is None for a path that turns at the leaf."""
        counters = channel.qp.ev_counters()
        columns = tuple(getattr(counters, name) for name in _EV_COLUMNS)
        states, active = channel.qp.ev_states()
        reverse = channel.qp.reverse_rows()
        named = zip(channel.profile.evs.tolist(), states.tolist(), active.tolist(), strict=True)
        rows = zip(named, *(column.tolist() for column in columns), strict=True)
        for row, ((ev, state, is_active), *counts) in enumerate(rows):
            path = self.codec.path_of(ev)
            yield {
                "host": runtime.host,
                "qpn": channel.qpn,
                "ev": ev,
                "plane": path.plane,
                "spine": path.spine,
                "state": EvState(state).name,
                "active": is_active,
                "reverse": row in reverse,
                **dict(zip(_EV_COLUMNS, counts, strict=True)),
            }

    def new_profile(self, runtime: HostRuntime, peer_host: int, modify_online: bool) -> int:
        """Create a controlled EV profile in INIT for paths to `peer_host`; return its number. Raises RequestError."""
        rng = np.random.default_rng((self.seed, runtime.host, peer_host, _PICKING))
        control = ControlledProfile(self._paths(runtime, peer_host).controlled(), rng, modify_online)
        return self.profiles.add(runtime.host, peer_host, control)

    def _controlled(self, runtime: HostRuntime, peer_host: int, number: int) -> HostProfile:
        found = self.profiles.get(runtime.host, number)
        if found.peer_host != peer_host:
            raise RequestError(
                f"EV profile {number} of h{runtime.host} leads to h{found.peer_host}, not to h{peer_host}"
            )
        return found

    def _profile(self, runtime: HostRuntime, peer_host: int, settings: QpSettings, qpn: int) -> EvProfile:
        rng = np.random.default_rng((self.seed, runtime.host, qpn, _PICKING))
        return self._paths(runtime, peer_host).profile(settings.profile, settings.copies, rng)

    def _paths(self, runtime: HostRuntime, peer_host: int) -> Paths:
        if peer_host not in self.peers:
            raise RequestError(f"h{peer_host} is not a host of this lab")
        if peer_host == runtime.host:
            raise RequestError(f"h{peer_host} cannot be its own peer")
        leaf = runtime.address.leaf
        return Paths(self.fabric, leaf, self.peers[peer_host].leaf == leaf, self.codec)

    def _neighbour(self, runtime: HostRuntime, peer_host: int, profile: EvProfile) -> Neighbour:
        template = self._template(runtime, peer_host, ENDPOINT_QPN, profile)
        return Neighbour.of(peer_host, self.peers[peer_host].address, profile, template)

    def _stranger(self, runtime: HostRuntime, address: bytes) -> Neighbour | None:
        """Find the host of an inner address, over every path to it; None if no other host of the lab has it."""
        for host, peer in self.peers.items():
            if peer.address == address and host != runtime.host:
                return self._neighbour(runtime, host, self._profile(runtime, host, QpSettings(), 0))
        return None

    def _control(self, runtime: HostRuntime, peer_host: int, settings: QpSettings) -> CongestionControl | None:
        """Return the window of a new queue pair: none, its own, or the one shared by all queue pairs to that peer."""
        if settings.nscc is None:
            return None
        pair = runtime.host, peer_host
        if settings.shared_window and pair in self._shared:
            return self._shared[pair]
        config = msgspec.structs.replace(settings.nscc, trimming=settings.trimming)
        control = Nscc(config, settings.core.pmtu + NOMINAL_HEADER_BYTES, self.fabric.planes)
        if settings.shared_window:
            self._shared[pair] = control
        return control

    def _template(
        self, runtime: HostRuntime, peer_host: int, dqpn: int, profile: EvProfile, trimmable: bool = False
    ) -> FlowTemplate:
        return FlowTemplate.for_peer(
            runtime.address,
            self.peers[peer_host],
            dqpn,
            profile.evs,
            dscp=Dscp.TRIMMABLE if trimmable else Dscp.NO_TRIM,
            retransmission_dscp=Dscp.TRIMMABLE_RETX if trimmable else None,
            udp_port=self.udp_port,
            codec=self.codec,
        )


def _next_free(last: dict[int, int], host: int, bits: int, used: Container[int], what: str) -> int:
    """Return `host` before a number of `bits` bits other than 0, in turn; free numbers are used again.

    Raises RequestError when all are used.
    """
    most = (1 << bits) - 1
    for step in range(most):
        number = (last.get(host, 0) + step) % most + 1
        if (whole := host << bits | number) not in used:
            last[host] = number
            return whole
    raise RequestError(f"h{host} has {most} {what} already")
