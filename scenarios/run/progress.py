"""Records the progress of flows and the load of this machine during a run, and states what a stalled run waits for.

Judges nothing; `scenarios.run.judge.checks` judges the difference between start and end.
"""

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agent.wire.ev import EvCodec
from results.files.event_log import EventLog, Fields, stamped
from results.records.rejected import rejected_rows
from results.text import count_text
from scenarios.lab.protocol import FaultState
from scenarios.run.disk_errors import Unwritten
from scenarios.workload.traffic import FlowProgress, WorkerCounts, rejected_counts

_SOFTNET = Path("/proc/net/softnet_stat")
_SOFTNET_DROPPED = 1
"""Column of packets dropped because a core's backlog was full (net/core/net-procfs.c)."""

EVERY_S = 1.0
"""Time between samples (our choice): a sample costs some milliseconds."""

PROGRESS_EVERY_S = 0.25
"""Time between records of the flows' progress (our choice): the runner asks for it more often anyway."""

LEAST_S = 0.2
"""Least time for a share (our choice)."""

_STAT = Path("/proc/stat")
_IDLE, _IOWAIT = 3, 4
"""Columns of the `cpu` line behind its name (proc_stat(5))."""


@dataclass
class Samples:
    """The samples of one run, appended to a file."""

    path: Path
    run: str
    seed: int
    unwritten: Unwritten = field(default_factory=Unwritten)
    """Receives errors of writing a sample; the run goes on."""
    _last_s: float = field(default=0.0)
    _last_progress_s: float = 0.0
    _packets: int = 0
    _cpu: tuple[int, int] = (0, 0)
    _engines: tuple[tuple[int, int], ...] = ()
    """Nanoseconds each engine ran and waited, at the last sample."""

    def due(self, ended: bool = False) -> bool:
        """Return whether the last sample is old enough; when traffic has ended one more is taken sooner."""
        return time.monotonic() - self._last_s >= (LEAST_S if ended else EVERY_S)

    def note_progress(self, progress: Sequence[FlowProgress], ended: bool) -> None:
        """Append how far every flow is, if the last such record is old enough or all traffic has `ended`.

        The flows alone do not show that: between two rounds of a collective all that was posted is acknowledged.
        """
        now = time.monotonic()
        if now - self._last_progress_s < PROGRESS_EVERY_S and not ended:
            return
        self._last_progress_s = now
        fields = {
            "acked_bytes": [flow.acked_bytes for flow in progress],
            "resent": [flow.packets_rtx for flow in progress],
        }
        self._append("PROGRESS", fields)

    def take(
        self, progress: Sequence[FlowProgress], workers: Sequence[WorkerCounts], faults: Sequence[FaultState]
    ) -> None:
        """Append one sample; rates and shares are since the one before and null in the first."""
        now, cpu = time.monotonic(), _cpu_ticks()
        engines = tuple((worker.cpu_ns, worker.sched_wait_ns) for worker in workers)
        packets = sum(flow.packets_tx + flow.packets_rtx for flow in progress)
        sample = {
            "packets_sent": packets,
            "packets_per_s": self._per_second(packets, now),
            "outstanding_bytes": sum(flow.posted_bytes - flow.acked_bytes for flow in progress),
            "timeouts": sum(flow.timeouts for flow in progress),
            **_lost(workers, faults),
            "cpu_busy_share": _share(cpu[0] - self._cpu[0], cpu[1] - self._cpu[1]) if self._last_s else None,
            **waits(self._engines, engines),
        }
        self._append("LOAD", sample)
        self._last_s, self._packets, self._cpu, self._engines = now, packets, cpu, engines

    def _append(self, event: str, fields: Fields) -> None:
        with self.unwritten.noting(), EventLog(self.path) as log:
            log.append({"run": self.run, "seed": self.seed} | stamped(event, "runner", fields))

    def _per_second(self, packets: int, now: float) -> float | None:
        return round((packets - self._packets) / (now - self._last_s), 1) if self._last_s else None


def waits(before: Sequence[tuple[int, int]], now: Sequence[tuple[int, int]]) -> Fields:
    """Return the shares of the engines' time, of all and of the worst, spent waiting for a core between two samples.

    Null without a sample before.
    """
    if not before:
        return {"sched_wait_share": None, "sched_wait_worst": None}
    grown = [(ran - earlier[0], waited - earlier[1]) for (ran, waited), earlier in zip(now, before, strict=True)]
    ran, waited = (sum(column) for column in zip(*grown, strict=True))
    return {
        "sched_wait_share": _share(waited, ran + waited),
        "sched_wait_worst": max(_share(waited, ran + waited) for ran, waited in grown),
    }


def _lost(workers: Sequence[WorkerCounts], faults: Sequence[FaultState]) -> Fields:
    ports = [port for worker in workers for port in worker.ports]
    return {
        "softnet_drops": softnet_drops(),
        "ring_drops": sum(port.rx_drops for port in ports),
        "tx_errors": sum(port.tx_errors for port in ports),
        "overlimits": sum(fault.overlimits for fault in faults),
        "faults_dropped": sum(fault.dropped for fault in faults),
        "rejected": rejected_rows(rejected_counts(workers)),
    }


def _share(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 0.0


def _cpu_ticks() -> tuple[int, int]:
    """Return the busy and all ticks of all cores since boot."""
    ticks = [int(word) for word in _STAT.read_text().splitlines()[0].split()[1:9]]
    return sum(ticks) - ticks[_IDLE] - ticks[_IOWAIT], sum(ticks)


WAITS_AFTER_S = 1.0
"""Time without one more acknowledged byte after which the run shows what it waits for instead of the time left."""

_NAMED = 3
"""Most flows or paths that are named; the others are counted."""


def waits_text(names: Sequence[str], progress: Sequence[FlowProgress], seconds: float) -> str:
    """State what flows of (n,) names wait for, `seconds` after the last acknowledged byte; empty if all have ended."""
    waiting = [(name, flow) for name, flow in zip(names, progress, strict=True) if not flow.ended and flow.posted_bytes]
    if not waiting:
        return ""
    whose = "waits" if len(waiting) == 1 else "wait"
    packets = sum(flow.in_flight_pkts + flow.backlog_pkts for _, flow in waiting)
    text = f"nothing acknowledged for {seconds:.0f} s; {_listed([name for name, _ in waiting], 'flow')} {whose} for "
    text += count_text(packets, "packet") if packets else "the ACK of what has arrived"
    silent = sorted({path for _, flow in waiting for path in flow.silent_evs})
    return text + (f"; nothing comes back over {_listed([_path_text(ev) for ev in silent], 'path')}" if silent else "")


def _listed(names: Collection[str], noun: str) -> str:
    named = list(dict.fromkeys(names))
    rest = len(named) - _NAMED
    return ", ".join(named[:_NAMED]) + (f" and {count_text(rest, f'more {noun}')}" if rest > 0 else "")


def _path_text(ev: int) -> str:
    path = EvCodec().path_of(ev)
    return f"plane {path.plane}" + ("" if path.spine is None else f" spine {path.spine}")


def softnet_drops() -> int:
    """Return the packets that the backlog of any core refused since boot."""
    lines = _SOFTNET.read_text().splitlines()
    return sum(int(line.split()[_SOFTNET_DROPPED], 16) for line in lines)
