"""A host's rank in a job: queue pairs to the others, memory, and the messages that arrived and completed.

Programs write and wait through it and know neither queue pairs nor packets. It never blocks: a program waits by
yielding a condition, which `Programs` checks when completions arrive.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from agent.core.completion import CompletionQueue, CompletionStatus, ImmediateArrived
from agent.core.memory_regions import MemoryRegion
from agent.host.errors import ProgramError
from agent.host.programs.patterns import shares_of
from agent.io.host_runtime import Channel

T = TypeVar("T")

Condition = Callable[[], bool]
Steps = Generator[Condition | None, None, T]
"""A running program: it continues when the condition that it yields holds, after None with the next turn."""

BARRIER_BYTES = 1
"""Size of a message without content, used for barriers."""


@dataclass(frozen=True, slots=True)
class Opened:
    """Memory that a peer lets us write to."""

    va: int
    rkey: int


@dataclass(frozen=True, slots=True)
class Link:
    """Queue pairs to one peer, and the memory it has opened, by name."""

    channels: tuple[Channel, ...]
    opened: Mapping[str, Opened]


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes `offset` .. `offset + bytes - 1` of a named memory."""

    memory: str
    offset: int
    bytes: int


class Volume(NamedTuple):
    """Amount that a program sends on one queue pair; packets and data are None if the duration decides."""

    packets: int | None
    """Number of packets, barriers included."""
    data_bytes: int | None
    """Bytes without barriers; 0 on a queue pair that carries only barriers."""
    barrier_bytes: int = 0

    @classmethod
    def of(cls, size: int, pmtu: int, times: int | None) -> "Volume":
        """Compute the volume of `times` messages of `size` bytes."""
        return cls(None, None) if times is None else cls(times * -(-size // pmtu), times * size)

    def ends_at(self, posted_bytes: int) -> int | None:
        """Compute the payload bytes that a queue pair will have posted in the end, after `posted_bytes` before."""
        return None if self.data_bytes is None else posted_bytes + self.data_bytes + self.barrier_bytes

    def and_also(self, other: "Volume") -> "Volume":
        """Add two volumes."""
        packets, data = _sum(self.packets, other.packets), _sum(self.data_bytes, other.data_bytes)
        return Volume(packets, data, self.barrier_bytes + other.barrier_bytes)


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


Volumes = dict[int, Volume]
"""Volumes by queue pair."""


def added(volumes: Volumes, more: Volumes) -> Volumes:
    """Add the volumes of each queue pair."""
    nothing = Volume(0, 0)
    return volumes | {qpn: volumes.get(qpn, nothing).and_also(volume) for qpn, volume in more.items()}


class Rank:
    """Rank `number` of a job with `count` hosts."""

    def __init__(
        self,
        number: int,
        count: int,
        links: Mapping[int, Link],
        memory: Mapping[str, MemoryRegion],
        completions: CompletionQueue,
        clock: Callable[[], int],
    ) -> None:
        """Create a rank: `links` by peer's number, whose queue pairs use `completions`; `clock` returns nanoseconds."""
        self.number = number
        self.count = count
        self.links = links
        self.memory = memory
        self.clock = clock
        self.completions = completions
        self.posted = 0
        """Messages posted on all queue pairs."""
        self.done = 0
        """Posted messages that are acknowledged."""
        self.last_imm = 0
        """Immediate of the last write that was waited for."""
        self.done_by = {channel.qpn: 0 for channel in self.channels()}
        self._channel = {channel.qpn: channel for channel in self.channels()}
        self._arrived: dict[int, deque[int]] = {qpn: deque() for qpn in self._channel}
        for channel in self.channels():
            # As many as the peer may have in flight, and as many again for those not processed yet.
            channel.qp.post_receives(0, 2 * channel.qp.config.max_wimm)

    def floats(self, name: str) -> NDArray[np.float32]:
        """Return the named memory as a view, (count,) float32; its length in bytes must be a multiple of four."""
        return self.memory[name].data.view(np.float32)

    def channels(self) -> Iterator[Channel]:
        """Iterate over all queue pairs."""
        for link in self.links.values():
            yield from link.channels

    def take(self) -> None:
        """Process completions. Raises ProgramError when something failed."""
        for item in self.completions.poll():
            if item.status is not CompletionStatus.SUCCESS:
                raise ProgramError(f"queue pair {item.qpn:#x}: {item.status.value}")
            if isinstance(item, ImmediateArrived):
                self._arrived[item.qpn].append(item.imm)
                receiver = self._channel[item.qpn].qp
                receiver.post_receives(receiver.receives.next_wr_id, 1)
            else:
                self.done += item.count
                self.done_by[item.qpn] += item.count

    def write(self, peer: int, source: Span, target: Span, imm: int) -> None:
        """Write our memory to a peer's, in equal parts over the queue pairs; each part carries `imm`."""
        for channel, start, size in self._parts(peer, source.bytes):
            self.post(channel, peer, source, target, start, size, size, imm)

    def post(
        self,
        channel: Channel,
        peer: int,
        source: Span,
        target: Span,
        start: int,
        size: int,
        message_bytes: int,
        imm: int | None = None,
    ) -> None:
        """Post `size` bytes from `start` of both spans on one queue pair, cut into messages."""
        opened = self.links[peer].opened[target.memory]
        messages = channel.qp.post_writes(
            self.memory[source.memory],
            source.offset + start,
            size,
            opened.va + target.offset + start,
            opened.rkey,
            message_bytes,
            imm,
        )
        self.posted += len(messages)

    def arrival(self, peer: int, size: int, imm: int | None = None) -> Condition:
        """Return a condition for the peer's next write of `size` bytes, all parts of it; it keeps the immediate.

        Raises ProgramError if that is not `imm`, where one is given.
        """
        waiting = [self._arrived[channel.qpn] for channel, _, _ in self._parts(peer, size)]

        def has_arrived() -> bool:
            if not all(waiting):
                return False
            for queue in waiting:
                self.last_imm = queue.popleft()
                if imm is not None and self.last_imm != imm:
                    raise ProgramError(f"rank {peer} is out of step: got {self.last_imm:#x}, expected {imm:#x}")
            return True

        return has_arrived

    def written(self) -> Condition:
        """Return a condition that holds when everything posted is acknowledged, so its memory may be changed."""
        return lambda: self.done == self.posted

    def more_written(self) -> Condition:
        """Return a condition that holds when another posted message has been acknowledged."""
        seen = self.done
        return lambda: self.done > seen

    def barrier(self, imm: int) -> Steps[None]:
        """Wait until all ranks are here and our messages are acknowledged: all write to rank 0, which answers."""
        token = Span("token", 0, BARRIER_BYTES)
        if self.number:
            self.write(0, token, token, imm)
            yield self.arrival(0, BARRIER_BYTES, imm)
        else:
            for peer in range(1, self.count):
                yield self.arrival(peer, BARRIER_BYTES, imm)
            for peer in range(1, self.count):
                self.write(peer, token, token, imm)
        yield self.written()

    def barrier_volumes(self, times: int) -> Volumes:
        """Compute the volumes of `times` barriers."""
        peers = [0] if self.number else range(1, self.count)
        return {self.links[peer].channels[0].qpn: Volume(times, 0, times * BARRIER_BYTES) for peer in peers}

    def write_volumes(self, peer: int, size: int, times: int | None) -> Volumes:
        """Compute the volumes of `times` writes of `size` bytes; None: the duration decides."""
        return {
            channel.qpn: Volume.of(part, channel.qp.config.pmtu, times) for channel, _, part in self._parts(peer, size)
        }

    def _parts(self, peer: int, size: int) -> Iterator[tuple[Channel, int, int]]:
        """Cut a message over the queue pairs of a link: full packets each, the last part shorter, none empty."""
        channels = self.links[peer].channels
        shares = shares_of(size, len(channels), channels[0].qp.config.pmtu)
        for channel, (start, part) in zip(channels, shares, strict=False):
            yield channel, start, part
