"""Runs performance tests of collectives on a lab that is up, one size after the other, several groups at once."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from agent.host.control import requests as ask
from agent.host.programs.patterns import ELEMENT_BYTES, Pattern, elements_of, pairs_of
from agent.host.programs.requests import CollectiveOrder
from results.records.collective_rows import CollectiveRow, Times
from results.records.perf_rows import Cost
from scenarios.errors import ScenariosError
from scenarios.file.groups import Group
from scenarios.workload.jobs import Asked, Job, JobShape, Report, look_later, wait_for
from scenarios.workload.perf_counts import perf_counts
from testbed.model.ids import NodeId

NS = 1_000_000_000


@dataclass(frozen=True)
class CollectiveTest:
    """Settings of the measurement."""

    pattern: Pattern
    groups: tuple[tuple[int, ...], ...]
    """Hosts by group and rank; all groups are of equal size."""
    sizes: tuple[int, ...]
    """Sizes in bytes, one row each."""
    iterations: int
    warmup: int
    check: bool
    qps: int
    config: ask.QpSettings
    group: Group | None = None
    seed: int = 1

    @property
    def ranks(self) -> int:
        """Return the number of ranks per group."""
        return len(self.groups[0])

    def memory_bytes(self) -> int:
        """Return the memory of all ranks together, for the largest size."""
        return sum(memory_of(self, max(map(self.count_of, self.sizes))).values()) * self.ranks * len(self.groups)

    def count_of(self, size: int) -> int:
        """Return elements of a rank's memory at a size: full parts for every rank, at least one element each."""
        whole = size // ELEMENT_BYTES
        return whole // self.ranks * self.ranks if self.pattern.shape.parted else whole


def queue_pairs_to_a_host(pattern: Pattern, ranks: int, qps: int) -> int:
    """Return the most queue pairs that lead to one host of a group."""
    ends = [rank for pair in pairs_of(pattern, ranks) for rank in pair]
    return max(map(ends.count, set(ends))) * qps


def jobs_of(workers: Sequence[Asked], test: CollectiveTest, count: int) -> tuple[Job, ...]:
    """Return one job per group, with memory for this many elements; not open yet."""
    memory = memory_of(test, count)
    pairs = pairs_of(test.pattern, test.ranks)
    return tuple(
        Job(workers, JobShape(hosts, pairs, test.qps, memory, test.config, test.seed)) for hosts in test.groups
    )


def memory_of(test: CollectiveTest, count: int) -> dict[str, int]:
    """Return bytes of each rank's memory by name."""
    return {name: size * ELEMENT_BYTES for name, size in elements_of(test.pattern, test.ranks, count).items()}


def collective_rows(
    workers: Sequence[Asked], test: CollectiveTest, undo: ExitStack, idle: Callable[[], None] = look_later
) -> Iterator[CollectiveRow]:
    """Measure size by size. Raises `WorkerFailedError`, `RunStalledError`."""
    jobs = jobs_of(workers, test, max(map(test.count_of, test.sizes)))
    undo.callback(close_all, jobs)
    for job in jobs:
        job.open()
    for number, size in enumerate(test.sizes):
        count, before = test.count_of(size), perf_counts(workers)
        # A row's numbers are its own, so that what an earlier one has left cannot pass for right.
        seed = test.seed + 2 * number
        for job in jobs:
            job.start(CollectiveOrder(test.pattern, count, test.iterations, test.warmup, test.check, seed))
        reports = wait_for(jobs, workers, idle)
        spent = perf_counts(workers).since(before)
        yield row_of(test, count, reports, Cost(spent.packets, spent.retransmissions, spent.lost_here))


def close_all(jobs: Sequence[Job]) -> None:
    """Close after an error, when a worker and all its resources may be gone."""
    for job in jobs:
        with suppress(ScenariosError):
            job.close()


def row_of(test: CollectiveTest, count: int, reports: Sequence[Sequence[Report]], cost: Cost) -> CollectiveRow:
    """Convert the measurements of the ranks of all groups to a row of nccl-tests."""
    told = [report for group in reports for report in group]
    seconds = sum(report.elapsed_ns for report in told) / len(told) / test.iterations / NS
    used = count * ELEMENT_BYTES
    algbw, shape = used / seconds, test.pattern.shape
    checked = [report.checked for report in told if report.checked is not None]
    return CollectiveRow(
        test=test.pattern.value,
        group=test.group and test.group.value,
        hosts=tuple(tuple(str(NodeId.host(host)) for host in hosts) for hosts in test.groups),
        qps=test.qps,
        size_bytes=used,
        count=count // test.ranks if shape.parted else count,
        type="float",
        redop="sum" if shape.sums else "none",
        root=-1 if shape.root is None else shape.root,
        iterations=test.iterations,
        time_us=seconds * 1e6,
        algbw_bytes_per_s=algbw,
        busbw_bytes_per_s=algbw * shape.bus_factor(test.ranks),
        wrong=sum(report.wrong or 0 for report in told) if checked else None,
        checked=sum(checked) if checked else None,
        times=_times(told),
        cost=cost,
    )


def _times(reports: Sequence[Report]) -> Times:
    spreads = [report.spread for report in reports if report.spread is not None]
    slowest = max(spreads, key=lambda spread: spread.mean)
    return Times(
        min_us=slowest.min / 1e3,
        median_us=slowest.median / 1e3,
        average_us=slowest.mean / 1e3,
        p99_us=slowest.p99 / 1e3,
        max_us=slowest.max / 1e3,
    )
