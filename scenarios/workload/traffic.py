"""Runs the flows of a run on the engine workers: opens memory and queue pairs, posts, watches and verifies writes.

It sends the workers' requests and does not decide about success.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from agent.host.control import requests as ask
from scenarios.file.collective_plan import Sending
from scenarios.file.model import Events
from scenarios.file.plan import Flow, Plan
from scenarios.file.qp_settings import paced, qp_settings_of
from scenarios.lab.client import Worker
from scenarios.lab.processes import worker_of
from scenarios.workload.collectives import CollectiveOutcome, RunningJobs
from scenarios.workload.jobs import Way

AT_ONCE = 16
"""Most flows opened in one request: a worker answers between two turns of its engine, and others wait meanwhile,
only shortly with this many (our choice).
"""


@dataclass(frozen=True)
class FlowEnd:
    """One end of a flow at its host."""

    host: int
    qpn: int
    start_psn: int = 0
    rkey: int = 0
    va: int = 0


@dataclass(frozen=True)
class OpenFlow:
    """A flow with queue pairs and memory at both ends."""

    flow: Flow
    seed: int
    """Seed of the payload stream."""
    source: FlowEnd
    destination: FlowEnd
    is_barrier: bool = False
    """Whether it carries only barriers of a collective."""


def _connect(own: FlowEnd, peer: FlowEnd) -> ask.ConnectQp:
    return ask.ConnectQp(own.host, own.qpn, ask.PeerEnd(peer.host, peer.qpn, peer.start_psn))


def _program_flow(name: str, way: Way, sending: Sending) -> OpenFlow:
    """Return one direction of a program's queue pair as a flow."""
    flow = Flow(way.source, way.destination, sending.bytes, 0, name)
    ends = FlowEnd(way.source, way.source_qpn), FlowEnd(way.destination, way.destination_qpn)
    return OpenFlow(flow, 0, *ends, sending.is_barrier)


class FlowProgress(msgspec.Struct, frozen=True):
    """Progress of a queue pair, as its worker reports it (other fields are ignored)."""

    host: int
    qpn: int
    state: str
    posted_bytes: int
    acked_bytes: int
    packets_tx: int
    packets_rtx: int
    lost: int
    timeouts: int
    started_ns: int | None
    finished_ns: int | None
    rtt_ns: int = 0
    """Smoothed round trip, 0 before the first sample."""
    cwnd_bytes: int | None = None
    """Congestion window; None while congestion control is off."""
    in_flight_pkts: int = 0
    backlog_pkts: int = 0
    """Packets posted and not sent, or lost and not sent again."""
    silent_evs: tuple[int, ...] = ()
    """Entropy values over which nothing returns while others answer."""

    @property
    def ended(self) -> bool:
        """Return whether all writes completed or failed; SACKs may acknowledge all bytes before a write completes."""
        return self.state == "ERROR" or self.finished_ns is not None


class PortCounts(msgspec.Struct, frozen=True):
    """Packets that one host port itself lost."""

    host: int
    plane: int
    rx_drops: int
    tx_errors: int


class ReorderCounts(msgspec.Struct, frozen=True):
    """Reordering extents (`agent.core.receive.arrivals`) and duplicates of what one queue pair received."""

    host: int
    qpn: int
    in_order: int
    late: tuple[int, ...]
    most: int
    duplicates: int = 0


class RejectedCount(msgspec.Struct, frozen=True):
    """Packets that one host rejected for one reason (`agent.host.records.process_counters`)."""

    host: int
    reason: str
    packets: int


class WorkerCounts(msgspec.Struct, frozen=True):
    """Counters of one worker since its start (other fields are ignored)."""

    ports: tuple[PortCounts, ...]
    cpu_ns: int
    sched_wait_ns: int
    evs: tuple[dict[str, Any], ...]
    """Counters of each entropy value of each queue pair, as the worker reports them."""
    events_cut: int = 0
    """Records of its agents that were dropped because there were too many."""
    reordering: tuple[ReorderCounts, ...] = ()
    """Reordering extents of received packets, by receiving queue pair."""
    rejected: tuple[RejectedCount, ...] = ()


