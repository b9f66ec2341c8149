"""Rounds of a collective pattern: float32 numbers are sent, summed and, in a separate round, checked.

Every rank can compute all numbers, and float32 holds their sums exactly in any order of addition.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agent.host.programs.measurements import Report, spread_of
from agent.host.programs.patterns import ELEMENT_BYTES, Part, Pattern, Send, Step, parts_of, steps_of
from agent.host.programs.rank import Rank, Span, Steps, Volumes, added

Floats = NDArray[np.float32]

_BY_ELEMENT, _BY_RANK, _BY_SEED = (np.uint32(value) for value in (0x9E3779B1, 0x85EBCA6B, 0xC2B2AE35))
"""Odd multipliers, so that no two elements share a sequence. Our choice: large primes that spread well over 32 bits."""

_MANTISSA_BITS = 24


def values(rank: int, seed: int, start: int, count: int, ranks: int) -> Floats:
    """Compute elements start .. start + count - 1 of a rank, (count,), in -1 .. 1.

    They have so few binary digits that float32 holds the sum of `ranks` of them exactly: at most 2^23 ranks.
    """
    bits = _MANTISSA_BITS - max(1, (ranks - 1).bit_length())
    mixed = np.arange(start, start + count, dtype=np.uint64).astype(np.uint32)
    mixed *= _BY_ELEMENT
    mixed += np.uint32((rank + 1) * int(_BY_RANK) + seed * int(_BY_SEED) & 0xFFFFFFFF)
    mixed ^= mixed >> np.uint32(15)
    mixed *= _BY_RANK
    whole = (mixed >> np.uint32(32 - bits)).astype(np.int32) - (1 << bits - 1)
    return whole.astype(np.float32) * np.float32(2.0 ** (1 - bits))


def total(ranks: tuple[int, ...], seed: int, start: int, count: int, job_ranks: int) -> Floats:
    """Compute the exact sum of those elements over some ranks of a job."""
    found = values(ranks[0], seed, start, count, job_ranks)
    for rank in ranks[1:]:
        found += values(rank, seed, start, count, job_ranks)
    return found


_BLOCK = 1 << 18
"""Elements made or compared per turn, all ranks together. Our choice: about a millisecond, so that other work
continues."""

_START, _TIMED, _POISON, _CHECK, _END = range(0xC0000000, 0xC0000005)

_TAG_MASK = 0x7FFFFFFF


@dataclass(frozen=True, slots=True)
class Collective:
    """Rounds of a pattern on memory `send`, `recv` and `scratch` of the sizes in `patterns.elements_of`."""

    pattern: Pattern
    count: int
    iterations: int
    """Number of timed rounds."""
    warmup: int
    """Number of rounds before the timed ones."""
    check: bool
    """Run and check one more round with other numbers, after overwriting the result memory."""
    seed: int

    def volumes(self, rank: Rank) -> Volumes:
        """Compute what the program will send on each queue pair."""
        sent = rank.barrier_volumes(5 if self.check else 3)
        rounds = self.warmup + self.iterations + self.check
        for step in self._steps(rank):
            for send in step.sends:
                sent = added(sent, rank.write_volumes(send.peer, send.count * ELEMENT_BYTES, rounds))
        return sent

    def run(self, rank: Rank) -> Steps[Report]:
        """Run the warm-up, the timed rounds and the check."""
        steps, rounds = self._steps(rank), 0
        yield from self._fill(rank, self.seed)
        yield from rank.barrier(_START)
        for _ in range(self.warmup):
            yield from self._round(rank, steps, rounds)
            rounds += 1
        yield from rank.barrier(_TIMED)
        times = np.zeros(self.iterations, np.int64)
        start_ns = now_ns = rank.clock()
        for iteration in range(self.iterations):
            yield from self._round(rank, steps, rounds)
            rounds += 1
            begun_ns, now_ns = now_ns, rank.clock()
            times[iteration] = now_ns - begun_ns
        checked, wrong = None, None
        if self.check:
            yield from rank.barrier(_POISON)
            checked, wrong = yield from self._checked(rank, steps, rounds)
        yield from rank.barrier(_END)
        each = sum(send.count for step in steps for send in step.sends) * ELEMENT_BYTES
        return Report(
            iterations=self.iterations,
            bytes=each * self.iterations,
            elapsed_ns=now_ns - start_ns,
            spread=spread_of(times),
            checked=checked,
            wrong=wrong,
        )

    def _steps(self, rank: Rank) -> tuple[Step, ...]:
        return steps_of(self.pattern, rank.number, rank.count, self.count)

    def _round(self, rank: Rank, steps: tuple[Step, ...], number: int) -> Steps[None]:
        """Run one round; it ends when everything sent is acknowledged, so the memory may be used again."""
        for place, step in enumerate(steps):
            tag = (number * len(steps) + place) & _TAG_MASK
            for send in step.sends:
                rank.write(send.peer, _source(send), _target(send), tag)
            for receive in step.receives:
                yield rank.arrival(receive.peer, receive.count * ELEMENT_BYTES, tag)
            for add in step.adds:
                _add(rank, add.start, add.count, add.scratch)
        yield rank.written()

    def _checked(self, rank: Rank, steps: tuple[Step, ...], number: int) -> Steps[tuple[int, int]]:
        """Check a round with numbers of its own; return elements checked and elements that are wrong."""
        yield from self._fill(rank, self.seed + 1)
        rank.floats("recv")[: self.count] = np.nan
        yield from rank.barrier(_CHECK)
        yield from self._round(rank, steps, number)
        checked = wrong = 0
        for part in parts_of(self.pattern, rank.number, rank.count, self.count):
            for at, expected in self._expected(rank, part):
                found = rank.floats("recv")[at : at + len(expected)]
                wrong += int(np.count_nonzero(found != expected))
                checked += len(expected)
                yield None
        return checked, wrong

    def _expected(self, rank: Rank, part: Part) -> Iterator[tuple[int, Floats]]:
        block = max(1, _BLOCK // len(part.ranks))
        for done in range(0, part.count, block):
            size = min(block, part.count - done)
            yield part.at + done, total(part.ranks, self.seed + 1, part.start + done, size, rank.count)

    def _fill(self, rank: Rank, seed: int) -> Steps[None]:
        send = rank.floats("send")
        for start in range(0, self.count, _BLOCK):
            size = min(_BLOCK, self.count - start)
            send[start : start + size] = values(rank.number, seed, start, size, rank.count)
            yield None


def _add(rank: Rank, start: int, count: int, scratch: int | None) -> None:
    own, into = (rank.floats(name)[start : start + count] for name in ("send", "recv"))
    if scratch is None:
        into[:] = own
    else:
        np.add(own, rank.floats("scratch")[scratch : scratch + count], out=into)


def _source(send: Send) -> Span:
    return Span(send.memory, send.start * ELEMENT_BYTES, send.count * ELEMENT_BYTES)


def _target(send: Send) -> Span:
    return Span(send.into, send.at * ELEMENT_BYTES, send.count * ELEMENT_BYTES)
