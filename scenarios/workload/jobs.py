"""Runs jobs on the engine workers (ranks on hosts, their queue pairs and memory), and counts what workers sent.

It sends the workers' requests and knows neither patterns nor tables.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, Protocol, Self

import msgspec

from agent.host.control import program_requests as program
from agent.host.control import requests as ask
from scenarios.errors import RunStalledError, WorkerFailedError
from scenarios.lab.processes import worker_of

STALLED_AFTER_S = 60.0
"""Time without one more acknowledged byte after which waiting is pointless: all timeouts of the transport are
shorter.
"""

POLL_S = 0.02
"""Time between two requests whether a program has ended; each costs a worker less than a hundred packets."""

_LOOK_AFTER_S = 1.0
"""Time between two checks whether anything moves at all."""

TOKEN_BYTES = 64


class Asked(Protocol):
    """Interface of an engine worker, or of a substitute."""

    def ask(self, request: ask.Request) -> dict[str, Any]:
        """Return the fields of the reply. Raises `WorkerFailedError`."""


@dataclass(frozen=True)
class JobShape:
    """The resources of a job."""

    hosts: tuple[int, ...]
    """Hosts by rank."""
    pairs: frozenset[tuple[int, int]]
    """Ranks that have queue pairs to one another, the lower first; all to rank 0."""
    qps: int
    """Number of queue pairs of each pair of ranks."""
    memory: Mapping[str, int]
    """Bytes of each rank's memory by name."""
    config: ask.QpSettings
    seed: int = 1


class Spread(msgspec.Struct, frozen=True):
    """The durations of one rank's iterations, nanoseconds."""

    min: int
    median: float
    mean: float
    stdev: float
    p99: int
    p999: int
    max: int


class Report(msgspec.Struct, frozen=True):
    """Results that a program measured on one rank; as `agent.host.programs.measurements.Report`."""

    iterations: int
    bytes: int
    elapsed_ns: int
    best_ns_per_message: float | None
    spread: Spread | None
    checked: int | None
    wrong: int | None


@dataclass(frozen=True)
class Way:
    """One direction of a queue pair."""

    source: int
    source_qpn: int
    destination: int
    destination_qpn: int
    place: int = 0
    """Index of the queue pair among those of these two hosts."""


@dataclass(frozen=True)
class Started:
    """Information about a program that was started."""

    packets: Mapping[int, int]
    """Bytes that it will send, by queue pair; empty when time decides."""
    announced: frozenset[int]
    """Queue pairs that were announced to the leaves."""


@dataclass
class _Seat:
    """One rank on its worker."""

    host: int
    cq: int
    memory: dict[str, program.OpenedMemory]
    links: dict[int, program.LinkEnds]


