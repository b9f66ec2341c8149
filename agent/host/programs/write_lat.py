"""Latency of writes as perftest's `ib_write_lat` measures it: half the time of a message and its answer.

perftest polls the last byte in memory; here the message is a Write with Immediate whose completion is polled, so a
message counts when it and all before it are in memory. Alternatively, the time until the sender's own completion is
measured.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from agent.host.programs.rank import Rank, Span, Steps, Volumes, added
from agent.host.programs.report import Report, spread_of

_START, _END, _PING, _LAST = range(0xA0000000, 0xA0000004)

_TIMES = {"answer": 2, "completion": 1}
"""Messages in sequence per timed iteration."""


@dataclass(frozen=True, slots=True)
class WriteLat:
    """Rank 0 sends to rank 1, one message at a time; memory `source` and `target`."""

    message_bytes: int
    iterations: int | None
    """Timed iterations; None: until `duration_ns` have passed."""
    duration_ns: int
    warmup: int
    """Iterations before the timed ones."""
    until: Literal["answer", "completion"]
    """What ends a message: half the round trip to the peer's answer, or the sender's own completion."""

    def volumes(self, rank: Rank) -> Volumes:
        """Compute what the program will send on each queue pair."""
        sent = rank.barrier_volumes(2)
        if self.until == "completion" and rank.number:
            return sent
        times = None if self.iterations is None else self.warmup + self.iterations
        return added(sent, rank.write_volumes(1 - rank.number, self.message_bytes, times))

    def run(self, rank: Rank) -> Steps[Report]:
        """Send, answer and measure the time."""
        yield from rank.barrier(_START)
        report = Report()
        if rank.number == 0:
            report = yield from self._ask(rank)
        else:
            yield from self._answer(rank)
        yield from rank.barrier(_END)
        return report

    def _ask(self, rank: Rank) -> Steps[Report]:
        times: list[int] = []
        start_ns = now_ns = rank.clock()
        is_last = False
        while not is_last:
            is_last = self._is_last(len(times) + 1, now_ns - start_ns)
            rank.write(1, self._source, self._target, _LAST if is_last else _PING)
            yield rank.written() if self.until == "completion" else rank.arrival(1, self.message_bytes)
            begun_ns, now_ns = now_ns, rank.clock()
            times.append(now_ns - begun_ns)
        timed = np.array(times[self.warmup :], np.int64) // _TIMES[self.until]
        return Report(len(timed), len(timed) * self.message_bytes, now_ns - start_ns, spread=spread_of(timed))

    def _is_last(self, number: int, elapsed_ns: int) -> bool:
        if self.iterations is None:
            return number > self.warmup and elapsed_ns >= self.duration_ns
        return number == self.warmup + self.iterations

    def _answer(self, rank: Rank) -> Steps[None]:
        while rank.told != _LAST:
            yield rank.arrival(0, self.message_bytes)
            if self.until == "answer":
                rank.write(0, self._source, self._target, rank.told)

    @property
    def _source(self) -> Span:
        return Span("source", 0, self.message_bytes)

    @property
    def _target(self) -> Span:
        return Span("target", 0, self.message_bytes)
