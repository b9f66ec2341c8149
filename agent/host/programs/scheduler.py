"""Scheduler of programs: the ranks of a worker and what runs on them. The drive loop calls it; it never waits."""

from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple, Protocol

from agent.core.completion import CompletionQueue
from agent.core.errors import CoreError
from agent.core.events import QpState
from agent.host.errors import ProgramError, RequestError
from agent.host.programs.measurements import Report
from agent.host.programs.rank import Condition, Rank, Steps, Volumes


class Program(Protocol):
    """A program that can run on a rank."""

    def volumes(self, rank: Rank) -> Volumes:
        """Compute what it will send from this rank on each queue pair."""

    def run(self, rank: Rank) -> Steps[Report]:
        """Run the program."""


class Sending(NamedTuple):
    """Amount that a queue pair sends for a program."""

    total_bytes: int | None
    """Payload bytes posted when the program ends; None if the duration decides."""
    only_barriers: bool
    """The queue pair carries no data, only barriers."""


@dataclass(slots=True)
class Seat:
    """A rank and the last program that ran on it."""

    rank: Rank
    steps: Steps[Report] | None = None
    """The running program; None if none runs."""
    ready: Condition | None = None
    report: Report | None = None
    """Report of a program that has ended."""
    error: str | None = None
    """Error of a program that could not continue."""
    volumes: Volumes = field(default_factory=dict)
    """Amounts that the last program sends."""
    posted_before: dict[int, int] = field(default_factory=dict)
    """Payload bytes that each queue pair had posted before the program, by queue pair."""

    def start(self, program: Program) -> None:
        """Start a program with the next turn. Raises RequestError if one still runs."""
        if self.steps is not None:
            raise RequestError(f"rank {self.rank.number} still runs a program")
        self.volumes = program.volumes(self.rank)
        self.posted_before = {channel.qpn: channel.qp.progress().posted_bytes for channel in self.rank.channels()}
        self.steps, self.ready, self.report, self.error = program.run(self.rank), None, None, None

    def turn(self) -> bool:
        """Continue the program as far as possible; return whether anything was done."""
        if self.steps is None:
            return False
        if not len(self.rank.completions) and self.ready is not None:
            return False
        try:
            self.rank.take()
            return self._advance(self.steps)
        except (ProgramError, CoreError) as error:
            self.steps, self.error = None, str(error)
            return True

    @property
    def state(self) -> str:
        """Return `running`, `failed`, `done`, or `idle` before the first."""
        if self.steps is not None:
            return "running"
        return "failed" if self.error is not None else "idle" if self.report is None else "done"

    def check(self) -> None:
        """End the program with an error if a queue pair has failed, because it would wait for ever."""
        if self.steps is None:
            return
        failed = [f"{channel.qpn:#x}" for channel in self.rank.channels() if channel.qp.state is QpState.ERROR]
        if failed:
            self.steps, self.error = None, f"queue pair {', '.join(failed)} has failed"

    def _advance(self, steps: Steps[Report]) -> bool:
        moved = False
        try:
            while self.ready is None or self.ready():
                moved = True
                self.ready = next(steps)
                if self.ready is None:
                    break
        except StopIteration as end:
            self.steps, self.report = None, end.value
        return moved


@dataclass(slots=True)
class Programs:
    """Ranks of one worker, by host and number of their completion queue."""

    seats: dict[tuple[int, int], Seat] = field(default_factory=dict)
    _queues: dict[tuple[int, int], CompletionQueue] = field(default_factory=dict)
    _numbers: "count[int]" = field(default_factory=lambda: count(1))

    @property
    def running(self) -> bool:
        """Report whether any program runs."""
        return any(seat.steps is not None for seat in self.seats.values())

    def turn(self) -> bool:
        """Continue every program; return whether any did something."""
        moved = [seat.turn() for seat in self.seats.values()]
        return any(moved)

    def new_queue(self, host: int) -> int:
        """Create a completion queue; return its number."""
        number = next(self._numbers)
        self._queues[host, number] = CompletionQueue()
        return number

    def sending(self) -> dict[tuple[int, int], Sending]:
        """Return what the last program of each rank sends, by host and queue pair."""
        return {
            (host, qpn): Sending(volume.ends_at(seat.posted_before[qpn]), volume.data_bytes == 0)
            for (host, _), seat in self.seats.items()
            for qpn, volume in seat.volumes.items()
        }

    def queue(self, host: int, number: int) -> CompletionQueue:
        """Return a completion queue. Raises RequestError if there is none of that number."""
        if (host, number) not in self._queues:
            raise RequestError(f"h{host} has no completion queue {number}")
        return self._queues[host, number]

    def seat(self, host: int, number: int) -> Seat:
        """Return a rank. Raises RequestError if there is none of that number."""
        if (host, number) not in self.seats:
            raise RequestError(f"h{host} has no rank at completion queue {number}")
        return self.seats[host, number]

    def forget(self, host: int, number: int) -> None:
        """Remove a completion queue and its rank. Raises RequestError if there is none."""
        self.queue(host, number)
        self.seats.pop((host, number), None)
        del self._queues[host, number]
