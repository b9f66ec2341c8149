"""What a capture file holds, of whatever format: interfaces and packets."""

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol

MOST_PACKET_BYTES = 1 << 24
"""That a file may say one packet has; tcpdump records 256 KiB at most (MAXIMUM_SNAPLEN).

More is damage (our choice)."""

MOST_NS = (1 << 63) - 1
"""Since 1970, until the year 2262: later ones are damage."""


class Direction(IntEnum):
    """Which way a packet passed its interface, as the low bits of epb_flags."""

    UNKNOWN = 0
    INBOUND = 1
    OUTBOUND = 2


class Interface(NamedTuple):
    """Where packets were recorded."""

    name: str
    """Empty where the format does not tell."""
    link_type: int
    """16 bits (LINKTYPE_ of pcap-linktype(7))."""
    snaplen: int


class Captured(NamedTuple):
    """One packet of a capture."""

    time_ns: int
    """Since 1970, UTC."""
    wire_bytes: int
    """Its length; `data` may be its beginning only."""
    data: bytes
    offset: int
    """Where it stands in the file."""
    interface: int = 0
    direction: Direction = Direction.UNKNOWN
    fcs_bytes: int = 0
    """Length of the frame check sequence at its end, as Ethernet's is; 0 where the file does not tell of one."""


class CaptureFile(Protocol):
    """An open file; what it says of itself is known once all packets were read."""

    is_cut: bool
    """Whether it ended within a packet."""

    @property
    def interfaces(self) -> Sequence[Interface]:
        """Numbered as packets name them."""

    def __iter__(self) -> Iterator[Captured]:
        """Packets in the order of the file, from its beginning."""

    def packet_at(self, offset: int) -> Captured:
        """One of those packets again."""
