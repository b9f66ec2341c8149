"""Requests about completion queues, ranks and programs, as records; braces show the reply's fields."""

from typing import Literal

import msgspec

from agent.host.programs.patterns import Pattern


class _Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class _Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="op"):
    pass


class CreateCq(_Request, frozen=True, tag="create_cq"):
    """Create a completion queue on `host` for later queue pairs; it gets completions of their writes too: {cq}."""

    host: int
    leased: bool = False
    """Destroy it and the rank that uses it when this connection ends."""


class OpenedMemory(_Record, frozen=True):
    """Memory of a peer that may be written to."""

    va: int
    rkey: int


class LinkEnds(_Record, frozen=True):
    """Our queue pairs to one peer, in an order that the peer shares, and its memory by name."""

    qpns: tuple[int, ...]
    opened: dict[str, OpenedMemory]


class CreateRank(_Request, frozen=True, tag="create_rank"):
    """Give `host` number `number` in a job of `count` hosts; receives are posted: {}.

    Create all ranks of a job before starting a program on any.
    """

    host: int
    cq: int
    """Completion queue of all queue pairs of the rank; it identifies the rank in later requests."""
    number: int
    count: int
    links: dict[int, LinkEnds]
    """Queue pairs by the peer's number; every rank but 0 has one to rank 0."""
    memory: dict[str, int]
    """Keys of our regions by name; `token`, of at least one byte, is for barriers."""


class WriteBwOrder(_Record, frozen=True, tag_field="program", tag="write-bw"):
    """Parameters of `agent.host.programs.perftest.WriteBw`."""

    message_bytes: int
    iterations: int | None = None
    duration_ns: int = 0
    depth: int = 128
    both: bool = False


class WriteLatOrder(_Record, frozen=True, tag_field="program", tag="write-lat"):
    """Parameters of `agent.host.programs.perftest.WriteLat`."""

    message_bytes: int
    iterations: int | None = None
    duration_ns: int = 0
    warmup: int = 0
    until: Literal["answer", "completion"] = "answer"


class CollectiveOrder(_Record, frozen=True, tag_field="program", tag="collective"):
    """Parameters of `agent.host.programs.collective.Collective`."""

    pattern: Pattern
    count: int
    iterations: int
    warmup: int = 0
    check: bool = True
    seed: int = 1


Order = WriteBwOrder | WriteLatOrder | CollectiveOrder


class StartProgram(_Request, frozen=True, tag="start_program"):
    """Start a program on a rank; it waits for the other ranks itself: {packets, announced}.

    `packets` are those of each queue pair, if known. With `epoch` the queue pairs numbered `announce` are announced to
    the leaves first, if they send anything; `announced` lists their numbers.
    """

    host: int
    cq: int
    order: Order
    epoch: int | None = None
    announce: tuple[int, ...] = ()


class ProgramResult(_Request, frozen=True, tag="program_result"):
    """Report the last program of a rank: {state, error, report}, state `idle`, `running`, `done` or `failed`."""

    host: int
    cq: int


class DestroyRank(_Request, frozen=True, tag="destroy_rank"):
    """Destroy a rank and its completion queue, before its queue pairs: {}."""

    host: int
    cq: int


ProgramRequest = CreateCq | CreateRank | StartProgram | ProgramResult | DestroyRank
