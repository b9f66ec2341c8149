"""Links that no queue pair of this worker may use (a controller's list), and the EVs that cross them."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from agent.host.control.requests import DeniedLink
from agent.io.runtime import Channel
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
