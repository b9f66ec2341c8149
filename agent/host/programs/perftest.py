"""Bandwidth and latency of writes as perftest's `ib_write_bw` and `ib_write_lat` measure them.

Bandwidth: every queue pair keeps `depth` messages outstanding. Latency: half the time of a message and its answer.
perftest polls the last byte in memory; here the message is a Write with Immediate whose completion is polled, so a
message counts when it and all before it are in memory. Alternatively, the time until the sender's own completion is
measured.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from agent.host.programs.measurements import Pace, Report, spread_of
from agent.host.programs.rank import Rank, Span, Steps, Volume, Volumes, added
from agent.io.host_runtime import Channel

BUFFER_BYTES = 1 << 18
"""Memory that a queue pair cycles through when its messages are smaller. Our choice: many small messages per post."""

_BW_START, _BW_END = 0xB0000000, 0xB0000001


def buffer_bytes(message_bytes: int) -> int:
    """Return the memory that a queue pair needs at each end: whole messages, at least one."""
    return max(1, BUFFER_BYTES // message_bytes) * message_bytes


@dataclass(frozen=True, slots=True)
class WriteBw:
    """Rank 0 writes to rank 1, and with `both` also rank 1 to rank 0.

    Memory `source` and `target`, a part per queue pair.
    """

    message_bytes: int
    iterations: int | None
    """Messages per queue pair; None: until `duration_ns` have passed."""
    duration_ns: int
    depth: int
    """Messages that a queue pair keeps outstanding."""
    both: bool

    def volumes(self, rank: Rank) -> Volumes:
        """Compute what the program will send on each queue pair."""
        sent = rank.barrier_volumes(2)
        if not self._sends(rank):
            return sent
        each = {
            channel.qpn: Volume.of(self.message_bytes, channel.qp.config.pmtu, self.iterations)
            for channel in rank.channels()
        }
        return added(sent, each)

    def run(self, rank: Rank) -> Steps[Report]:
        """Post, keep the depth, and wait for the last message."""
        yield from rank.barrier(_BW_START)
        report = Report()
        if self._sends(rank):
            report = yield from _Sender(self, rank).run()
        yield from rank.barrier(_BW_END)
        return report

    def _sends(self, rank: Rank) -> bool:
        return self.both or rank.number == 0


class _Sender:
    """Keeps the queue pairs of one rank busy."""

    def __init__(self, order: WriteBw, rank: Rank) -> None:
        self._order = order
        self._rank = rank
        self._peer = 1 - rank.number
        self._channels = rank.links[self._peer].channels
        self._before = rank.done
        self._done_before = dict(rank.done_by)
        self._posted_by = {channel.qpn: 0 for channel in self._channels}
        self._posted = 0
        self._pace = Pace()
        self._start_ns = rank.clock()

    def run(self) -> Steps[Report]:
        """Run until all messages are acknowledged, or the time is over."""
        rank, now_ns = self._rank, self._start_ns
        while not self._is_over(now_ns):
            for place, channel in enumerate(self._channels):
                self._fill(place, channel, now_ns)
            yield rank.more_written()
            now_ns = rank.clock()
            self._pace.complete(now_ns, self._completed)
        return Report(
            iterations=self._completed,
            bytes=self._completed * self._order.message_bytes,
            elapsed_ns=now_ns - self._start_ns,
            best_ns_per_message=self._pace.best_ns_per_message(),
        )

    @property
    def _completed(self) -> int:
        return self._rank.done - self._before

    def _is_over(self, now_ns: int) -> bool:
        order = self._order
        if order.iterations is None:
            return now_ns - self._start_ns >= order.duration_ns
        return self._completed >= order.iterations * len(self._channels)

    def _fill(self, place: int, channel: Channel, now_ns: int) -> None:
        """Post messages up to the depth, in runs of messages that are contiguous in memory."""
        order, qpn = self._order, channel.qpn
        size = buffer_bytes(order.message_bytes)
        outstanding = self._posted_by[qpn] - (self._rank.done_by[qpn] - self._done_before[qpn])
        wanted = order.depth - outstanding
        if order.iterations is not None:
            wanted = min(wanted, order.iterations - self._posted_by[qpn])
        while wanted > 0:
            start = self._posted_by[qpn] * order.message_bytes % size
            count = min(wanted, (size - start) // order.message_bytes)
            source, target = (Span(name, place * size, size) for name in ("source", "target"))
            self._rank.post(
                channel, self._peer, source, target, start, count * order.message_bytes, order.message_bytes
            )
            self._pace.post(now_ns, self._posted)
            self._posted += count
            self._posted_by[qpn] += count
            wanted -= count


_LAT_START, _LAT_END, _PING, _LAST = range(0xA0000000, 0xA0000004)

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
        yield from rank.barrier(_LAT_START)
        report = Report()
        if rank.number == 0:
            report = yield from self._ask(rank)
        else:
            yield from self._answer(rank)
        yield from rank.barrier(_LAT_END)
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
        while rank.last_imm != _LAST:
            yield rank.arrival(0, self.message_bytes)
            if self.until == "answer":
                rank.write(0, self._source, self._target, rank.last_imm)

    @property
    def _source(self) -> Span:
        return Span("source", 0, self.message_bytes)

    @property
    def _target(self) -> Span:
        return Span("target", 0, self.message_bytes)
