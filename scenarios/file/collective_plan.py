"""Resolves a scenario's collectives and their groups of hosts on its fabric, and lists what does not fit. Pure.

Ranks are numbered as in Megatron-LM by default: tensor parallelism innermost, so its groups are neighbours; data and
pipeline parallelism outermost, so their groups are strided. Here a host is a rank.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from agent.host.programs.patterns import ELEMENT_BYTES, Pattern, elements_of, pairs_of, shares_of, steps_of
from testbed.model.node_names import those_there_are

if TYPE_CHECKING:  # commands import this module for its groups, and pydantic takes long to import
    from scenarios.file.model import Workload


class Group(Enum):
    """A kind of parallelism."""

    TP = "tp"
    """Tensor parallelism: every layer's partial results are summed, in a small group that sits close together."""
    DP = "dp"
    """Data parallelism: gradients are summed over replicas, which are as far apart as a replica is large."""
    PP = "pp"
    """Pipeline parallelism: activations go to the next stage; a stage is as many hosts wide as the stride."""
    EP = "ep"
    """Expert parallelism: tokens go to the hosts of their experts and back."""


PATTERN_OF = {
    Group.TP: Pattern.ALL_REDUCE,
    Group.DP: Pattern.ALL_REDUCE,
    Group.PP: Pattern.SENDRECV,
    Group.EP: Pattern.ALL_TO_ALL,
}
"""The pattern of each kind of group."""

_STRIDED = (Group.DP, Group.PP)


