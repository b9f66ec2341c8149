"""Makes queue pairs and what surrounds them from settings: EV sets, templates, numbers, keys, announcements.

Numbers are unique in a lab because a host's index is part of them, so workers need not agree on anything.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import numpy as np

from agent.core.config import MPR_UNIT_PSNS, EvProfile, PeerQp, QpConfig, SprayPolicy
from agent.core.psn import psn_of
from agent.core.qp import QueuePair
from agent.host.errors import RequestError
from agent.host.requests import QpSettings
from agent.host.settings import FabricSettings
from agent.io.runtime import Channel, HostRuntime
from agent.wire.columns import Announcement
from agent.wire.constants import Dscp, SprayPolicyCode
from agent.wire.encode import encode_announcement
from agent.wire.ev import EvCodec
from agent.wire.template import FlowTemplate, HostAddress

_QPN_BITS = 12
"""A QP number is host << 12 | n: 4095 QPs on each of 4096 hosts. Our choice; SprayCheck keys by it."""

_REGION_ALIGN = 1 << 21
"""Regions begin on 2 MiB boundaries of a host's address space. Our choice: addresses read by eye."""

_LEAST_MPR = 8
"""Endpoints should support a window of 1024 PSNs (mrc.md section 7)."""

_POLICY_CODE = {SprayPolicy.ROTATION: SprayPolicyCode.ROTATION, SprayPolicy.RANDOM: SprayPolicyCode.RANDOM}


@dataclass(slots=True)
class Wiring:
    """Creates and connects queue pairs of one worker's hosts."""

    fabric: FabricSettings
    peers: dict[int, HostAddress]
    """Where every host of the lab is."""
    seed: int
    udp_port: int
    codec: EvCodec = field(default_factory=EvCodec)
    _qp_numbers: dict[int, Iterator[int]] = field(default_factory=dict)
    _regions: dict[int, Iterator[int]] = field(default_factory=dict)
    _next_va: dict[int, int] = field(default_factory=dict)

    def next_key(self, host: int, size: int) -> tuple[int, int]:
        """Address and key for a new region of `size` bytes on `host`: (va, rkey)."""
        va = self._next_va.get(host, 1 << 32)
        self._next_va[host] = va + -(-size // _REGION_ALIGN) * _REGION_ALIGN
        number = next(self._regions.setdefault(host, count(1)))
        return va, host << 16 | number

    def create(self, runtime: HostRuntime, peer_host: int, settings: QpSettings) -> Channel:
        """A queue pair in INIT on `runtime` towards `peer_host`. Raises RequestError or ConfigError."""
        qpn = runtime.host << _QPN_BITS | next(self._qp_numbers.setdefault(runtime.host, count(1)))
        profile = self._profile(runtime, peer_host, settings.copies)
        rng = np.random.default_rng((self.seed, runtime.host, qpn))
        qp = QueuePair(qpn, _config_of(settings), profile, runtime.regions, rng)
        channel = Channel(qpn, peer_host, qp, profile, self._template(runtime, peer_host, 0, profile))
        runtime.channels[qpn] = channel
        return channel

    def connect(self, runtime: HostRuntime, channel: Channel, peer_host: int, peer: PeerQp, now_ns: int) -> None:
        """Take a queue pair to RTS towards `peer`. Raises RequestError or StateError."""
        if peer_host != channel.peer_host:
            raise RequestError(f"queue pair {channel.qpn:#x} was made for h{channel.peer_host}, not for h{peer_host}")
        channel.qp.connect(peer, now_ns)
        template = self._template(runtime, peer_host, peer.qpn, channel.profile)
        runtime.channels[channel.qpn] = replace(channel, template=template)

    def announce(self, runtime: HostRuntime, channel: Channel, epoch: int, packets: int) -> None:
        """Queue the announcement of the next `packets` packets to be posted: one on every path of every plane.

        A pair below one leaf crosses no spine and is not announced.
        """
        source, peer = runtime.address, self.peers[channel.peer_host]
        if source.leaf == peer.leaf:
            return
        start = channel.qp.posted_pkts
        for share in channel.qp.plane_shares(start, packets):
            announcement = Announcement(
                epoch=epoch,
                plane=share.plane,
                policy=_POLICY_CODE[channel.qp.config.policy],
                spines=self.fabric.spines,
                src_leaf=source.leaf,
                dst_leaf=peer.leaf,
                src_host=runtime.host,
                dst_host=channel.peer_host,
                dqpn=channel.template.dqpn,
                start_psn=psn_of(start, channel.qp.start_psn),
                packets=share.packets,
                last_psn=share.last_psn,
            )
            for spine in range(self.fabric.spines):
                ev = self.codec.ev_of(share.plane, spine, source.leaf)
                runtime.send_frame(share.plane, encode_announcement(source, peer, ev, announcement, self.codec))

    def ev_counters(self, runtime: HostRuntime, channel: Channel) -> Iterator[dict[str, Any]]:
        """What a queue pair counted, EV by EV; the spine is None for a path that turns at the leaf."""
        counters = channel.qp.ev_counters()
        columns = (counters.tx_first, counters.tx_rtx, counters.acked, counters.lost, counters.timed_out)
        for ev, *counts in zip(channel.profile.evs.tolist(), *(column.tolist() for column in columns), strict=True):
            path = self.codec.path_of(ev)
            yield {
                "host": runtime.host,
                "qpn": channel.qpn,
                "ev": ev,
                "plane": path.plane,
                "spine": path.spine,
                **dict(zip(("tx_first", "tx_rtx", "acked", "lost", "timed_out"), counts, strict=True)),
            }

    def _profile(self, runtime: HostRuntime, peer_host: int, copies: int) -> EvProfile:
        """EVs of all paths to a peer, each `copies` times."""
        if peer_host not in self.peers:
            raise RequestError(f"h{peer_host} is not a host of this lab")
        if peer_host == runtime.host:
            raise RequestError(f"h{peer_host} cannot be its own peer")
        if copies < 1:
            raise RequestError(f"copies is {copies}, must be at least 1")
        leaf = runtime.address.leaf
        local = self.peers[peer_host].leaf == leaf
        turns: list[int | None] = [None] if local else [*range(self.fabric.spines)]
        evs = [
            self.codec.ev_of(plane, spine, leaf, copy)
            for copy in range(copies)
            for plane in range(self.fabric.planes)
            for spine in turns
        ]
        values = np.array(evs, np.uint32)
        return EvProfile(values, self.codec.plane_of(values))

    def _template(self, runtime: HostRuntime, peer_host: int, dqpn: int, profile: EvProfile) -> FlowTemplate:
        return FlowTemplate.for_peer(
            runtime.address,
            self.peers[peer_host],
            dqpn,
            profile.evs,
            dscp=Dscp.NO_TRIM,
            udp_port=self.udp_port,
            codec=self.codec,
        )


def _config_of(settings: QpSettings) -> QpConfig:
    """With what the request leaves open taken from QpConfig's defaults; both ends offer a window's worth of PSNs."""
    mpr = max(_LEAST_MPR, -(-settings.window_pkts // MPR_UNIT_PSNS))
    optional = ("start_psn", "sack_delay_ns", "ack_timeout_ns", "linear_cnt", "exp_cnt")
    given = {name: getattr(settings, name) for name in optional if getattr(settings, name) is not None}
    return QpConfig(
        pmtu=settings.pmtu,
        window_pkts=settings.window_pkts,
        mpr=mpr,
        mpr_dest=mpr,
        policy=SprayPolicy(settings.policy),
        seed=settings.seed,
        **given,
    )
