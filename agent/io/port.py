"""The seam between an engine and one host port: batches of frames in, batches of frames out.

Refuses to know what a frame holds.  `packet_ring.py` is the real one, `memory.py` the one for tests.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from agent.wire.array.icrc import Runs


@dataclass(frozen=True, slots=True)
class FrameBlock:
    """Frames that arrived on one port, oldest first, as views into the port's own memory."""

    frames: NDArray[np.uint8]
    """(n, stride); row i holds a frame from column 0."""
    lengths: NDArray[np.uint32]
    """(n,) bytes held of each frame."""
    runs: Runs | None = None
    """Reads the same rows; None where nothing is gained by it."""


@dataclass(frozen=True, slots=True)
class FrameSpace:
    """Rows of a port's own memory for frames to be sent."""

    frames: NDArray[np.uint8]
    """(m, stride), writable."""
    runs: Runs | None = None
    """As of a `FrameBlock`."""

    def __len__(self) -> int:
        """Rows."""
        return len(self.frames)


@dataclass(frozen=True, slots=True)
class PortCounters:
    """What one port did since it was opened, in frames."""

    rx_frames: int
    """Handed to the engine."""
    rx_drops: int
    """Lost because the receive ring was full: the engine was too slow."""
    tx_frames: int
    """Accepted by the kernel, or by the fabric in memory."""
    tx_errors: int
    """Refused on sending (a full queue, a port that is down); the transport sees them as lost."""


class FramePort(Protocol):
    """One port of one host. All methods are called from one thread."""

    @property
    def plane(self) -> int:
        """Plane this port leads to."""

    def receive(self, limit: int) -> FrameBlock | None:
        """Up to `limit` frames that wait, or None; valid until `release`. May give fewer than wait."""

    def release(self, count: int) -> None:
        """Give the memory of the `count` oldest received frames back."""

    def room(self) -> int:
        """Frames that can be reserved before the next `send`."""

    def reserve(self, count: int) -> FrameSpace:
        """Room for the next frames, at most `count` rows, none when there is no room."""

    def fill(self, lengths: NDArray[np.uint32]) -> None:
        """Declare the first len(`lengths`) rows of the last `reserve` to be frames of these lengths."""

    def send(self) -> int:
        """Hand all filled rows over, in order; returns how many were taken."""

    def carrier(self) -> bool:
        """Whether the link is up, as this end of it sees."""

    def counters(self) -> PortCounters:
        """The counters so far."""

    def close(self) -> None:
        """Release everything; closing twice is safe."""
