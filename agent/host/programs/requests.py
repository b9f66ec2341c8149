"""Requests about completion queues, ranks and programs, as records; the reply's fields stand in braces."""

from typing import Literal

import msgspec

from agent.host.programs.patterns import Pattern


class _Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class _Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="op"):
    pass


class CreateCq(_Request, frozen=True, tag="create_cq"):
    """Make a completion queue on `host` for queue pairs to come; it is told of their writes, too: {cq}."""

    host: int
    leased: bool = False
    """Destroyed, with the rank that has it, when this connection ends."""


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

    All ranks of a job are made before a program is started on any.
    """

    host: int
    cq: int
    """Where all queue pairs of the rank report; it names the rank from here on."""
    number: int
    count: int
    links: dict[int, LinkEnds]
    """By the peer's number; every rank but 0 has one to rank 0."""
    memory: dict[str, int]
    """Keys of our regions by name; `token`, of at least one byte, is for barriers."""


class WriteBwOrder(_Record, frozen=True, tag_field="program", tag="write-bw"):
    """As `agent.host.programs.write_bw.WriteBw`."""

    message_bytes: int
    iterations: int | None = None
    duration_ns: int = 0
    depth: int = 128
    both: bool = False


class WriteLatOrder(_Record, frozen=True, tag_field="program", tag="write-lat"):
    """As `agent.host.programs.write_lat.WriteLat`."""

    message_bytes: int
    iterations: int | None = None
    duration_ns: int = 0
    warmup: int = 0
    until: Literal["answer", "completion"] = "answer"


class CollectiveOrder(_Record, frozen=True, tag_field="program", tag="collective"):
    """As `agent.host.programs.collective.Collective`."""

    pattern: Pattern
    count: int
    iterations: int
    warmup: int = 0
    check: bool = True
    seed: int = 1


Order = WriteBwOrder | WriteLatOrder | CollectiveOrder


class StartProgram(_Request, frozen=True, tag="start_program"):
    """Start a program on a rank; it waits for the others itself: {packets, announced}.

    `packets` are those of each queue pair, if known. With `epoch` the queue pairs numbered `announce` are announced to
    the leaves first, those of them that send anything; `announced` are their numbers.
    """

    host: int
    cq: int
    order: Order
    epoch: int | None = None
    announce: tuple[int, ...] = ()


class ProgramResult(_Request, frozen=True, tag="program_result"):
    """How the last program of a rank is or was: {state, error, report}, state `idle`, `running`, `done` or `failed`."""

    host: int
    cq: int


class DestroyRank(_Request, frozen=True, tag="destroy_rank"):
    """Forget a rank and its completion queue, before its queue pairs: {}."""

    host: int
    cq: int


ProgramRequest = CreateCq | CreateRank | StartProgram | ProgramResult | DestroyRank