class Verification(msgspec.Struct, frozen=True):
    """Comparison of received memory with what was sent."""

    bytes: int
    wrong: int


class Traffic:
    """The flows of one run, those that post once and those of programs."""

    def __init__(self, workers: Sequence[Worker]) -> None:
        self._workers = workers
        self._flows: list[OpenFlow] = []
        self._regions: list[ask.RegionName] = []
        self._qps: list[ask.QpName] = []
        self._later: list[tuple[int, OpenFlow]] = []
        """Flows that have not begun, with their monotonic start time, the next one last."""
        self.jobs = RunningJobs(workers)
        """Collectives of the run."""

    @property
    def flows(self) -> tuple[OpenFlow, ...]:
        """Return all open flows, in the order of the plan; once started also those of programs."""
        return (*self._flows, *(_program_flow(*way) for way in self.jobs.ways()))

    def open(self, plan: Plan, show: Callable[[int, int], None] = lambda opened, flows: None) -> None:
        """Open memory and connected queue pairs for all traffic; `show` receives the number of open flows, and of
        all.

        Raises `WorkerFailedError`.
        """
        scenario = plan.scenario
        self._tell_events(scenario.events, scenario.limits.events)
        settings = qp_settings_of(scenario.transport, scenario.seed).with_core(window_pkts=plan.window_pkts)
        numbered = list(enumerate(plan.flows))
        for start in range(0, len(numbered), AT_ONCE):
            show(start, len(numbered))
            self._open(numbered[start : start + AT_ONCE], settings, scenario.seed)
        self.jobs.open(plan.collectives, settings, scenario.seed)

    def post(self, epoch: int, now_ns: int, announced: Collection[Sending] = ()) -> None:
        """Start everything that does not begin later, announced to the leaves under `epoch`.

        Of collectives only what is in `announced`.
        """
        self._epoch = epoch
        self._later = sorted(((now_ns + item.flow.at_ns, item) for item in self._flows), key=lambda due: -due[0])
        self.post_due(now_ns)
        self.jobs.start(epoch, announced)

    def post_due(self, now_ns: int) -> int | None:
        """Start flows that are due; return the time of the next one, None if none is left."""
        while self._later and self._later[-1][0] <= now_ns:
            self._post(self._later.pop()[1])
        return self._later[-1][0] if self._later else None

    def _post(self, item: OpenFlow) -> None:
        write = ask.PostWrite(
            host=item.source.host,
            qpn=item.source.qpn,
            rkey=item.source.rkey,
            offset=0,
            bytes=item.flow.payload_bytes,
            remote_va=item.destination.va,
            remote_rkey=item.destination.rkey,
            message_bytes=item.flow.message_bytes,
            epoch=self._epoch,
        )
        self._ask(item.source.host, write)

    @property
    def payload_bytes(self) -> int:
        """Return all bytes that the run will send: also of flows that begin later, and of all rounds of collectives."""
        return sum(item.flow.payload_bytes for item in self.flows)

    def ended(self, progress: Sequence[FlowProgress]) -> bool:
        """Return whether all writes completed or failed, by the last progress."""
        return all(flow.ended for flow in progress[: len(self._flows)])

    def progress(self) -> tuple[FlowProgress, ...]:
        """Return the progress of every flow, in the order of the plan."""
        rows = (row for worker in self._workers for row in worker.ask(ask.Progress())["qps"])
        found = {(row["host"], row["qpn"]): msgspec.convert(row, FlowProgress) for row in rows}
        return tuple(found[item.source.host, item.source.qpn] for item in self.flows)

    def verify(self) -> tuple[Verification, ...]:
        """Compare written memory with what was sent, byte for byte; programs compare their numbers themselves."""
        writes = tuple(
            msgspec.convert(
                self._ask(item.destination.host, ask.Verify(item.destination.host, item.destination.rkey, item.seed)),
                Verification,
            )
            for item in self._flows
        )
        return writes + (Verification(0, 0),) * len(self.jobs.ways())

    def outcome(self, progress: Sequence[FlowProgress]) -> CollectiveOutcome:
        """Return the results of the collectives, by the last progress."""
        return self.jobs.outcome({row.qpn: row.packets_rtx for row in progress})

    def counters(self) -> tuple[WorkerCounts, ...]:
        """Return the workers' counters so far."""
        return tuple(msgspec.convert(worker.ask(ask.Counters()), WorkerCounts) for worker in self._workers)

    def close(self) -> None:
        """Close all queue pairs and release the memory; calling it twice is safe."""
        self.jobs.close()
        for index, worker in enumerate(self._workers):
            count = len(self._workers)
            qps = tuple(qp for qp in self._qps if worker_of(qp.host, count) == index)
            regions = tuple(region for region in self._regions if worker_of(region.host, count) == index)
            if qps or regions:
                worker.ask(ask.Destroy(qps, regions))
        self._tell_events("default")
        self._qps, self._regions, self._flows, self._later = [], [], [], []

    def _tell_events(self, events: Events, most_bytes: int | None = None) -> None:
        share = None if most_bytes is None else most_bytes // len(self._workers)
        for worker in self._workers:
            worker.ask(ask.SetEvents(events, share))

    def _open(self, numbered: Sequence[tuple[int, Flow]], settings: ask.QpSettings, seed: int) -> None:
        """Open several flows: each step runs for all of them, in their order."""
        owns = [seed << 20 | number for number, _ in numbered]  # a stream of its own for every flow of every seed
        flows = [flow for _, flow in numbered]
        ends = self._ends(flows, owns, settings)
        pairs = list(zip(ends[::2], ends[1::2], strict=True))
        self._ask_all([_connect(*way) for one, two in pairs for way in ((one, two), (two, one))])
        self._flows += [OpenFlow(flow, own, *pair) for flow, own, pair in zip(flows, owns, pairs, strict=True)]

    def _ends(self, flows: Sequence[Flow], owns: Sequence[int], settings: ask.QpSettings) -> list[FlowEnd]:
        """Request memory and queue pairs at both ends of flows, for each the source and then the destination."""
        memory: list[ask.RegisterRegion] = []
        pairs: list[ask.CreateQp] = []
        for flow, own in zip(flows, owns, strict=True):
            config = paced(settings.with_core(seed=own), flow.rate_bps)
            source, destination, size = flow.source, flow.destination, flow.payload_bytes
            memory += [
                ask.RegisterRegion(source, size, own, "source", leased=True),
                ask.RegisterRegion(destination, size, own, "target", leased=True),
            ]
            pairs += [
                ask.CreateQp(source, destination, config, leased=True),
                ask.CreateQp(destination, source, config, leased=True),
            ]
        regions = self._ask_all(memory)
        self._regions += [ask.RegionName(at.host, reply["rkey"]) for at, reply in zip(memory, regions, strict=True)]
        qps = self._ask_all(pairs)
        self._qps += [ask.QpName(at.host, reply["qpn"]) for at, reply in zip(pairs, qps, strict=True)]
        return [
            FlowEnd(at.host, qp["qpn"], qp["start_psn"], region["rkey"], region["va"])
            for at, qp, region in zip(pairs, qps, regions, strict=True)
        ]

    def _ask_all(self, requests: Sequence[ask.RegisterRegion | ask.CreateQp | ask.ConnectQp]) -> list[dict[str, Any]]:
        """Return replies to requests to any hosts, in order; every worker gets its own at once."""
        count = len(self._workers)
        replies: dict[int, dict[str, Any]] = {}
        for index, worker in enumerate(self._workers):
            places = [at for at, request in enumerate(requests) if worker_of(request.host, count) == index]
            replies |= zip(places, worker.ask_all([requests[at] for at in places]), strict=True)
        return [replies[at] for at in range(len(requests))]

    def _ask(self, host: int, request: ask.Request) -> dict[str, Any]:
        return self._workers[worker_of(host, len(self._workers))].ask(request)


def rejected_counts(workers: Sequence[WorkerCounts]) -> dict[tuple[int, str], int]:
    """Return the packets that agents rejected, by host and reason, since their start."""
    return {(row.host, row.reason): row.packets for worker in workers for row in worker.rejected}
