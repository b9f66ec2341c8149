"""Activity records of queue pairs since the last look, from their counters: one record covers many packets.

Costs nothing between two looks. Knows the names of records (docs/results-schema.md), not how they are written.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agent.core.counters import Progress
from agent.io.host_runtime import Channel, HostRuntime
from agent.io.peers import Neighbour
from agent.wire.ev import EvCodec

_CODEC = EvCodec()
_KEPT = 1 << 16
"""Values whose paths are cached: records name the same ones again and again. Our choice, above what a worker uses."""


def ev_text(ev: int) -> str:
    """Format a value as `0xc0001005`."""
    return f"{ev:#010x}"


def paths_of(evs: Iterable[int]) -> dict[str, list[Any]]:
    """Return `planes` and `spines` in the order of `evs`; spine None where a path turns at a leaf."""
    paths = [_path(ev) for ev in evs]
    return {"planes": [plane for plane, _ in paths], "spines": [spine for _, spine in paths]}


def path_of(ev: int, prefix: str) -> dict[str, Any]:
    """Return plane and spine of one value, their names after `prefix`."""
    plane, spine = _path(ev)
    return {f"{prefix}_plane": plane, f"{prefix}_spine": spine}


@lru_cache(_KEPT)
def _path(ev: int) -> tuple[int, int | None]:
    words = np.array([ev], np.uint32)
    spine = int(_CODEC.spine_of(words)[0])
    return int(_CODEC.plane_of(words)[0]), spine if spine >= 0 else None


Fields = dict[str, Any]
_Totals = dict[str, dict[str, int]]
"""Counters that only grow, by record."""


@dataclass(frozen=True, slots=True)
class Act:
    """One record to write; `qpn` is None if it is about a pair of hosts."""

    host: int
    qpn: int | None
    event: str
    fields: Fields


class Activity:
    """Remembers the last reported counters of each queue pair and each neighbour."""

    def __init__(self) -> None:
        self._reported: dict[tuple[int, int], _Totals] = {}
        self._probes: dict[tuple[int, int], NDArray[np.int64]] = {}
        self._cwnd: dict[tuple[int, int], int] = {}

    def news(self, hosts: Iterable[HostRuntime]) -> Iterator[Act]:
        """Return what has grown or changed since the last call, per queue pair."""
        for runtime in hosts:
            for channel in runtime.channels.values():
                yield from self._of_channel(runtime.host, channel)
            for neighbour in runtime.neighbours:
                key = runtime.host, -1 - neighbour.host
                for event, grown in self._grown(key, _neighbour_totals(neighbour)):
                    yield Act(runtime.host, None, event, {"peer": neighbour.host, **grown})

    def _of_channel(self, host: int, channel: Channel) -> Iterator[Act]:
        key, progress = (host, channel.qpn), channel.qp.progress()
        for event, grown in self._grown(key, _totals(progress)):
            yield Act(host, channel.qpn, event, grown | self._beside(event, key, channel, progress))
        if progress.cwnd_bytes is not None and self._cwnd.get(key) != progress.cwnd_bytes:
            self._cwnd[key] = progress.cwnd_bytes
            cwnd = {"cwnd_bytes": progress.cwnd_bytes, "in_flight_bytes": progress.cwnd_in_flight_bytes}
            yield Act(host, channel.qpn, "CWND", cwnd)

    def _grown(self, key: tuple[int, int], totals: _Totals) -> Iterator[tuple[str, Fields]]:
        reported = self._reported.get(key, {})
        self._reported[key] = totals
        for event, counts in totals.items():
            before = reported.get(event, {})
            grown = {name: count - before.get(name, 0) for name, count in counts.items()}
            if any(grown.values()):
                yield event, grown

    def _beside(self, event: str, key: tuple[int, int], channel: Channel, progress: Progress) -> Fields:
        """Return the present values that a record carries besides the growth."""
        match event:
            case "SACK_TX":
                return {"cack_psn": progress.cack_psn, "held": progress.held_pkts}
            case "SACK_RX":
                return {"in_flight": progress.in_flight_pkts, "backlog": progress.backlog_pkts}
            case "RTT":
                rtt = progress.rtt
                return {"smoothed_ns": rtt.smoothed_ns, "deviation_ns": rtt.deviation_ns, "least_ns": rtt.least_ns}
            case "PROBE_TX":
                return self._probed(key, channel)
        return {}

    def _probed(self, key: tuple[int, int], channel: Channel) -> Fields:
        probes = channel.qp.ev_counters().probes
        grown = probes - self._probes.get(key, 0)
        self._probes[key] = probes
        rows = np.flatnonzero(grown)
        evs = channel.profile.evs[rows].tolist()
        counts = zip(map(ev_text, evs), grown[rows].tolist(), strict=True)
        return {"evs": dict(counts), **paths_of(evs)}


def _totals(progress: Progress) -> _Totals:
    requester, responder = progress.requester, progress.responder
    return {
        "WRITE_TX": {"packets": requester.packets_tx, "resends": requester.packets_rtx},
        "WRITE_RX": {
            "packets": responder.received,
            "bytes": responder.received_bytes,
            "duplicates": responder.duplicates,
            "out_of_window": responder.out_of_window,
            "trimmed": responder.trimmed,
            "marked": responder.ce_marked,
        },
        "SACK_TX": {"packets": responder.sacks},
        "SACK_RX": {"packets": requester.sacks, "stale": requester.sacks_stale, "rejected": requester.sacks_rejected},
        "NACK_TX": {"packets": responder.nacks},
        "NACK_RX": {"obeyed": requester.nacked, "stale": requester.nacks_stale},
        "ACK_TX": {"packets": responder.acks},
        "ACK_RX": {"packets": requester.acks, "rejected": requester.acks_rejected},
        "PROBE_TX": {"packets": requester.probes, "answered": requester.probes_answered},
        "PROBE_RX": {"packets": responder.probes},
        "RTT": {"samples": progress.rtt.samples},
    }


def _neighbour_totals(neighbour: Neighbour) -> _Totals:
    endpoint = neighbour.endpoint
    return {
        "EV_PROBE_TX": {"packets": endpoint.probes_sent, "answered": endpoint.probes_answered},
        "PORT_STATUS_TX": {"packets": endpoint.updates_sent},
        "PORT_STATUS_RX": {"packets": endpoint.peer_ports.updates},
    }
