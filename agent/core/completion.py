"""What a user of a queue pair polls: completions of its own work requests, and of the peer's immediates.

Also the receive queue: Write-with-Immediate consumes one posted receive each (MRC chapter 8). Knows no packets.
"""

from collections import deque
from dataclasses import dataclass
from enum import Enum

from agent.core.errors import ConfigError


class CompletionStatus(Enum):
    """How a work request ended; the names are those of verbs."""

    SUCCESS = "success"
    RETRY_EXCEEDED = "transport retry counter exceeded"
    REMOTE_ACCESS_ERROR = "remote access error"
    REMOTE_INVALID_REQUEST = "remote invalid request"
    REMOTE_OPERATION_ERROR = "remote operation error"
    FLUSHED = "work request flushed"


@dataclass(frozen=True, slots=True)
class WritesDone:
    """Posted messages `first_wr_id` .. `first_wr_id + count - 1` ended alike, in post order."""

    qpn: int
    first_wr_id: int
    count: int
    length_bytes: int
    """Of all of them together; 0 unless they succeeded."""
    status: CompletionStatus


@dataclass(frozen=True, slots=True)
class ImmediateArrived:
    """A Write-with-Immediate of the peer and everything it sent before are in memory."""

    qpn: int
    wr_id: int
    """Of the receive it consumed."""
    imm: int
    """32 bits."""
    length_bytes: int
    """Of the message."""
    status: CompletionStatus = CompletionStatus.SUCCESS


Completion = WritesDone | ImmediateArrived


class CompletionQueue:
    """Completions in the order they happened. May be shared by queue pairs of one process."""

    def __init__(self) -> None:
        self._waiting: deque[Completion] = deque()

    def __len__(self) -> int:
        """Completions waiting."""
        return len(self._waiting)

    def add(self, completion: Completion) -> None:
        """Put one at the end."""
        self._waiting.append(completion)

    def poll(self, limit: int = 1 << 30) -> list[Completion]:
        """Take up to `limit` of the oldest."""
        return [self._waiting.popleft() for _ in range(min(limit, len(self._waiting)))]


MAX_RECEIVES = 65_536
"""Receives that may wait in one queue pair; our choice, above the work requests that adapters hold for a queue."""


class ReceiveQueue:
    """Receives posted for immediates: only their work request numbers, the data goes where the write says."""

    def __init__(self) -> None:
        self._posted: deque[int] = deque()
        self.next_wr_id = 0
        """After the highest number posted."""

    def __len__(self) -> int:
        """Receives waiting."""
        return len(self._posted)

    def post(self, wr_id: int, count: int = 1) -> None:
        """Post `count` receives numbered from `wr_id`. Raises ConfigError for more than may wait, or fewer than one."""
        room = MAX_RECEIVES - len(self._posted)
        if not 1 <= count <= room:
            wait = f"{len(self._posted)} of at most {MAX_RECEIVES} wait"
            raise ConfigError((f"{count} receives cannot be posted: post 1 to {room}, since {wait}",))
        self._posted.extend(range(wr_id, wr_id + count))
        self.next_wr_id = max(self.next_wr_id, wr_id + count)

    def take(self) -> int | None:
        """The oldest; None if there is none."""
        return self._posted.popleft() if self._posted else None

    def flush(self) -> list[int]:
        """Take all that were never used."""
        left = list(self._posted)
        self._posted.clear()
        return left