class Job:
    """One job, from `open` to `close`."""

    def __init__(self, workers: Sequence[Asked], shape: JobShape) -> None:
        self._workers = workers
        self.shape = shape
        self._seats: list[_Seat] = []
        self._regions: list[ask.RegionName] = []
        self._qps: list[ask.QpName] = []

    def open(self) -> None:
        """Allocate memory, connect queue pairs, create ranks. Raises `WorkerFailedError`."""
        for host in self.shape.hosts:
            self._seats.append(self._seat(host))
        for low, high in sorted(self.shape.pairs):
            self._link(low, high)
        for number, seat in enumerate(self._seats):
            memory = {name: opened.rkey for name, opened in seat.memory.items()}
            rank = program.CreateRank(seat.host, seat.cq, number, len(self._seats), seat.links, memory)
            self._ask(seat.host, rank)

    def start(
        self, order: program.Order, epoch: int | None = None, chosen: Collection[tuple[int, int, int]] = ()
    ) -> Started:
        """Start a program on all ranks.

        With `epoch` the packets of `chosen` queue pairs are announced to the leaves: from host, to host, and which of
        the queue pairs of these two. The program must not end by time then.
        """
        packets: dict[int, int] = {}
        announced: set[int] = set()
        for seat in self._seats:
            request = program.StartProgram(seat.host, seat.cq, order, epoch, self._chosen(seat, chosen))
            reply = self._ask(seat.host, request)
            packets |= {int(qpn): count for qpn, count in (reply["packets"] or {}).items()}
            announced |= set(reply["announced"])
        return Started(packets, frozenset(announced))

    def ways(self) -> Iterator[Way]:
        """Yield every queue pair, at both of its ends, as a direction from one host to another."""
        for low, high in sorted(self.shape.pairs):
            one, two = self._seats[low], self._seats[high]
            for place, (there, back) in enumerate(zip(one.links[high].qpns, two.links[low].qpns, strict=True)):
                yield Way(one.host, there, two.host, back, place)
                yield Way(two.host, back, one.host, there, place)

    def reports(self) -> tuple[Report, ...] | None:
        """Return reports by rank, once all have ended; None before. Raises `WorkerFailedError` when one has failed."""
        replies = [self._ask(seat.host, program.ProgramResult(seat.host, seat.cq)) for seat in self._seats]
        for seat, reply in zip(self._seats, replies, strict=True):
            if reply["state"] == "failed":
                raise WorkerFailedError(f"h{seat.host}: {reply['error']}")
        if any(reply["state"] == "running" for reply in replies):
            return None
        return tuple(msgspec.convert(reply["report"], Report) for reply in replies)

    def wrong_bytes(self, rank: int, name: str, seed: int) -> int:
        """Count bytes of a rank's memory that differ from the stream of `seed`."""
        seat = self._seats[rank]
        wrong: int = self._ask(seat.host, ask.Verify(seat.host, seat.memory[name].rkey, seed))["wrong"]
        return wrong

    def close(self) -> None:
        """Release all resources; calling it twice is safe."""
        for seat in self._seats:
            self._ask(seat.host, program.DestroyRank(seat.host, seat.cq))
        self._seats = []
        for index, worker in enumerate(self._workers):
            qps = tuple(qp for qp in self._qps if self._place(qp.host) == index)
            regions = tuple(region for region in self._regions if self._place(region.host) == index)
            if qps or regions:
                worker.ask(ask.Destroy(qps, regions))
        self._qps, self._regions = [], []

    def _seat(self, host: int) -> _Seat:
        cq = self._ask(host, program.CreateCq(host, leased=True))["cq"]
        seat = _Seat(host, cq, {}, {})
        for name, size in {**self.shape.memory, "token": TOKEN_BYTES}.items():
            role: Literal["source", "target"] = "source" if name == "source" else "target"
            reply = self._ask(host, ask.RegisterRegion(host, size, self.shape.seed, role, leased=True))
            self._regions.append(ask.RegionName(host, reply["rkey"]))
            seat.memory[name] = program.OpenedMemory(reply["va"], reply["rkey"])
        return seat

    def _link(self, low: int, high: int) -> None:
        ends = [(self._seats[low], self._seats[high]), (self._seats[high], self._seats[low])]
        pairs = [[self._create(own, peer) for own, peer in ends] for _ in range(self.shape.qps)]
        for one, two in pairs:
            self._connect(one, two)
            self._connect(two, one)
        numbers = [tuple(pair[side].qpn for pair in pairs) for side in (0, 1)]
        self._seats[low].links[high] = program.LinkEnds(numbers[0], self._seats[high].memory)
        self._seats[high].links[low] = program.LinkEnds(numbers[1], self._seats[low].memory)

    def _create(self, own: _Seat, peer: _Seat) -> ask.PeerEnd:
        reply = self._ask(own.host, ask.CreateQp(own.host, peer.host, self.shape.config, leased=True, cq=own.cq))
        self._qps.append(ask.QpName(own.host, reply["qpn"]))
        return msgspec.convert({"host": own.host, **reply}, ask.PeerEnd)

    def _connect(self, own: ask.PeerEnd, peer: ask.PeerEnd) -> None:
        self._ask(own.host, ask.ConnectQp(own.host, own.qpn, peer))

    def _chosen(self, seat: _Seat, chosen: Collection[tuple[int, int, int]]) -> tuple[int, ...]:
        """Return numbers of the chosen queue pairs that begin at this rank."""
        return tuple(
            qpn
            for rank, ends in seat.links.items()
            for place, qpn in enumerate(ends.qpns)
            if (seat.host, self.shape.hosts[rank], place) in chosen
        )

    def _place(self, host: int) -> int:
        return worker_of(host, len(self._workers))

    def _ask(self, host: int, request: ask.Request) -> dict[str, Any]:
        return self._workers[self._place(host)].ask(request)


