"""Runs collectives on the engine workers: performance tests size by size, and the collectives of a run."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from agent.host.control import requests as ask
from agent.host.control.program_requests import CollectiveOrder
from agent.host.programs.patterns import ELEMENT_BYTES, Pattern, elements_of, pairs_of
from results.records.perf_rows import CollectiveRow, Cost, Times
from scenarios.errors import ScenariosError, WorkerFailedError
from scenarios.file.collective_plan import Group, PlannedCollective, Sending
from scenarios.workload.jobs import Asked, Job, JobShape, Report, Way, look_later, perf_counts, wait_for
from testbed.model.node_names import NodeId

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
    ranks = [report for group in reports for report in group]
    seconds = sum(report.elapsed_ns for report in ranks) / len(ranks) / test.iterations / NS
    used = count * ELEMENT_BYTES
    algbw, shape = used / seconds, test.pattern.shape
    checked = [report.checked for report in ranks if report.checked is not None]
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
        wrong=sum(report.wrong or 0 for report in ranks) if checked else None,
        checked=sum(checked) if checked else None,
        times=_times(ranks),
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


@dataclass
class _Running:
    """One workload of rounds."""

    planned: PlannedCollective
    test: CollectiveTest
    jobs: tuple[Job, ...]
    reports: list[tuple[Report, ...] | None]
    sendings: dict[tuple[int, int, int], Sending]
    """What each queue pair will send, by source, destination and index."""
    packets: dict[int, int]
    announced: set[int]


@dataclass(frozen=True)
class CollectiveOutcome:
    """Results of a run's collectives."""

    rows: tuple[CollectiveRow, ...] = ()
    """Rows of those that ended."""
    failed: tuple[str, ...] = ()
    """Reasons why the others did not end."""
    unannounced: int = 0
    """Queue pairs with data, one per direction, that send too little for a verdict and so were not announced."""


class RunningJobs:
    """All collectives of one run."""

    def __init__(self, workers: Sequence[Asked]) -> None:
        self._workers = workers
        self._running: list[_Running] = []
        self.failed: list[str] = []
        """Errors of programs that could not continue."""

    def open(self, planned: Sequence[PlannedCollective], config: ask.QpSettings, seed: int) -> None:
        """Allocate memory and queue pairs. Raises `WorkerFailedError`."""
        for number, each in enumerate(planned):
            own = (seed + 2 * number) & 0xFFFFFFFF
            settings = config.with_core(seed=own)
            size = each.count * ELEMENT_BYTES
            test = CollectiveTest(
                each.pattern, each.groups, (size,), each.iterations, 0, True, each.qps, settings, each.group, own
            )
            jobs = jobs_of(self._workers, test, each.count)
            sendings = {(sent.source, sent.destination, sent.place): sent for sent in each.sendings(config.core.pmtu)}
            self._running.append(_Running(each, test, jobs, [None] * len(jobs), sendings, {}, set()))
            for job in jobs:
                job.open()

    def start(self, epoch: int, announced: Collection[Sending]) -> None:
        """Start all collectives; announce the queue pairs in `announced` to the leaves under `epoch`."""
        for number, each in enumerate(self._running):
            ends = {(sent.source, sent.destination, sent.place) for sent in announced if sent.collective == number}
            test = each.test
            order = CollectiveOrder(test.pattern, each.planned.count, test.iterations, test.warmup, True, test.seed)
            for job in each.jobs:
                started = job.start(order, epoch, ends)
                each.packets |= started.packets
                each.announced |= started.announced

    def ended(self) -> bool:
        """Return whether all programs have ended, successfully or not."""
        for each in self._running:
            for at, job in enumerate(each.jobs):
                if each.reports[at] is None:
                    each.reports[at] = self._reports(job)
        return all(reports is not None for each in self._running for reports in each.reports)

    def ways(self) -> list[tuple[str, Way, Sending]]:
        """Return every direction of a queue pair that carries traffic, with its workload's name and what it sends."""
        return [
            (each.planned.name, way, each.sendings[way.source, way.destination, way.place])
            for each in self._running
            for job in each.jobs
            for way in job.ways()
            if way.source_qpn in each.packets
        ]

    def announced(self) -> list[Way]:
        """Return those of them that were announced to SprayCheck."""
        return [
            way for each in self._running for job in each.jobs for way in job.ways() if way.source_qpn in each.announced
        ]

    def outcome(self, resent: Mapping[int, int]) -> CollectiveOutcome:
        """Return the results of all rounds; `resent` are packets by queue pair."""
        rows = tuple(_row(each, resent) for each in self._running if all(each.reports))
        announced = set(self.announced())
        unannounced = [way for _, way, sent in self.ways() if not sent.is_barrier and way not in announced]
        return CollectiveOutcome(rows, tuple(self.failed), len(unannounced))

    def close(self) -> None:
        """Release all resources; calling it twice is safe."""
        for each in self._running:
            for job in each.jobs:
                job.close()
        self._running = []

    def _reports(self, job: Job) -> tuple[Report, ...] | None:
        try:
            return job.reports()
        except WorkerFailedError as error:
            self.failed.append(str(error))
            return ()


def _row(each: _Running, resent: Mapping[int, int]) -> CollectiveRow:
    cost = Cost(sum(each.packets.values()), sum(resent.get(qpn, 0) for qpn in each.packets), 0)
    return row_of(each.test, each.planned.count, [reports or () for reports in each.reports], cost)
