"""Probes over denied links, so that a controller knows when they deliver again.

They are EV probes of the host pair, which belong to no queue pair: no queue pair uses a denied value. One probe per
link and control period of this worker; sources and destinations take turns. This module counts; the controller decides.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from agent.host.control.requests import DeniedLink
from agent.io.neighbours import Neighbour
from agent.io.runtime import HostRuntime
from agent.wire.ev import EvCodec


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
