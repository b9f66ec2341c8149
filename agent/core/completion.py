"""Completions that a user of a queue pair polls: its own work requests, and the peer's immediates.

The receive queue is here too: a Write-with-Immediate consumes one posted receive (MRC chapter 8). Knows no packets.
"""

from collections import deque
from dataclasses import dataclass
from enum import Enum

from agent.core.errors import ConfigError


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
