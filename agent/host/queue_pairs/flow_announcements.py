"""Announcements of flows to leaves: before a flow's first packet, and after its last with the packets per path.

A closing announcement leaves on every path behind all first transmissions, so on a path that keeps order it is a
barrier. It is sent in several copies, in different turns, since a path that loses packets loses these too. A whole
plane may lose them all, so each plane's announcement is also sent in all other planes, where it only reports what was
sent.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agent.core.psn import psn_of
from agent.core.send.messages import FlowShare
from agent.io.host_runtime import Channel, HostRuntime
from agent.wire.array.columns import Announcement
from agent.wire.array.template import HostAddress
from agent.wire.constants import AnnounceKind
from agent.wire.ev import EvCodec

CLOSING_COPIES = 3
"""Copies of every closing announcement on every path, each in another turn (a control period, 5 ms). Our choice: a path
that drops a tenth of its packets still delivers one in 999 of 1000 flows; where none arrives, the leaf waits until the
path is quiet."""


@dataclass(slots=True)
class _OpenFlow:
    """A flow that was announced and whose last closing copy was not sent yet."""

    runtime: HostRuntime
    channel: Channel
    first: int
    announced: Sequence[Announcement]
    """One announcement per plane."""
    closing: list[list[tuple[int, bytes]]] | None = None
    """(plane, frame) for each turn to come; None until all packets have left."""


class Announcements:
    """Announces and closes the flows of one worker's hosts."""

    def __init__(self, spines: int, peers: dict[int, HostAddress], codec: EvCodec) -> None:
        self._spines = spines
        self._peers = peers
        self._codec = codec
        self._open: list[_OpenFlow] = []

    def announce(self, runtime: HostRuntime, channel: Channel, epoch: int, packets: int) -> None:
        """Queue the announcement of the next `packets` packets to be posted: one on every path of every plane.

        A pair of hosts below one leaf crosses no spine and is not announced.
        """
        qp, first = channel.qp, channel.qp.posted_pkts
        if runtime.address.leaf == self._peers[channel.peer_host].leaf:
            return
        announced = [
            Announcement(
                epoch=epoch,
                plane=share.plane,
                policy=qp.config.policy.code,
                spines=self._spines,
                src_leaf=runtime.address.leaf,
                dst_leaf=self._peers[channel.peer_host].leaf,
                src_host=runtime.host,
                dst_host=channel.peer_host,
                dqpn=channel.template.dqpn,
                start_psn=psn_of(first, qp.start_psn),
                packets=share.packets,
                last_psn=share.last_psn,
                end_psn=psn_of(first + packets - 1, qp.start_psn),
            )
            for share in qp.plane_shares(first, packets)
        ]
        for announcement in announced:
            for frame in self._frames(runtime, channel, announcement, None):
                runtime.send_frame(announcement.plane, frame)
        qp.watch(first, packets)
        self._open.append(_OpenFlow(runtime, channel, first, announced))

    def turn(self) -> None:
        """Close flows that have left since the last turn, one copy per turn. Call this every control period."""
        if not self._open:
            return
        for channel in {id(flow.channel.qp): flow.channel for flow in self._open}.values():
            for share in channel.qp.drain_watched():
                self._close(channel, share)
        for flow in self._open:
            for plane, frame in flow.closing.pop() if flow.closing else ():
                flow.runtime.send_frame(plane, frame)
        self._open = [flow for flow in self._open if flow.closing != [] and _lives(flow)]

    def _close(self, channel: Channel, share: FlowShare) -> None:
        for flow in self._open:
            if flow.channel.qp is channel.qp and flow.first == share.first:
                turns: list[list[tuple[int, bytes]]] = [[] for _ in range(CLOSING_COPIES)]
                for each in flow.announced:
                    shares = self._by_spine(channel, share, each.plane)
                    frames = self._frames(flow.runtime, channel, each, shares)
                    for turn, elsewhere in zip(turns, self._elsewhere(flow, each, shares), strict=True):
                        turn += [*((each.plane, frame) for frame in frames), *elsewhere]
                flow.closing = turns

    def _elsewhere(
        self, flow: _OpenFlow, said: Announcement, shares: NDArray[np.int64]
    ) -> Iterator[list[tuple[int, bytes]]]:
        """Return frames of one plane's announcement for the other planes.

        One per plane and turn, over another spine each time.

        One path per plane is enough: a plane that loses all three copies is itself faulty, and the others carry them.
        """
        planes = [each.plane for each in flow.announced if each.plane != said.plane]
        for turn in range(CLOSING_COPIES):
            spine = (said.src_host + turn) % self._spines
            evs = np.array([self._codec.ev_of(plane, spine, said.src_leaf) for plane in planes], np.uint32)
            source, peer = flow.runtime.address, self._peers[flow.channel.peer_host]
            kind = AnnounceKind.ELSEWHERE
            announce = flow.runtime.codec.encode_announcements
            frames = announce(source, peer, evs, said, shares, self._codec, kind) if planes else []
            yield list(zip(planes, frames, strict=True))

    def _by_spine(self, channel: Channel, share: FlowShare, plane: int) -> NDArray[np.int64]:
        """Count (k,) first transmissions over each spine of a plane; copies of a path are added."""
        mine = channel.profile.planes == plane
        spines = self._codec.spine_of(channel.profile.evs[mine])
        return np.bincount(spines, weights=share.tx_first[mine], minlength=self._spines).astype(np.int64)

    def _frames(
        self, runtime: HostRuntime, channel: Channel, said: Announcement, shares: NDArray[np.int64] | None
    ) -> list[bytes]:
        """Build one frame for every path of the announcement's plane."""
        evs = [self._codec.ev_of(said.plane, spine, said.src_leaf) for spine in range(self._spines)]
        peer = self._peers[channel.peer_host]
        return runtime.codec.encode_announcements(
            runtime.address, peer, np.array(evs, np.uint32), said, shares, self._codec
        )


def _lives(flow: _OpenFlow) -> bool:
    """Report whether the queue pair still exists: a flow whose queue pair was destroyed is never closed."""
    known = flow.runtime.channels.get(flow.channel.qpn)
    return known is not None and known.qp is flow.channel.qp
