"""Links that no queue pair of this worker may use (a controller's list), the EVs that cross them, and their probes.

Probes show a controller when a link delivers again. They are EV probes of the host pair, which belong to no queue pair:
no queue pair uses a denied value. One probe per link and control period of this worker; sources and destinations take
turns. This module counts; the controller decides.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from agent.host.control.requests import DeniedLink
from agent.io.host_runtime import Channel, HostRuntime
from agent.io.peers import Neighbour
from agent.wire.ev import EvCodec


@dataclass(slots=True)
class Denylist:
    """The denylist in force. Rows of an EV profile are denied while their path crosses one of its links."""

    codec: EvCodec
    links: frozenset[DeniedLink] = field(default_factory=frozenset)

    def change(self, links: Iterable[DeniedLink], channels: Iterable[tuple[Channel, int, int]], now_ns: int) -> int:
        """Replace the list by `links`, for (queue pair, its leaf, its peer's leaf); return the number of denied EVs."""
        before, self.links = self.links, frozenset(links)
        denied = 0
        for channel, own, peer in channels:
            old, new = (self._rows(channel, own, peer, each) for each in (before, self.links))
            channel.qp.allow(np.setdiff1d(old, new), now_ns)
            channel.qp.deny(np.setdiff1d(new, old), now_ns)
            denied += len(new)
        return denied

    def apply(self, channel: Channel, own: int, peer: int, now_ns: int) -> None:
        """Apply the list to a new queue pair."""
        if self.links:
            channel.qp.deny(self._rows(channel, own, peer, self.links), now_ns)

    def covers(self, ev: int, own: int, peer: int) -> bool:
        """Report whether the path of a value from leaf `own` to leaf `peer` crosses a denied link."""
        return bool(len(self._crossing(np.array([ev], np.uint32), own, peer, self.links)))

    def _rows(self, channel: Channel, own: int, peer: int, links: frozenset[DeniedLink]) -> NDArray[np.int64]:
        """Return EV rows whose path crosses any of the links on its way from leaf `own` to leaf `peer`."""
        return self._crossing(channel.profile.evs, own, peer, links)

    def _crossing(
        self, evs: NDArray[np.uint32], own: int, peer: int, links: frozenset[DeniedLink]
    ) -> NDArray[np.int64]:
        spines, planes = self.codec.spine_of(evs), self.codec.plane_of(evs)
        crossed = np.zeros(len(evs), np.bool_)
        for link in links:
            if link.leaf == (own if link.up else peer):
                crossed |= (planes == link.plane) & (spines == link.spine)
        return np.flatnonzero(crossed)


@dataclass(slots=True)
class LinkTally:
    """Results of probes over one link since its probing began."""

    answered: int = 0
    lost: int = 0
    turn: int = 0
    """Number of probes requested; selects the source and destination of the next one."""


@dataclass(slots=True)
class LinkProbes:
    """Link probes of one worker's hosts."""

    codec: EvCodec
    leaf_of: Mapping[int, int]
    """Leaf of every host of the lab."""
    tallies: dict[DeniedLink, LinkTally] = field(default_factory=dict)

    def probe(self, links: Iterable[DeniedLink]) -> None:
        """Probe these links from now on instead of the previous ones; results of links that stay are kept."""
        self.tallies = {link: self.tallies.get(link, LinkTally()) for link in links}

    def turn(self, hosts: Collection[HostRuntime]) -> None:
        """Process the hosts' answers and send the next probes. Call this every control period."""
        if not self.tallies:
            return
        for runtime in hosts:
            for peer, ev, answered in runtime.drain_path_answers():
                self._learn(runtime.address.leaf, self.leaf_of[peer], ev, answered)
        for link, tally in self.tallies.items():
            ways = list(self._ways(link, hosts))
            if ways:
                runtime, neighbour, ev = ways[tally.turn % len(ways)]
                runtime.neighbours.check(neighbour.host, ev)
                tally.turn += 1

    def _ways(self, link: DeniedLink, hosts: Collection[HostRuntime]) -> Iterator[tuple[HostRuntime, Neighbour, int]]:
        """Return pairs of hosts between which a link can be probed, and the value whose path crosses it."""
        for runtime in hosts:
            own = runtime.address.leaf
            ev = self.codec.ev_of(link.plane, link.spine, own)
            for neighbour in runtime.neighbours:
                peer = self.leaf_of[neighbour.host]
                if own != peer and (own if link.up else peer) == link.leaf and ev in neighbour.rows:
                    yield runtime, neighbour, ev

    def _learn(self, own: int, peer: int, ev: int, answered: bool) -> None:
        path = self.codec.path_of(ev)
        if path.spine is None:
            return
        plane, spine = path.plane, path.spine
        for link in (DeniedLink(plane, own, spine, up=True), DeniedLink(plane, peer, spine, up=False)):
            if (tally := self.tallies.get(link)) is not None:
                tally.answered += answered
                tally.lost += not answered
