"""Results that a queue pair hands to its user: completions of work requests, the peer's immediates, and events.

The receive queue is here too: a Write-with-Immediate consumes one posted receive (MRC chapter 8). Knows no packets.
"""

from collections import deque
from dataclasses import dataclass, replace
from enum import Enum

from agent.core.counters import EvCounters
from agent.core.errors import ConfigError
from agent.core.ev.state import EvState
from agent.core.events import Event, EvStatesChanged, MessagesCompleted


class CompletionStatus(Enum):
    """Result of a work request; the names are those of verbs."""

    SUCCESS = "success"
    RETRY_EXCEEDED = "transport retry counter exceeded"
    REMOTE_ACCESS_ERROR = "remote access error"
    REMOTE_INVALID_REQUEST = "remote invalid request"
    REMOTE_OPERATION_ERROR = "remote operation error"
    FLUSHED = "work request flushed"


@dataclass(frozen=True, slots=True)
class WritesDone:
    """Messages `first_wr_id` .. `first_wr_id + count - 1` ended with the same status, in post order."""

    qpn: int
    first_wr_id: int
    count: int
    length_bytes: int
    """Bytes of all these messages together; 0 unless they succeeded."""
    status: CompletionStatus


@dataclass(frozen=True, slots=True)
class ImmediateArrived:
    """A Write-with-Immediate of the peer, and everything the peer sent before it, is in memory."""

    qpn: int
    wr_id: int
    """Work request number of the receive that was consumed."""
    imm: int
    """Immediate data, 32 bits."""
    length_bytes: int
    """Length of the message."""
    status: CompletionStatus = CompletionStatus.SUCCESS


Completion = WritesDone | ImmediateArrived


class CompletionQueue:
    """Completions in the order they happened. Queue pairs of one process may share a queue."""

    def __init__(self) -> None:
        self._waiting: deque[Completion] = deque()

    def __len__(self) -> int:
        """Count the completions that wait."""
        return len(self._waiting)

    def add(self, completion: Completion) -> None:
        """Append one completion."""
        self._waiting.append(completion)

    def poll(self, limit: int = 1 << 30) -> list[Completion]:
        """Remove and return up to `limit` of the oldest completions."""
        return [self._waiting.popleft() for _ in range(min(limit, len(self._waiting)))]


MAX_RECEIVES = 65_536
"""Most receives that may wait in one queue pair. Our choice: more work requests than adapters hold per queue."""


class ReceiveQueue:
    """Receives posted for immediates. Only their work request numbers are kept: the write itself names the memory."""

    def __init__(self) -> None:
        self._posted: deque[int] = deque()
        self.next_wr_id = 0
        """One more than the highest number posted."""

    def __len__(self) -> int:
        """Count the receives that wait."""
        return len(self._posted)

    def post(self, wr_id: int, count: int = 1) -> None:
        """Post `count` receives numbered from `wr_id`.

        Raises ConfigError if fewer than one, or if too many would wait.
        """
        room = MAX_RECEIVES - len(self._posted)
        if not 1 <= count <= room:
            wait = f"{len(self._posted)} of at most {MAX_RECEIVES} wait"
            raise ConfigError((f"{count} receives cannot be posted: post 1 to {room}, since {wait}",))
        self._posted.extend(range(wr_id, wr_id + count))
        self.next_wr_id = max(self.next_wr_id, wr_id + count)

    def take(self) -> int | None:
        """Remove and return the oldest receive; None if there is none."""
        return self._posted.popleft() if self._posted else None

    def flush(self) -> list[int]:
        """Remove and return all receives that were never used."""
        left = list(self._posted)
        self._posted.clear()
        return left


class Reports:
    """Events and completions of one queue pair, kept until the caller collects them.

    The queue pair counts packets in `evs`; `completions` is None if nothing polls its writes. This is apart from the
    queue pair because all of its parts report here. If they held the queue pair itself, the reference cycle would keep
    its rings and its user's memory until the garbage collector next looked for cycles, which a worker rarely allows.
    """

    def __init__(self, qpn: int, evs: EvCounters, completions: CompletionQueue | None) -> None:
        self._qpn = qpn
        self._evs = evs
        self._completions = completions
        self._events: list[Event] = []
        self.ev_states: frozenset[EvState] | None = None
        """EV changes are reported only for these states; None: for all."""

    def __len__(self) -> int:
        """Count the events that wait."""
        return len(self._events)

    def add(self, event: Event) -> None:
        """Add an event."""
        if isinstance(event, EvStatesChanged):
            if self.ev_states is not None and event.state not in self.ev_states:
                return
            event = replace(event, sent=tuple(self._evs.tx_first[list(event.ev_indices)].tolist()))
        self._events.append(event)
        if isinstance(event, MessagesCompleted):
            self._complete(event.first_wr_id, event.count, event.length_bytes, CompletionStatus.SUCCESS)

    def flush(self, first_wr_id: int, count: int, first: CompletionStatus) -> None:
        """Report that messages from `first_wr_id` on never complete.

        The oldest ends with `first`, the others are flushed.
        """
        self._complete(first_wr_id, min(count, 1), 0, first)
        self._complete(first_wr_id + 1, count - 1, 0, CompletionStatus.FLUSHED)

    def drain(self) -> list[Event]:
        """Remove and return the events since the last call, oldest first."""
        events, self._events = self._events, []
        return events

    def _complete(self, first_wr_id: int, count: int, length_bytes: int, status: CompletionStatus) -> None:
        if self._completions is not None and count > 0:
            self._completions.add(WritesDone(self._qpn, first_wr_id, count, length_bytes, status))
