"""How long does one small write take, from being posted until its completion is seen? Through the worker's own loop."""

import statistics
from contextlib import AbstractContextManager
from dataclasses import dataclass
from time import monotonic_ns

from agent.host.control import requests as ask
from agent.host.settings import WorkerSettings
from agent.io.engine import Engine
from tests.bench.worker import BenchWorker, Load

_WRITE_BYTES = 2
_WARM_UP = 50
"""Writes before the first that counts."""


@dataclass(frozen=True)
class Latency:
    """Microseconds of some writes, one after another."""

    median_us: float
    p99_us: float
    most_us: float
    writes: int


def measure_latency(
    settings: WorkerSettings, qp: ask.QpSettings, writes: int, opened: AbstractContextManager[Engine] | None = None
) -> Latency:
    """`writes` writes of two bytes, from the first host of the settings to the second, each posted after the last.

    `opened` as for a BenchWorker.
    """
    took_ns: list[int] = []
    with BenchWorker(settings, opened) as worker:
        worker.run(_writes(worker, qp, _WARM_UP + writes, took_ns))
    took_us = sorted(ns / 1000 for ns in took_ns[_WARM_UP:])
    return Latency(statistics.median(took_us), took_us[int(0.99 * writes)], took_us[-1], writes)


def _writes(worker: BenchWorker, qp: ask.QpSettings, writes: int, took_ns: list[int]) -> Load:
    hosts = source_host, target_host = [*worker.engine.hosts][:2]
    qpn, _ = worker.connect((source_host, target_host), qp)
    source, target = (
        worker.request(ask.RegisterRegion(host, 4096, 1, role))
        for host, role in zip(hosts, ("source", "target"), strict=True)
    )
    write = ask.PostWrite(source_host, qpn, source["rkey"], 0, _WRITE_BYTES, target["va"], target["rkey"], _WRITE_BYTES)
    sender = worker.qp(source_host, qpn)
    for done in range(writes):
        posted_ns = monotonic_ns()
        worker.request(write)
        while sender.completed_messages == done:
            yield
        took_ns.append(monotonic_ns() - posted_ns)
