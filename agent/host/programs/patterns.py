"""Collective patterns as data: what each rank sends, receives and adds, step by step. Pure.

Counts are in float32 elements. Every rank of a job derives its own steps from (its number, ranks, count), and the steps
match: the k-th message that a rank sends to a peer is the k-th that the peer expects from it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Self

ELEMENT_BYTES = 4


def shares_of(size: int, queue_pairs: int, pmtu: int) -> Iterator[tuple[int, int]]:
    """Cut a message of `size` bytes for its queue pairs, (start, bytes) each: full packets, none empty."""
    share = -(-size // (queue_pairs * pmtu)) * pmtu
    for start in range(0, size, share or 1):
        yield start, min(share, size - start)


@dataclass(frozen=True, slots=True)
class Send:
    """Write elements `start` .. `start + count - 1` of our `memory` at `at` of the peer's `into`."""

    peer: int
    memory: str
    start: int
    count: int
    into: str
    at: int


@dataclass(frozen=True, slots=True)
class Receive:
    """Receive a message of `count` elements from a peer."""

    peer: int
    count: int


@dataclass(frozen=True, slots=True)
class Add:
    """Set `recv[start:]` to `send[start:]`, plus `scratch[scratch:]` if there is one, for `count` elements."""

    start: int
    count: int
    scratch: int | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One step: send all, receive all, then compute."""

    sends: tuple[Send, ...] = ()
    receives: tuple[Receive, ...] = ()
    adds: tuple[Add, ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """Result of a round: `recv[at:]` holds the sum over `ranks` of their `send[start:]`, for `count` elements."""

    at: int
    count: int
    ranks: tuple[int, ...]
    start: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Properties of a pattern."""

    help: str
    """Sentence for the command line's help."""
    steps: Callable[[int, int, int], Iterator[Step]]
    """Steps of a rank in one round, from (its number, ranks, elements of `send`)."""
    parts: Callable[[int, int, int], tuple[Part, ...]]
    """Expected memory of a rank after a round, from the same arguments."""
    bus_factor: Callable[[int], float]
    """Bus bandwidth divided by algorithm bandwidth, by ranks, as in nccl-tests (doc/PERFORMANCE.md)."""
    scratch: Callable[[int, int], int] | None = None
    """Elements of memory for partial sums, from (ranks, elements of `send`); None: no such memory."""
    parted: bool = False
    """The memory has as many parts as there are ranks."""
    sums: bool = False
    """Numbers are summed."""
    root: int | None = None
    """Rank to which all others send; None: there is none."""


