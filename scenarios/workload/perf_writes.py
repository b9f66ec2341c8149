"""Runs performance tests of writes between two hosts of a lab that is up, one message size after the other."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import Literal

from agent.host.control import program_requests as program
from agent.host.control import requests as ask
from agent.host.programs.perftest import buffer_bytes
from results.records.perf_rows import BandwidthRow, Cost, LatencyRow, WriteRow
from scenarios.errors import ScenariosError
from scenarios.workload.jobs import Asked, Job, JobShape, PerfCounts, Report, look_later, perf_counts, wait_for
from testbed.model.node_names import NodeId

NS = 1_000_000_000

SIZES = tuple(1 << power for power in range(1, 24))
"""Sizes of `-a`, as in perftest: 2 to 8388608 bytes."""

VOLUME_BYTES = 1 << 28
"""Most bytes that a row of `-a` sends by default: 256 MiB take about a second (our choice)."""

MOST_BYTES = (1 << 32) - 1
"""Largest message: its length is a number of 32 bits (RETH)."""

LEAST_ITERATIONS = 8
"""Most messages of a row of `-a`."""


@dataclass(frozen=True)
class WriteTest:
    """Settings of the measurement."""

    test: Literal["write-bw", "write-lat"]
    hosts: tuple[int, int]
    """Hosts: source, destination."""
    sizes: tuple[int, ...]
    """Message sizes in bytes, one row each."""
    iterations: int | None
    """Messages per queue pair; None with a duration, or by size: perftest's number, but at most `VOLUME_BYTES`."""
    duration_s: float | None
    qps: int
    config: ask.QpSettings
    both: bool = False
    depth: int = 128
    warmup: int = 0
    until: Literal["answer", "completion"] = "answer"

    def iterations_of(self, size: int) -> int | None:
        """Return messages per queue pair of this size; None when time decides."""
        if self.iterations is not None or self.duration_s is not None:
            return self.iterations
        usual = _USUAL[self.test]
        return max(LEAST_ITERATIONS, min(usual, VOLUME_BYTES // size)) if len(self.sizes) > 1 else usual

    def memory_bytes(self) -> int:
        """Return the memory of both hosts, each with a source and a target, for the size that needs most."""
        return max(2 * sum(self.memory_of(size).values()) for size in self.sizes)

    def memory_of(self, size: int) -> dict[str, int]:
        """Return bytes of each host's memory by name."""
        each = self.qps * buffer_bytes(size)
        return {"source": each, "target": each}

    def volume_of(self, size: int) -> int | None:
        """Return bytes of all messages of a row; None when time decides."""
        iterations = self.iterations_of(size)
        if iterations is None:
            return None
        answered = self.test == "write-lat" and self.until == "answer"
        return (iterations + self.warmup) * self.qps * size * (2 if self.both or answered else 1)


_BOTH = frozenset({(0, 1)})

_SEED = 1
"""Seed of the payload."""

_USUAL = {"write-bw": 5000, "write-lat": 1000}
"""perftest's default number of iterations."""


def ignore_progress(_size: int, _acked_bytes: int) -> None:
    """Receive the progress of the row of a size."""


def write_rows(
    workers: Sequence[Asked],
    test: WriteTest,
    undo: ExitStack,
    idle: Callable[[], None] = look_later,
    moved_to: Callable[[int, int], None] = ignore_progress,
) -> Iterator[WriteRow]:
    """Measure size by size, each with its own memory and queue pairs, so that the received data can be compared.

    `moved_to` gets the size and the bytes acknowledged of it, about once a second.
    Raises `WorkerFailedError`, `RunStalledError`.
    """
    for size in test.sizes:
        shape = JobShape(test.hosts, _BOTH, test.qps, test.memory_of(size), test.config, _SEED)
        job = Job(workers, shape)
        undo.callback(_close, job)
        job.open()
        before = perf_counts(workers)
        job.start(_order(test, size))
        (reports,) = wait_for([job], workers, idle, partial(moved_to, size))
        yield _row(test, size, reports, perf_counts(workers).since(before), _wrong(test, size, reports, job))
        job.close()


def _wrong(test: WriteTest, size: int, reports: Sequence[Report], job: Job) -> int | None:
    """Count wrong bytes in the receivers' memory; None if a sender did not fill its target once."""
    if test.test == "write-lat":
        return None
    senders = [rank for rank, report in enumerate(reports) if report.iterations]
    if any(reports[rank].bytes < test.qps * buffer_bytes(size) for rank in senders):
        return None
    return sum(job.wrong_bytes(1 - rank, "target", _SEED) for rank in senders)


def _close(job: Job) -> None:
    """Close after an error, when a worker and all its resources may be gone."""
    with suppress(ScenariosError):
        job.close()


def _order(test: WriteTest, size: int) -> program.Order:
    iterations = test.iterations_of(size)
    duration_ns = round((test.duration_s or 0) * NS)
    if test.test == "write-bw":
        return program.WriteBwOrder(size, iterations, duration_ns, test.depth, test.both)
    return program.WriteLatOrder(size, iterations, duration_ns, test.warmup, test.until)


def _row(test: WriteTest, size: int, reports: Sequence[Report], counts: PerfCounts, wrong: int | None) -> WriteRow:
    hosts = tuple(str(NodeId.host(host)) for host in test.hosts)
    cost = Cost(counts.packets, counts.retransmissions, counts.lost_here)
    if test.test == "write-lat":
        return _latency_row(hosts, size, reports[0], test.until, cost)
    ways = [report for report in reports if report.iterations]
    best = [report.best_ns_per_message for report in ways]
    return BandwidthRow(
        hosts=hosts,
        bytes=size,
        iterations=sum(report.iterations for report in ways),
        qps=test.qps,
        both=test.both,
        peak_bytes_per_s=None if None in best else sum(size * NS / each for each in best if each),
        average_bytes_per_s=sum(report.bytes * NS / report.elapsed_ns for report in ways),
        messages_per_s=sum(report.iterations * NS / report.elapsed_ns for report in ways),
        seconds=max(report.elapsed_ns for report in ways) / NS,
        wrong=wrong,
        cost=cost,
    )


def _latency_row(hosts: tuple[str, ...], size: int, report: Report, until: str, cost: Cost) -> LatencyRow:
    spread = report.spread
    if spread is None:
        raise ValueError("a latency test without one message")
    return LatencyRow(
        hosts=hosts,
        bytes=size,
        iterations=report.iterations,
        until=until,
        min_us=spread.min / 1e3,
        max_us=spread.max / 1e3,
        typical_us=spread.median / 1e3,
        average_us=spread.mean / 1e3,
        stdev_us=spread.stdev / 1e3,
        p99_us=spread.p99 / 1e3,
        p999_us=spread.p999 / 1e3,
        cost=cost,
    )