def groups_of(group: Group | None, size: int | None, hosts: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Return hosts by group, each in order of rank; all in one without a group. `size` divides the number of hosts."""
    size = size or len(hosts)
    if group in _STRIDED:
        stride = len(hosts) // size
        return tuple(tuple(hosts[first::stride]) for first in range(stride))
    return tuple(tuple(hosts[first : first + size]) for first in range(0, len(hosts), size))


ITERATIONS = 10
"""Rounds of a collective by default (our choice)."""

BARRIERS = 5
"""Barriers of a program that checks; each is one packet between rank 0 and every other rank."""


class Misfit(NamedTuple):
    """A key of a workload, and what is wrong with it."""

    key: str
    wrong: str
    right: str


class Sending(NamedTuple):
    """Traffic of one queue pair in one direction, over the whole run."""

    source: int
    destination: int
    packets: int
    bytes: int
    place: int
    """Index of the queue pair among those of these two hosts."""
    collective: int = 0
    """Index of the collective in the plan."""

    @property
    def is_barrier(self) -> bool:
        """Return whether this carries only barriers, so that its size and rate do not describe the collective."""
        return self.bytes <= BARRIERS


@dataclass(frozen=True)
class PlannedCollective:
    """One workload of rounds."""

    pattern: Pattern
    group: Group | None
    groups: tuple[tuple[int, ...], ...]
    """Hosts by group and rank."""
    count: int
    """Float32 elements of a host's memory."""
    iterations: int
    qps: int
    """Queue pairs between two hosts."""

    @property
    def ranks(self) -> int:
        """Return the number of ranks per group."""
        return len(self.groups[0])

    @property
    def name(self) -> str:
        """Return the name: `all-reduce`, or `tp (all-reduce)`."""
        return f"{self.group.value} ({self.pattern.value})" if self.group else self.pattern.value

    @property
    def memory_bytes(self) -> int:
        """Return the memory of all hosts."""
        each = sum(elements_of(self.pattern, self.ranks, self.count).values()) * ELEMENT_BYTES
        return each * self.ranks * len(self.groups)

    def queue_pairs(self) -> Counter[int]:
        """Return the number of queue pairs per host."""
        ends = Counter(rank for pair in pairs_of(self.pattern, self.ranks) for rank in pair)
        return Counter({hosts[rank]: n * self.qps for hosts in self.groups for rank, n in ends.items()})

    def sendings(self, pmtu: int) -> Iterator[Sending]:
        """Return what each queue pair sends in each direction, barriers included."""
        for rank in range(self.ranks):
            sent: Counter[tuple[int, int]] = Counter()
            packets: Counter[tuple[int, int]] = Counter()
            for step in steps_of(self.pattern, rank, self.ranks, self.count):
                for send in step.sends:
                    for place, (_, size) in enumerate(shares_of(send.count * ELEMENT_BYTES, self.qps, pmtu)):
                        sent[send.peer, place] += size * (self.iterations + 1)
                        packets[send.peer, place] += -(-size // pmtu) * (self.iterations + 1)
            for peer in [0] if rank else range(1, self.ranks):
                sent[peer, 0] += BARRIERS
                packets[peer, 0] += BARRIERS
            for hosts in self.groups:
                for (peer, place), count in packets.items():
                    yield Sending(hosts[rank], hosts[peer], count, sent[peer, place], place)


def collective_of(work: "Workload", hosts: int) -> PlannedCollective | None:
    """Resolve a workload without misfits on a fabric with this many hosts; None for writes."""
    pattern = pattern_of(work)
    if pattern is None:
        return None
    group = None if work.group is None else Group(work.group)
    groups = groups_of(group, work.group_size, work.hosts or range(hosts))
    count = (work.bytes or 0) // ELEMENT_BYTES
    return PlannedCollective(pattern, group, groups, count, work.iterations or ITERATIONS, work.qps)


def pattern_of(work: "Workload") -> Pattern | None:
    """Return the pattern of a workload's hosts; None: writes."""
    if work.group is not None:
        return PATTERN_OF[Group(work.group)]
    return next((pattern for pattern in Pattern if pattern.value == work.type), None)


def misfits_of(work: "Workload") -> Iterator[Misfit]:
    """List keys that do not go together on any fabric."""
    pattern = pattern_of(work)
    if pattern is None:
        for key in ("hosts", "group_size", "iterations"):
            if getattr(work, key) is not None:
                yield Misfit(
                    key, "is for collectives, and this is a write", "leave it out, or name a `type` or `group`"
                )
        return
    if work.group is not None and work.type is not None and work.type != pattern.value:
        yield Misfit("type", f"{work.group} is {pattern.value}, not {work.type}", f"leave it out, or {pattern.value}")
    for key in ("strides", "pairs", "packets", "message_bytes", "at", "rate"):
        if getattr(work, key) not in (None, "0"):
            yield Misfit(key, f"is for writes, and this is {pattern.value}", "leave it out; `bytes` and `hosts` say it")
    if work.bytes is None:
        yield Misfit("bytes", "is missing", "say how large the memory of a host is, as `bytes: 1MiB`")
    if work.group_size is not None and work.group is None:
        yield Misfit("group_size", "is for a `group`", "name a group (tp, dp, pp, ep), or list `hosts`")


def misfits_on(work: "Workload", hosts: int) -> Iterator[Misfit]:
    """List what does not fit a fabric of this many hosts."""
    pattern = pattern_of(work)
    if pattern is None:
        return
    chosen = work.hosts or tuple(range(hosts))
    if max(chosen) >= hosts:
        yield Misfit("hosts", f"there is no h{max(chosen)}", those_there_are("host", "h", hosts))
    if len(set(chosen)) < len(chosen):
        yield Misfit("hosts", "a host is named twice", "name every host once")
    if len(chosen) < 2:
        yield Misfit("hosts", "one host alone has nobody to talk to", "two or more")
    size = work.group_size or len(chosen)
    if len(chosen) % size:
        sizes = ", ".join(str(n) for n in range(2, len(chosen) + 1) if len(chosen) % n == 0)
        yield Misfit("group_size", f"{size} does not divide {len(chosen)} hosts", f"one of {sizes}")
    elif work.bytes is not None:
        yield from _size_misfits(work.bytes, pattern, size)


def _size_misfits(size: int, pattern: Pattern, ranks: int) -> Iterator[Misfit]:
    unit = ELEMENT_BYTES * (ranks if pattern.shape.parted else 1)
    if size % unit:
        what = f"float32 numbers for {ranks} hosts" if pattern.shape.parted else "float32 numbers"
        yield Misfit("bytes", f"{size} are no whole {what}", f"a multiple of {unit}")
    elif size < ELEMENT_BYTES * ranks:
        yield Misfit("bytes", f"{size} are less than a number for each host", f"at least {ELEMENT_BYTES * ranks}")