def _ring_all_reduce(rank: int, ranks: int, count: int) -> Iterator[Step]:
    """Sum around a ring: reduce-scatter, in which partial sums travel once around, then all-gather of the sums.

    Each step of the first half uses its own part of `scratch`, so that a neighbour may be ahead.
    """
    right, left = (rank + 1) % ranks, (rank - 1) % ranks
    slot = -(-count // ranks)

    def chunk(number: int) -> tuple[int, int]:
        start, end = ((number % ranks + more) * count // ranks for more in (0, 1))
        return start, end - start

    for step in range(ranks - 1):
        (start, size), (next_start, next_size) = chunk(rank - step), chunk(rank - step - 1)
        send = Send(right, "recv" if step else "send", start, size, "scratch", step * slot)
        yield Step((send,), (Receive(left, next_size),), (Add(next_start, next_size, step * slot),))
    for step in range(ranks - 1):
        (start, size), (_, next_size) = chunk(rank + 1 - step), chunk(rank - step)
        yield Step((Send(right, "recv", start, size, "recv", start),), (Receive(left, next_size),))


def _all_to_all(rank: int, ranks: int, count: int) -> Iterator[Step]:
    size = count // ranks
    peers = [(rank + ahead) % ranks for ahead in range(1, ranks)]  # so that ranks do not all start with the same peer
    yield Step(
        tuple(Send(peer, "send", peer * size, size, "recv", rank * size) for peer in peers),
        tuple(Receive(peer, size) for peer in peers),
        (Add(rank * size, size),),
    )


def _sendrecv(rank: int, ranks: int, count: int) -> Iterator[Step]:
    yield Step((Send((rank + 1) % ranks, "send", 0, count, "recv", 0),), (Receive((rank - 1) % ranks, count),))


def _incast(rank: int, ranks: int, count: int) -> Iterator[Step]:
    size = count // ranks
    if rank:
        yield Step((Send(0, "send", rank * size, size, "recv", rank * size),))
    else:
        yield Step((), tuple(Receive(peer, size) for peer in range(1, ranks)), (Add(0, size),))


def _summed(_: int, ranks: int, count: int) -> tuple[Part, ...]:
    return (Part(0, count, tuple(range(ranks)), 0),)


def _from_everybody(rank: int, ranks: int, count: int) -> tuple[Part, ...]:
    size = count // ranks
    return tuple(Part(peer * size, size, (peer,), rank * size) for peer in range(ranks))


def _from_the_left(rank: int, ranks: int, count: int) -> tuple[Part, ...]:
    return (Part(0, count, ((rank - 1) % ranks,), 0),)


def _at_the_root(rank: int, ranks: int, count: int) -> tuple[Part, ...]:
    size = count // ranks
    return () if rank else tuple(Part(peer * size, size, (peer,), peer * size) for peer in range(ranks))


class Pattern(Enum):
    """Communication patterns; the value is the name that users type, and each has a `Shape`."""

    shape: Shape

    def __new__(cls, word: str, shape: Shape) -> Self:
        """Use the name as the value."""
        member = object.__new__(cls)
        member._value_, member.shape = word, shape
        return member

    ALL_REDUCE = (
        "all-reduce",
        Shape(
            help="Sum float32 numbers of all hosts around a ring; checked.",
            steps=_ring_all_reduce,
            parts=_summed,
            bus_factor=lambda ranks: 2 * (ranks - 1) / ranks,
            scratch=lambda ranks, count: (ranks - 1) * -(-count // ranks),
            sums=True,
        ),
    )
    """All ranks get the sum of all, around a ring: reduce-scatter, then all-gather."""
    ALL_TO_ALL = (
        "all-to-all",
        Shape(
            help="Send a part of every host's memory to every other host.",
            steps=_all_to_all,
            parts=_from_everybody,
            bus_factor=lambda ranks: (ranks - 1) / ranks,
            parted=True,
        ),
    )
    """Every rank sends a part of its memory to every other rank."""
    SENDRECV = (
        "sendrecv",
        Shape(
            help="Send from every host to the next one in a ring.",
            steps=_sendrecv,
            parts=_from_the_left,
            bus_factor=lambda _: 1.0,
        ),
    )
    """Every rank sends to the next and receives from the one before, around a ring."""
    INCAST = (
        "incast",
        Shape(
            help="Send from all hosts to the first one at once.",
            steps=_incast,
            parts=_at_the_root,
            bus_factor=lambda ranks: (ranks - 1) / ranks,  # nccl-tests' gather
            parted=True,
            root=0,
        ),
    )
    """All other ranks send to rank 0 at once."""


def steps_of(pattern: Pattern, rank: int, ranks: int, count: int) -> tuple[Step, ...]:
    """Return the steps of one rank in one round on memory of `count` elements; empty messages are left out."""
    return tuple(_without_empty(step) for step in pattern.shape.steps(rank, ranks, count))


def parts_of(pattern: Pattern, rank: int, ranks: int, count: int) -> tuple[Part, ...]:
    """Return the expected memory of a rank after a round."""
    return pattern.shape.parts(rank, ranks, count)


def pairs_of(pattern: Pattern, ranks: int) -> frozenset[tuple[int, int]]:
    """Return pairs of ranks that need queue pairs, the lower first; all with rank 0, for barriers."""
    steps = {rank: pattern.shape.steps(rank, ranks, ranks) for rank in range(ranks)}
    talk = {tuple(sorted((rank, send.peer))) for rank in steps for step in steps[rank] for send in step.sends}
    return frozenset((low, high) for low, high in talk) | {(0, rank) for rank in range(1, ranks)}


def elements_of(pattern: Pattern, ranks: int, count: int) -> dict[str, int]:
    """Return the elements of each memory of a rank."""
    sizes = {"send": count, "recv": count}
    if pattern.shape.scratch is not None:
        sizes["scratch"] = pattern.shape.scratch(ranks, count)
    return sizes


def _without_empty(step: Step) -> Step:
    return Step(
        tuple(send for send in step.sends if send.count),
        tuple(receive for receive in step.receives if receive.count),
        tuple(add for add in step.adds if add.count),
    )
