"""Runs a run's collectives on the engine workers: opens, starts, watches, checks and closes them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from agent.host.control import requests as ask
from agent.host.programs.patterns import ELEMENT_BYTES
from agent.host.programs.requests import CollectiveOrder
from results.records.collective_rows import CollectiveRow
from results.records.perf_rows import Cost
from scenarios.errors import WorkerFailedError
from scenarios.file.collective_plan import PlannedCollective, Sending
from scenarios.workload.jobs import Asked, Job, Report, Way
from scenarios.workload.perf_collectives import CollectiveTest, jobs_of, row_of


@dataclass
class _Running:
    """One workload of rounds."""

    planned: PlannedCollective
    test: CollectiveTest
    jobs: tuple[Job, ...]
    reports: list[tuple[Report, ...] | None]
    sendings: dict[tuple[int, int, int], Sending]
    """Return what each queue pair will send, by source, destination and index."""
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
        """Yield every direction of a queue pair that carries traffic, with its workload's name and what it sends."""
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
