"""Collective patterns on plain arrays: messages fit together, and everybody ends with the right numbers."""

from collections import defaultdict, deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.host.programs.collective import total, values
from agent.host.programs.patterns import Pattern, elements_of, pairs_of, parts_of, steps_of

SEED = 3


class World:
    """The memory of all ranks, and messages on their way; ranks take turns by chance."""

    def __init__(self, pattern: Pattern, ranks: int, count: int, chance: np.random.Generator) -> None:
        sizes = elements_of(pattern, ranks, count)
        self.memory = [{name: np.full(size, np.nan, np.float32) for name, size in sizes.items()} for _ in range(ranks)]
        for rank in range(ranks):
            self.memory[rank]["send"][:] = values(rank, SEED, 0, count, ranks)
        self.sent: defaultdict[tuple[int, int], deque[int]] = defaultdict(deque)
        waiting = {rank: self.run(rank, steps_of(pattern, rank, ranks, count)) for rank in range(ranks)}
        while waiting:
            rank = int(chance.choice(list(waiting)))
            if next(waiting[rank], "ended") == "ended":
                del waiting[rank]
        assert not any(self.sent.values()), "somebody was sent what nobody waits for"

    def run(self, rank, steps):
        for step in steps:
            for send in step.sends:
                source = self.memory[rank][send.memory][send.start : send.start + send.count]
                self.memory[send.peer][send.into][send.at : send.at + send.count] = source
                self.sent[rank, send.peer].append(send.count)
                yield
            for receive in step.receives:
                while not self.sent[receive.peer, rank]:
                    yield
                assert self.sent[receive.peer, rank].popleft() == receive.count
            for add in step.adds:
                found = self.memory[rank]["send"][add.start : add.start + add.count].copy()
                if add.scratch is not None:
                    found += self.memory[rank]["scratch"][add.scratch : add.scratch + add.count]
                self.memory[rank]["recv"][add.start : add.start + add.count] = found


SHAPES = st.tuples(st.sampled_from(Pattern), st.integers(2, 9), st.integers(0, 70), st.integers(0, 2**32))


@given(SHAPES)
def test_everybody_ends_with_the_right_numbers(shape) -> None:
    pattern, ranks, count, seed = shape
    world = World(pattern, ranks, count, np.random.default_rng(seed))
    for rank in range(ranks):
        parts = parts_of(pattern, rank, ranks, count)
        for part in parts:
            expected = total(part.ranks, SEED, part.start, part.count, ranks)
            assert np.array_equal(world.memory[rank]["recv"][part.at : part.at + part.count], expected)
        assert sum(part.count for part in parts) == np.count_nonzero(~np.isnan(world.memory[rank]["recv"]))


@given(SHAPES)
def test_ranks_talk_over_the_pairs_that_are_there_and_send_what_the_bandwidth_formulas_say(shape) -> None:
    pattern, ranks, count, _ = shape
    pairs = pairs_of(pattern, ranks)
    assert all((0, rank) in pairs for rank in range(1, ranks)), "barriers"
    sent = 0
    for rank in range(ranks):
        for step in steps_of(pattern, rank, ranks, count):
            assert {(min(rank, send.peer), max(rank, send.peer)) for send in step.sends} <= pairs
            sent += sum(send.count for send in step.sends)
    whole = count // ranks * ranks
    factor = {
        Pattern.ALL_REDUCE: 2 * (ranks - 1) * count,
        Pattern.ALL_TO_ALL: (ranks - 1) * whole,
        Pattern.SENDRECV: ranks * count,
        Pattern.INCAST: (ranks - 1) * (count // ranks),
    }
    assert sent == factor[pattern]


@given(st.integers(2, 4096), st.integers(0, 2**32 - 1), st.integers(0, 2**40), st.integers(0, 1000))
def test_numbers_are_the_same_wherever_they_are_made(ranks: int, seed: int, start: int, rank: int) -> None:
    many = values(rank, seed, start, 64, ranks)
    assert np.array_equal(many[17:40], values(rank, seed, start + 17, 23, ranks))
    assert (np.abs(many) <= 1).all()
    assert len(np.unique(many)) > 50
    assert not np.array_equal(many, values(rank + 1, seed, start, 64, ranks))
    assert not np.array_equal(many, values(rank, (seed + 1) % 2**32, start, 64, ranks))


@given(st.integers(2, 64), st.permutations(range(64)))
def test_sums_are_exact_in_any_order(ranks: int, order: list[int]) -> None:
    chosen = tuple(rank for rank in order if rank < ranks)
    exact = sum(values(rank, 1, 5, 200, ranks).astype(np.float64) for rank in range(ranks))
    assert np.array_equal(total(chosen, 1, 5, 200, ranks).astype(np.float64), exact)


@pytest.mark.parametrize(
    ("pattern", "ranks", "factor"),
    [
        ("all-reduce", 2, 1.0),
        ("all-reduce", 8, 1.75),
        ("all-to-all", 4, 0.75),
        ("sendrecv", 9, 1.0),
        ("incast", 5, 0.8),
    ],
)
def test_bus_bandwidth_has_nccl_tests_factors(pattern, ranks, factor):
    (found,) = (each for each in Pattern if each.value == pattern)
    assert found.shape.bus_factor(ranks) == pytest.approx(factor)
