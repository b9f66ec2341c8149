"""Computes what is shown from consecutive readings of a lab: differences, sums of the latest run, accusations, and
entropy values that agents retire and use again.

It uses no clock and no files: a reading states its time.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator

from agent.wire.detect_records import Localize
from results.detect_log import Said, lines_in
from results.files.event_log import Fields
from results.text import open_sets
from scenarios.lab.protocol import RUNNING, STOPPED, FaultState, LabStatus
from scenarios.watch.link_loss import LinkLoss, PathCount, PathId, link_losses
from scenarios.watch.snapshot import (
    Detection,
    EvReading,
    FaultView,
    FlowView,
    HostEvs,
    LinkView,
    PlannedView,
    QpReading,
    Reading,
    View,
)
from testbed.model.fabric import Fabric
from testbed.model.node_names import DirectedLink, NodeId, Role

MOST_DETECTIONS = 100
"""Most detections kept; more than any screen is high (our choice)."""

_GOOD = "GOOD"
_ACTS = {"DENY": "denied by", "ALLOW": "allowed again by", "DENY_REFUSED": "not denied, too few would be left, for"}

_Qp = tuple[int, int]


class Tally:
    """Keeps the last reading, and what the latest run sent, lost, judged and accused."""

    def __init__(self, fabric: Fabric) -> None:
        between = (link for link in fabric.links() if link.lower.role is Role.LEAF)
        self._between = {str(way): way for link in between for way in link.directions}
        self._run = -1
        self._deciding: str | None = None
        """The expectation whose verdicts are counted."""
        self._last: Reading | None = None
        self._acked: dict[_Qp, int] = {}
        self._counted: dict[tuple[int, int, int], PathCount] = {}
        self._paths: dict[PathId, PathCount] = {}
        self._said: dict[str, Said] = {}
        """SprayCheck's reports of the run, by expectation."""
        self._detections = deque[Detection](maxlen=MOST_DETECTIONS)
        self._states = StateChanges()

    def take(self, reading: Reading) -> View:
        """Return what to show after this reading."""
        status = reading.status
        if status.epoch != self._run:
            self._begin(status.epoch)
        self._deciding = status.expectation
        self._count(reading)
        self._hear(reading.records)
        self._detections.extend(self._states.news(reading))
        view = self._view(reading)
        self._acked = {(qp.host, qp.qpn): qp.acked_bytes for qp in reading.qps}
        self._last = reading
        return view

    def _begin(self, run: int) -> None:
        self._run = run
        self._paths.clear()
        self._said.clear()
        self._detections.clear()

    def _count(self, reading: Reading) -> None:
        """Add packets sent and lost since the last reading to the paths of the run."""
        peers = {(qp.host, qp.qpn): qp.peer for qp in reading.qps}
        counted = {}
        for row in reading.evs:
            key = row.host, row.qpn, row.ev
            counted[key] = now = PathCount(row.tx_first + row.tx_rtx, row.lost + row.timed_out)
            path = _path_of(row, peers, reading.status.hosts_per_leaf)
            if path is not None:
                self._paths[path] = self._paths.get(path, PathCount()) + _grown(now, self._counted.get(key))
        self._counted = counted

    def _hear(self, records: Iterable[Fields]) -> None:
        """Add what SprayCheck and the controller report of the latest run."""
        for record in (each for each in records if each.get("epoch") == self._run):
            if record["event"] in _ACTS:
                text = f"{record['link']} {_ACTS[record['event']]} {record['by']}"
                self._detections.append(Detection(record["ts"], record["node"], text))
            elif by := record.get("expectation"):
                (line,) = lines_in((record,))
                said = self._said.setdefault(by, Said(by))
                before = said.last
                said.take(line)
                if isinstance(line, Localize):
                    self._hear_accusation(line, before)

    def _hear_accusation(self, now: Localize, before: Localize | None) -> None:
        text = _accusation(now)
        if text != (_accusation(before) if before else f"names no link ({now.expectation})"):
            self._detections.append(Detection(now.ts, now.node, text))

    def _conclusions(self, what: str) -> Counter[str]:
        """Count `paths` or `links` by verdict, for the expectation that decides."""
        said = self._said.get(self._deciding or "") or next(iter(self._said.values()), Said(""))
        return Counter(each.verdict for each in getattr(said, what).values())

    def _view(self, reading: Reading) -> View:
        status = reading.status
        seconds = None if self._last is None else (reading.mono_ns - self._last.mono_ns) / 1e9
        return View(
            lab=status.lab,
            ts=reading.ts,
            started=status.started,
            run=status.epoch,
            running=reading.running,
            planes=status.planes,
            leaves=status.leaves,
            spines=status.spines,
            hosts=status.leaves * status.hosts_per_leaf,
            seconds=seconds,
            links=tuple(self._links(status)),
            flows=tuple(_flow(qp, self._acked.get((qp.host, qp.qpn)), seconds) for qp in _sending(reading.qps)),
            barriers=sum(qp.only_barriers for qp in reading.qps if qp.posted_bytes),
            sampled=self._sampled(reading),
            evs=tuple(_host_evs(reading)),
            faults=tuple(map(_fault, status.faults)),
            paths=dict(self._conclusions("paths")),
            verdicts=dict(self._conclusions("links")),
            detections=tuple(self._detections),
            troubles=tuple(_troubles(reading)),
            planned=tuple(_planned(status)),
        )

    def _sampled(self, reading: Reading) -> bool:
        """Return whether the counts of paths belong to the latest run: there was none, or it runs, or some were
        read.
        """
        return not reading.status.epoch or reading.running or any(count.sent for count in self._paths.values())

    def _links(self, status: LabStatus) -> Iterator[LinkView]:
        losses = link_losses(self._paths)
        faults = Counter(fault.link for fault in status.faults)
        named = {link for said in self._said.values() if said.last for link in said.last.links}
        for name, link in self._between.items():
            if link in losses or name in faults or name in named:
                yield _link_view(link, losses.get(link, LinkLoss(0, None)), faults[name], name in named)


