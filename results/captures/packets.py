"""Defines the contents of a capture file of any format: interfaces and packets."""

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol

MOST_PACKET_BYTES = 1 << 24
"""Most bytes that a file may claim for one packet; tcpdump records 256 KiB at most (MAXIMUM_SNAPLEN).

More is damage (our choice)."""

MOST_NS = (1 << 63) - 1
"""Latest time stamp, nanoseconds since 1970: year 2262. Later ones are damage."""


class Direction(IntEnum):
    """Direction of a packet at its interface, as the low bits of epb_flags."""

    UNKNOWN = 0
    INBOUND = 1
    OUTBOUND = 2


class Interface(NamedTuple):
    """The interface that recorded packets."""

    name: str
    """The interface's name; empty where the format has none."""
    link_type: int
    """16 bits (LINKTYPE_ of pcap-linktype(7))."""
    snaplen: int


class Captured(NamedTuple):
    """One packet of a capture."""

    time_ns: int
    """Time since 1970, UTC."""
    wire_bytes: int
    """Length on the wire; `data` may be only its beginning."""
    data: bytes
    offset: int
    """Position in the file."""
    interface: int = 0
    direction: Direction = Direction.UNKNOWN
    fcs_bytes: int = 0
    """Length of the frame check sequence at its end, as Ethernet's is; 0 where the file does not state one."""


class CaptureFile(Protocol):
    """An open file; its properties are known once all packets were read."""

    is_cut: bool
    """Whether the file ended within a packet."""

    @property
    def interfaces(self) -> Sequence[Interface]:
        """Interfaces, numbered as packets refer to them."""

    def __iter__(self) -> Iterator[Captured]:
        """Yield packets in the order of the file, from its beginning."""

    def packet_at(self, offset: int) -> Captured:
        """Read one of those packets again."""
