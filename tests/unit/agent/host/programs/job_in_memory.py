"""Jobs on one worker over the fabric in memory, in virtual time."""

import gc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from agent.host.control import requests as ask
from scenarios.workload.jobs import Job, JobShape, Report
from tests.support.queue_pairs import qp_settings
from tests.unit.agent.host.test_commands import Worker

PAIR = frozenset({(0, 1)})


class Lab:
    """A worker that drives hosts 0 to 3 and runs programs."""

    def __init__(self, *rules: Any) -> None:
        self.worker = Worker(*rules)

    def ask(self, request: ask.Request) -> dict[str, Any]:
        return self.worker.commands.serve(request)

    def ask_progress(self) -> list[dict[str, Any]]:
        """How far every queue pair is."""
        return self.ask(ask.Progress())["qps"]

    def turn(self, step_ns: int = 5_000) -> None:
        """One turn of the drive loop."""
        engine, fabric = self.worker.commands.engine, self.worker.fabric
        moved = engine.receive(fabric.now_ns)
        moved += self.worker.commands.programs.turn()
        moved += engine.send(fabric.now_ns)
        due = [fabric.next_arrival_ns(), engine.next_deadline_ns()]
        next_ns = min((time for time in due if time is not None), default=0)
        fabric.advance(fabric.now_ns + step_ns if moved else max(fabric.now_ns + step_ns, next_ns))

    def run(self, *jobs: Job, within_ns: int = 5_000_000_000) -> list[tuple[Report, ...]]:
        """Until all jobs have ended."""
        end_ns = self.worker.fabric.now_ns + within_ns
        while True:
            reports = [job.reports() for job in jobs]
            if None not in reports:
                return reports
            self.turn()
            assert self.worker.fabric.now_ns < end_ns, "the programs did not end in time"

    @contextmanager
    def job(self, hosts: tuple[int, ...], pairs: frozenset[tuple[int, int]] = PAIR, **shape: Any) -> Iterator[Job]:
        """A job that is open; once it is closed, its memory must be free without the garbage collector."""
        config = qp_settings(pmtu=256, window_pkts=128, ack_timeout_ns=5_000_000)
        job = Job([self], JobShape(hosts, pairs, **{"qps": 1, "config": config, **shape}))
        job.open()
        yield job
        held = [weakref.ref(each) for each in self._held()]
        gc.disable()
        try:
            job.close()
            assert not self.worker.commands.programs.seats
            assert not list(self._held())
            assert all(ref() is None for ref in held)
        finally:
            gc.enable()

    def _held(self) -> Iterator[object]:
        """Queue pairs, and the memory of regions."""
        for host in self.worker.commands.engine.hosts.values():
            yield from (channel.qp for channel in host.channels.values())
            yield from (region.data for region in host.regions)
