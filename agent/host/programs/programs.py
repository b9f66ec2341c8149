"""The ranks of a worker's hosts and the programs that run on them. Turned by the drive loop; never waits."""

from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

from agent.core.completion import CompletionQueue
from agent.core.errors import CoreError
from agent.core.events import QpState
from agent.host.errors import ProgramError, RequestError
from agent.host.programs.rank import Condition, Rank, Steps
from agent.host.programs.report import Report


class Program(Protocol):
    """What can run on a rank."""

    def packets(self, rank: Rank) -> dict[int, int] | None:
        """Packets it will send from this rank by queue pair, barriers included; None when they are not known."""

    def run(self, rank: Rank) -> Steps[Report]:
        """The program itself."""


@dataclass(slots=True)
class Seat:
    """A rank and the last program that ran on it."""

    rank: Rank
    steps: Steps[Report] | None = None
    """None when nothing runs."""
    ready: Condition | None = None
    report: Report | None = None
    """Of a program that has ended."""
    error: str | None = None
    """Of one that could not go on."""

    def start(self, program: Program) -> None:
        """Begin with the next turn. Raises RequestError if one still runs."""
        if self.steps is not None:
            raise RequestError(f"rank {self.rank.number} still runs a program")
        self.steps, self.ready, self.report, self.error = program.run(self.rank), None, None, None

    def turn(self) -> bool:
        """Go on as far as possible; whether anything was done."""
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
        """`running`, `failed`, `done`, or `idle` before the first."""
        if self.steps is not None:
            return "running"
        return "failed" if self.error is not None else "idle" if self.report is None else "done"

    def check(self) -> None:
        """A program waits in vain when one of its queue pairs has failed."""
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
    """The ranks of one worker, by host and number of their completion queue."""

    seats: dict[tuple[int, int], Seat] = field(default_factory=dict)
    _queues: dict[tuple[int, int], CompletionQueue] = field(default_factory=dict)
    _numbers: "count[int]" = field(default_factory=lambda: count(1))

    @property
    def running(self) -> bool:
        """Whether any program runs."""
        return any(seat.steps is not None for seat in self.seats.values())

    def turn(self) -> bool:
        """Let every program go on; whether any did."""
        moved = [seat.turn() for seat in self.seats.values()]
        return any(moved)

    def new_queue(self, host: int) -> int:
        """The number of a new completion queue."""
        number = next(self._numbers)
        self._queues[host, number] = CompletionQueue()
        return number

    def queue(self, host: int, number: int) -> CompletionQueue:
        """A completion queue. Raises RequestError if there is none of that number."""
        if (host, number) not in self._queues:
            raise RequestError(f"h{host} has no completion queue {number}")
        return self._queues[host, number]

    def seat(self, host: int, number: int) -> Seat:
        """A rank. Raises RequestError if there is none of that number."""
        if (host, number) not in self.seats:
            raise RequestError(f"h{host} has no rank at completion queue {number}")
        return self.seats[host, number]

    def forget(self, host: int, number: int) -> None:
        """Drop a completion queue, and the rank that has it. Raises RequestError if there is none."""
        self.queue(host, number)
        self.seats.pop((host, number), None)
        del self._queues[host, number]
