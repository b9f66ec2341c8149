"""Interface between columns and frames: who encodes and decodes, and how many frames at a time.

`FAST` uses numpy, batch by batch; `agent.io.scapy_port.SCAPY` builds and dissects each packet with Scapy's layers.
Both give the same bytes and the same columns.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from agent.wire.array.columns import Announcement
from agent.wire.array.control import encode_control
from agent.wire.array.decode import Decoded, decode
from agent.wire.array.encode import encode_announcements, encode_sacks, encode_writes
from agent.wire.array.icrc import Runs
from agent.wire.array.template import FlowTemplate, HostAddress
from agent.wire.constants import AnnounceKind
from agent.wire.ev import EvCodec

Encode = Callable[[FlowTemplate, Any, NDArray[np.uint8], Runs | None], NDArray[np.uint32]]
"""Encodes rows of a batch into rows of memory; returns the frames' lengths."""


class Decode(Protocol):
    """Signature of `agent.wire.array.decode.decode`."""

    def __call__(
        self,
        frames: NDArray[np.uint8],
        lengths: NDArray[np.uint32],
        own_address: bytes,
        plane: int,
        *,
        check_icrc: bool = True,
        codec: EvCodec | None = None,
        runs: Runs | None = None,
    ) -> Decoded:
        """Split a block of received frames into columns."""


class Announce(Protocol):
    """Signature of `agent.wire.array.encode.encode_announcements`."""

    def __call__(
        self,
        source: HostAddress,
        peer: HostAddress,
        evs: NDArray[np.uint32],
        announcement: Announcement,
        shares: NDArray[np.int64] | None = None,
        codec: EvCodec | None = None,
        kind: AnnounceKind = AnnounceKind.CLOSE,
    ) -> list[bytes]:
        """Build one whole frame per EV."""


@dataclass(frozen=True, slots=True)
class Codec:
    """A pair of encoder and decoder."""

    decode: Decode
    encode_writes: Encode
    encode_sacks: Encode
    encode_control: Encode
    encode_announcements: Announce
    block_frames: int
    """Received frames read at a time: they share the fixed cost of a block."""
    backlog_frames: int
    """Frames taken from one port before the others get their turn."""


FAST = Codec(
    decode,
    encode_writes,
    encode_sacks,
    encode_control,
    encode_announcements,
    block_frames=1024,
    # After a stall nearly all waiting frames are read before timers run. Otherwise packets would be sent again whose
    # SACK is already here.
    backlog_frames=2048,
)
