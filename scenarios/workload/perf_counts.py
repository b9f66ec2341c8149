"""Counts what the workers of a lab have sent and lost, read before and after a test."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Self

from agent.host.control import requests as ask
from scenarios.workload.jobs import Asked


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
        """Share of the engines' time spent waiting for a core."""
        all_ns = self.engine_ns + self.wait_ns
        return self.wait_ns / all_ns if all_ns else 0.0

    def since(self, before: "PerfCounts") -> Self:
        """Return the difference to an earlier reading."""
        return type(self)(*(getattr(self, f.name) - getattr(before, f.name) for f in fields(self)))


def perf_counts(workers: Sequence[Asked]) -> PerfCounts:
    """Now."""
    qps = [row for worker in workers for row in worker.ask(ask.Progress())["qps"]]
    counters = [worker.ask(ask.Counters()) for worker in workers]
    ports = [port for told in counters for port in told["ports"]]
    rejected = [row for told in counters for row in told["rejected"]]
    overflowed = sum(row["packets"] for row in rejected if row["reason"] == "TX_OVERFLOW")
    return PerfCounts(
        packets=sum(row["packets_tx"] for row in qps),
        retransmissions=sum(row["packets_rtx"] for row in qps),
        timeouts=sum(row["timeouts"] for row in qps),
        lost_here=sum(port["rx_drops"] + port["tx_errors"] for port in ports) + overflowed,
        engine_ns=sum(told["cpu_ns"] for told in counters),
        wait_ns=sum(told["sched_wait_ns"] for told in counters),
    )
