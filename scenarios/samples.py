"""How flows and this machine fare during a run, into its folder: what came through, what was lost, how busy it was.

Read at the edge, judged by nobody here; `scenarios.expect` judges the difference between start and end.
"""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from results.event_log import EventLog, stamped
from scenarios.collect import softnet_drops
from scenarios.protocol import FaultState
from scenarios.traffic import FlowProgress, WorkerCounts

EVERY_S = 1.0
"""Between samples (our choice): a sample costs some milliseconds."""

PROGRESS_EVERY_S = 0.25
"""Between records of the flows' progress (our choice): the runner asks for it more often anyway."""

_STAT = Path("/proc/stat")
_IDLE, _IOWAIT = 3, 4
"""Columns of the `cpu` line behind its name (proc_stat(5))."""


@dataclass
class Samples:
    """Samples of one run, appended to a file."""

    path: Path
    _last_s: float = field(default=0.0)
    _last_progress_s: float = 0.0
    _packets: int = 0
    _cpu: tuple[int, int] = (0, 0)

    def due(self) -> bool:
        """Whether the last sample is old enough."""
        return time.monotonic() - self._last_s >= EVERY_S

    def note_progress(self, progress: Sequence[FlowProgress]) -> None:
        """Append how far every flow is, if the last such record is old enough or this is the end."""
        now = time.monotonic()
        if now - self._last_progress_s < PROGRESS_EVERY_S and not all(flow.ended for flow in progress):
            return
        self._last_progress_s = now
        told = {
            "acked_bytes": [flow.acked_bytes for flow in progress],
            "resent": [flow.packets_rtx for flow in progress],
        }
        with EventLog(self.path) as log:
            log.append(stamped("PROGRESS", "runner", told))

    def take(
        self, progress: Sequence[FlowProgress], workers: Sequence[WorkerCounts], faults: Sequence[FaultState]
    ) -> None:
        """Append one sample; rates are since the one before and null in the first."""
        now, cpu = time.monotonic(), _cpu_ticks()
        packets = sum(flow.packets_tx + flow.packets_rtx for flow in progress)
        passed = now - self._last_s if self._last_s else None
        busy, total = cpu[0] - self._cpu[0], cpu[1] - self._cpu[1]
        ports = [port for worker in workers for port in worker.ports]
        ran, waited = sum(w.cpu_ns for w in workers), sum(w.sched_wait_ns for w in workers)
        sample = {
            "packets_sent": packets,
            "packets_per_s": None if passed is None else round((packets - self._packets) / passed, 1),
            "outstanding_bytes": sum(flow.posted_bytes - flow.acked_bytes for flow in progress),
            "softnet_drops": softnet_drops(),
            "ring_drops": sum(port.rx_drops for port in ports),
            "tx_errors": sum(port.tx_errors for port in ports),
            "overlimits": sum(fault.overlimits for fault in faults),
            "faults_dropped": sum(fault.dropped for fault in faults),
            "cpu_busy_share": None if passed is None or not total else round(busy / total, 4),
            "cpus": os.cpu_count(),
            "sched_wait_share": round(waited / (ran + waited), 4) if ran + waited else 0.0,
        }
        with EventLog(self.path) as log:
            log.append(stamped("LOAD", "runner", sample))
        self._last_s, self._packets, self._cpu = now, packets, cpu


def _cpu_ticks() -> tuple[int, int]:
    """Busy and all ticks of all cores since boot."""
    ticks = [int(word) for word in _STAT.read_text().splitlines()[0].split()[1:9]]
    return sum(ticks) - ticks[_IDLE] - ticks[_IOWAIT], sum(ticks)