def _path_of(row: EvReading, peers: dict[_Qp, int], hosts_per_leaf: int) -> PathId | None:
    """Return the path of packets of an entropy value; None for a path that turns at the leaf."""
    peer = peers.get((row.host, row.qpn))
    if row.spine is None or peer is None:
        return None
    return PathId(row.plane, row.host // hosts_per_leaf, row.spine, peer // hosts_per_leaf)


def _grown(now: PathCount, before: PathCount | None) -> PathCount:
    """Return the increase; the whole value when the counters have restarted."""
    if before is None or now.sent < before.sent or now.lost < before.lost:
        return now
    return PathCount(now.sent - before.sent, now.lost - before.lost)


def _link_view(link: DirectedLink, known: LinkLoss, faults: int, named: bool) -> LinkView:
    up = link.sender.role is Role.LEAF
    leaf, spine = (link.sender, link.receiver) if up else (link.receiver, link.sender)
    return LinkView(str(link), link.plane, leaf.index, spine.index, up, known.sent, known.loss, faults, named)


def _sending(qps: Iterable[QpReading]) -> list[QpReading]:
    return sorted(
        (qp for qp in qps if qp.posted_bytes and not qp.only_barriers), key=lambda qp: (qp.host, qp.peer, qp.qpn)
    )


def _flow(qp: QpReading, acked_before: int | None, seconds: float | None) -> FlowView:
    rate = None
    if seconds and acked_before is not None and acked_before <= qp.acked_bytes:
        rate = (qp.acked_bytes - acked_before) * 8 / seconds
    source, destination = str(NodeId.host(qp.host)), str(NodeId.host(qp.peer))
    return FlowView(
        source, destination, qp.qpn, qp.state, qp.posted_bytes, qp.acked_bytes, qp.packets_rtx, rate,
        destination_qpn=qp.peer_qpn, total_bytes=qp.total_bytes,
    )  # fmt: skip


def _host_evs(reading: Reading) -> Iterator[HostEvs]:
    sending = {(qp.host, qp.qpn) for qp in reading.qps if qp.posted_bytes}
    rows: dict[int, list[EvReading]] = {}
    for row in reading.evs:
        if (row.host, row.qpn) in sending:
            rows.setdefault(row.host, []).append(row)
    for host, mine in sorted(rows.items()):
        out = dict.fromkeys(f"{place_of(row)} {row.state}" for row in mine if row.state != _GOOD)
        yield HostEvs(str(NodeId.host(host)), dict(Counter(row.state for row in mine)), tuple(out))


def _fault(state: FaultState) -> FaultView:
    return FaultView(
        link=state.link,
        kind=state.kind,
        requested=state.requested_text,
        in_force=state.in_force_text,
        seen=state.seen,
        dropped=state.dropped,
        by=state.by,
    )


def _planned(status: LabStatus) -> Iterator[PlannedView]:
    """List faults that a timeline will set; those that it will clear are in force, and are shown as such."""
    for each in status.planned:
        if each.act == "set":
            yield PlannedView(each.link, each.kind, each.requested_text, each.act, each.at, each.event)


def _accusation(said: Localize) -> str:
    """Return what is accused, by which verdicts, as a key that is equal for records without a change."""
    named = "; ".join((*said.links, *open_sets(said.candidates, said.fewest), *said.common)) or "no link"
    owed = ", preliminary" if said.pending and (said.links or said.candidates) else ""
    return f"names {named} ({said.expectation}{owed})"


def _troubles(reading: Reading) -> Iterator[str]:
    idle = {each.name: each for each in reading.status.children if each.state != RUNNING}
    for name, each in idle.items():
        yield f"{name} {each.state}" + (f" (process {each.process.pid})" if each.state == STOPPED else "")
    yield from (f"{name} does not answer" for name in reading.silent if name not in idle)


_SAID = {"GOOD": "uses again", "ASSUMED_BAD": "retires", "DENIED": "is denied"}
"""Words for states; SKIP is left out, because a marked entropy value is skipped once, thousands of times a second
under congestion.
"""


class StateChanges:
    """Remembers the state of every entropy value of queue pairs that send."""

    def __init__(self) -> None:
        self._states: dict[tuple[int, int, int], str] = {}

    def news(self, reading: Reading) -> Iterator[Detection]:
        """Return what has changed since the last reading, a line per host and state; a new queue pair's EVs start
        as GOOD.
        """
        sending = {(qp.host, qp.qpn) for qp in reading.qps if qp.posted_bytes}
        now = {
            (row.host, row.qpn, row.ev): row
            for row in reading.evs
            if (row.host, row.qpn) in sending and row.state in _SAID
        }
        changed: dict[tuple[int, str], dict[str, None]] = {}
        for key, row in now.items():
            if row.state != self._states.get(key, "GOOD"):
                changed.setdefault((row.host, row.state), {})[place_of(row)] = None
        kept = {key: state for key, state in self._states.items() if key[:2] in sending}
        self._states = kept | {key: row.state for key, row in now.items()}
        for (host, state), places in sorted(changed.items()):
            yield Detection(reading.ts, str(NodeId.host(host)), f"{_SAID[state]} {', '.join(places)} (MRC)")


def place_of(row: EvReading) -> str:
    """Return the path of an entropy value: `p0:spine5`, or `p0` where it turns at the leaf."""
    return f"p{row.plane}" if row.spine is None else f"p{row.plane}:spine{row.spine}"