def look_later() -> None:
    """Let time pass between two checks."""
    time.sleep(POLL_S)


def ignore_progress(_acked_bytes: int) -> None:
    """Receive the progress of a job."""


def wait_for(
    jobs: Sequence[Job],
    workers: Sequence[Asked],
    idle: Callable[[], None],
    moved_to: Callable[[int], None] = ignore_progress,
) -> list[tuple[Report, ...]]:
    """Wait for the reports of started jobs, by rank. `idle` is called between two checks.

    `moved_to` gets the bytes acknowledged so far on all queue pairs, about once a second.
    Raises `WorkerFailedError`, and `RunStalledError` when nothing moves any more.
    """
    ended: list[tuple[Report, ...] | None] = [None] * len(jobs)
    moved, looked_s, moved_s = -1, time.monotonic(), time.monotonic()
    while True:
        ended = [job.reports() if known is None else known for job, known in zip(jobs, ended, strict=True)]
        if None not in ended:
            return [reports for reports in ended if reports is not None]
        now_s = time.monotonic()
        if now_s - looked_s > _LOOK_AFTER_S:
            looked_s = now_s
            acked = sum(row["acked_bytes"] for worker in workers for row in worker.ask(ask.Progress())["qps"])
            moved_to(acked)
            if acked != moved:
                moved, moved_s = acked, now_s
            elif now_s - moved_s > STALLED_AFTER_S:
                raise RunStalledError(f"no program had anything acknowledged for {STALLED_AFTER_S:.0f} s")
        idle()


@dataclass(frozen=True)
class PerfCounts:
    """Totals of all queue pairs and ports."""

    packets: int
    """First transmissions."""
    retransmissions: int
    timeouts: int
    lost_here: int
    """Frames that found a ring full, or that the kernel refused."""
    engine_ns: int = 0
    """Processor time of all engines."""
    wait_ns: int = 0
    """Time that they waited for a core although they could have run."""

    @property
    def wait_share(self) -> float:
        """Return the share of the engines' time spent waiting for a core."""
        all_ns = self.engine_ns + self.wait_ns
        return self.wait_ns / all_ns if all_ns else 0.0

    def since(self, before: "PerfCounts") -> Self:
        """Return the difference to an earlier reading."""
        return type(self)(*(getattr(self, f.name) - getattr(before, f.name) for f in fields(self)))


def perf_counts(workers: Sequence[Asked]) -> PerfCounts:
    """Return the current totals of all workers."""
    qps = [row for worker in workers for row in worker.ask(ask.Progress())["qps"]]
    counters = [worker.ask(ask.Counters()) for worker in workers]
    ports = [port for each in counters for port in each["ports"]]
    rejected = [row for each in counters for row in each["rejected"]]
    overflowed = sum(row["packets"] for row in rejected if row["reason"] == "TX_OVERFLOW")
    return PerfCounts(
        packets=sum(row["packets_tx"] for row in qps),
        retransmissions=sum(row["packets_rtx"] for row in qps),
        timeouts=sum(row["timeouts"] for row in qps),
        lost_here=sum(port["rx_drops"] + port["tx_errors"] for port in ports) + overflowed,
        engine_ns=sum(each["cpu_ns"] for each in counters),
        wait_ns=sum(each["sched_wait_ns"] for each in counters),
    )
