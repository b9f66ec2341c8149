"""Reads progress of flows and load of the machine from `counters.jsonl`; long files are thinned out."""

from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from results.files.reading import Lines
from results.records.agent_records import LoadRecord, ProgressRecord, Record

T = TypeVar("T", bound=Record)

MOST_POINTS = 1200
"""Points per line in a figure; from twice as many on, every second one is left out (our choice)."""


@dataclass(frozen=True)
class Progress:
    """Progress of the flows over time."""

    at_ns: NDArray[np.int64]
    """(m,)"""
    acked_bytes: NDArray[np.int64]
    """(m, flows)"""
    resent: NDArray[np.int64]
    """(m, flows), packets"""


@dataclass(frozen=True)
class Load:
    """Load of the machine over time, `(m,)` each; NaN where a sample has no value."""

    at_ns: NDArray[np.int64]
    packets_per_s: NDArray[np.float64]
    cpu_busy_share: NDArray[np.float64]
    sched_wait_share: NDArray[np.float64]
    outstanding_bytes: NDArray[np.float64]


_OF_LOAD = ("packets_per_s", "cpu_busy_share", "sched_wait_share", "outstanding_bytes")


def read_counters(lines: Lines) -> tuple[Progress, Load]:
    """Read all of `counters.jsonl`."""
    progress, load = _Thinned[ProgressRecord](), _Thinned[LoadRecord]()
    for line in lines.of_type(LoadRecord | ProgressRecord):
        if isinstance(line, ProgressRecord):
            progress.add(line)
        else:
            load.add(line)
    flows = min((min(len(line.acked_bytes), len(line.resent)) for line in progress.lines), default=0)
    return (
        Progress(
            progress.times(),
            np.array([line.acked_bytes[:flows] for line in progress.lines], np.int64).reshape(
                len(progress.lines), flows
            ),
            np.array([line.resent[:flows] for line in progress.lines], np.int64).reshape(len(progress.lines), flows),
        ),
        Load(load.times(), *(np.array([getattr(line, name) for line in load.lines], float) for name in _OF_LOAD)),
    )


class _Thinned(Generic[T]):
    """Keeps every line, then every second one, then every fourth."""

    def __init__(self) -> None:
        self.lines: list[T] = []
        self._step = 1
        self._seen = 0

    def add(self, line: T) -> None:
        if self._seen % self._step == 0:
            self.lines.append(line)
        self._seen += 1
        if len(self.lines) > 2 * MOST_POINTS:
            del self.lines[1::2]
            self._step *= 2

    def times(self) -> NDArray[np.int64]:
        return np.array([line.mono_ns for line in self.lines], np.int64)
