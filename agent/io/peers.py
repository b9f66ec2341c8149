"""Hosts with which one host has queue pairs, or that probe it without one, and the endpoint packets between them.

Connects `agent.core.host_pair` with addresses and templates; decides nothing about probes or ports.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from agent.core.ev.profile_sources import EvProfile
from agent.core.ev.reverse_evs import Ways
from agent.core.host_pair import Endpoint, EvProbeAnswer
from agent.wire.array.control_columns import (
    EndpointRequestBatch,
    EndpointRequestColumns,
    EndpointResponseBatch,
    EndpointResponseColumns,
)
from agent.wire.array.template import FlowTemplate
from agent.wire.constants import ENDPOINT_QPN

_NEVER_NS = 1 << 62

Batch = EndpointRequestBatch | EndpointResponseBatch


@dataclass(frozen=True, slots=True, eq=False)
class Neighbour:
    """One other host."""

    host: int
    address: bytes
    """Its inner address, 16 bytes."""
    profile: EvProfile
    template: FlowTemplate
    """Template of packets to its endpoint (ENDPOINT_QPN) over the profile's EVs."""
    endpoint: Endpoint
    rows: dict[int, int]
    """Row of each EV in the profile."""
    trimmable: bool = False
    """The template's class is TRIMMABLE: EV probes use the class of the data whose paths they test."""

    @classmethod
    def of(cls, host: int, address: bytes, profile: EvProfile, template: FlowTemplate) -> "Neighbour":
        """Create a neighbour without any history."""
        # A queue pair may change the values of its profile; this copy stays as the template is.
        profile = EvProfile(profile.evs.copy(), profile.planes)
        rows = {ev: row for row, ev in enumerate(profile.evs.tolist())}
        return cls(host, address, profile, template, Endpoint(profile), rows)


@dataclass(slots=True)
class Neighbours:
    """All neighbours of one host, by address."""

    introduce: Callable[[bytes], Neighbour | None] | None = None
    """Finds the host of an address, with or without a queue pair; returns None if it is not in this lab."""
    unknown: int = 0
    """Endpoint packets from unknown addresses, and answers from hosts with which we have no queue pair."""
    _quiet_until_ns: int = 0
    _by_host: dict[int, Neighbour] = field(default_factory=dict)
    _by_address: dict[bytes, Neighbour] = field(default_factory=dict)
    _strangers: dict[bytes, Neighbour] = field(default_factory=dict)
    """Hosts without a queue pair that sent a request: they get answers, but no updates (MRC 5.2)."""
    _up: NDArray[np.bool_] = field(default_factory=lambda: np.ones(256, np.bool_))
    _mask: int = 0
    """Our port mask as last announced."""

    def __iter__(self) -> Iterator[Neighbour]:
        """Iterate in the order they were added."""
        return iter(self._by_host.values())

    def meet(self, neighbour: Neighbour, now_ns: int) -> int | None:
        """Add a neighbour, unless its host is known already, and make sure that it knows our ports.

        Returns its own port mask, bit N for port N, if it has sent one, even before it was added.
        """
        self._quiet_until_ns = 0
        known = self._by_host.setdefault(neighbour.host, neighbour)
        self._by_address[known.address] = known
        if (stranger := self._strangers.pop(known.address, None)) is not None:
            known.endpoint.peer_ports = stranger.endpoint.peer_ports
        known.endpoint.greet(self._mask, self._up, now_ns)
        return known.endpoint.peer_ports.mask

    def probe_as_data(self, host: int, trimmable: bool, template_of: Callable[[EvProfile], FlowTemplate]) -> None:
        """Send EV probes in the class of the newest queue pair's data: `trimmable` or not (MRC 3.1)."""
        neighbour = self._by_host[host]
        if neighbour.trimmable != trimmable:
            changed = replace(neighbour, trimmable=trimmable, template=template_of(neighbour.profile))
            self._by_host[host] = self._by_address[neighbour.address] = changed

    def probe(self, host: int, ev: int, qpn: int) -> None:
        """Send an EV probe for a queue pair; an EV that is not in the neighbour's profile is not probed."""
        self._quiet_until_ns = 0
        neighbour = self._by_host.get(host)
        if neighbour is not None and ev in neighbour.rows:
            neighbour.endpoint.probe(neighbour.rows[ev], qpn)

    def check(self, host: int, ev: int) -> None:
        """Send an EV probe for a controller, as `probe` does."""
        self.probe(host, ev, ENDPOINT_QPN)

    def tell_ports(self, up: NDArray[np.bool_], planes: list[int], now_ns: int) -> None:
        """Announce our ports, `up` (256,) by plane, to all neighbours."""
        self._quiet_until_ns = 0
        self._up, self._mask = up.copy(), sum(2 << plane for plane in planes if up[plane])
        for neighbour in self:
            neighbour.endpoint.tell_ports(self._mask, up, now_ns)
        for stranger in self._strangers.values():
            stranger.endpoint.follow(up, [])

    def receive_requests(self, cols: EndpointRequestColumns) -> list[tuple[int, int]]:
        """Process requests; return (host, port mask) of those whose ports changed."""
        self._quiet_until_ns = 0
        changed = []
        for neighbour, rows in self._senders(cols.source_address, self._anyone):
            if neighbour.endpoint.receive_requests(cols.take(rows)) and neighbour.endpoint.peer_ports.mask is not None:
                changed.append((neighbour.host, neighbour.endpoint.peer_ports.mask))
        return changed

    def receive_responses(self, cols: EndpointResponseColumns, now_ns: int) -> None:
        """Process answers."""
        self._quiet_until_ns = 0
        for neighbour, rows in self._senders(cols.source_address, self._by_address.get):
            neighbour.endpoint.receive_responses(cols.take(rows), now_ns)

    def owed_answers(self) -> list[int]:
        """Return hosts whose requests wait for an answer."""
        return [neighbour.host for neighbour in self if neighbour.endpoint.owes_answers]

    def follow(self, host: int, ways: Sequence[Ways]) -> None:
        """Send answers to a host over paths on which all our queue pairs to it see data arriving."""
        neighbour = self._by_host[host]
        newest = max(ways, key=lambda way: way.learnt_ns)
        live = np.logical_and.reduce([way.live for way in ways])
        neighbour.endpoint.follow(live, [neighbour.rows[ev] for ev in newest.evs if ev in neighbour.rows])

    def are_due(self, now_ns: int) -> bool:
        """Report whether answers to peers, `batches` or `answers` may be due."""
        return now_ns >= self._quiet_until_ns

    def rest(self) -> None:
        """Mark all as idle: nothing is due before a new event or the next deadline."""
        deadline_ns = self.next_deadline_ns()
        self._quiet_until_ns = _NEVER_NS if deadline_ns is None else deadline_ns

    def batches(self, now_ns: int) -> Iterator[tuple[FlowTemplate, Batch]]:
        """Return the batches to send, each with its template."""
        for neighbour in (*self, *self._strangers.values()):
            for batch in neighbour.endpoint.batches(now_ns):
                yield neighbour.template, batch

    def answers(self, now_ns: int) -> Iterator[tuple[int, int, EvProbeAnswer]]:
        """Return EV probes that were answered or timed out, with the host and the EV."""
        for neighbour in self:
            for answer in neighbour.endpoint.drain_answers(now_ns):
                yield neighbour.host, int(neighbour.profile.evs[answer.row]), answer

    def next_deadline_ns(self) -> int | None:
        """Earliest time at which something is due although nothing arrives."""
        due = [neighbour.endpoint.next_deadline_ns() for neighbour in self]
        return min((time for time in due if time is not None), default=None)

    def _anyone(self, address: bytes) -> Neighbour | None:
        """Find the neighbour or unknown host of an address."""
        known = self._by_address.get(address) or self._strangers.get(address)
        if known is None and self.introduce is not None and (known := self.introduce(address)) is not None:
            known.endpoint.follow(self._up, [])
            self._strangers[address] = known
        return known

    def _senders(
        self, addresses: NDArray[np.uint8], who: Callable[[bytes], Neighbour | None]
    ) -> Iterator[tuple[Neighbour, NDArray[np.intp]]]:
        rows_of: defaultdict[bytes, list[int]] = defaultdict(list)
        # One iteration per packet: endpoint packets come about one per round trip and neighbour.
        for row, address in enumerate(addresses):
            rows_of[address.tobytes()].append(row)
        for sender, rows in rows_of.items():
            neighbour = who(sender)
            if neighbour is None:
                self.unknown += len(rows)
            else:
                yield neighbour, np.array(rows)
