"""Defines captures of named links: tcpdump's command for one end, the names of its files, and its final counts.

This module starts nothing; the owner of the processes does. A capture with drops is kept and reports them.
"""

import re
from dataclasses import dataclass

from testbed.model.node_names import LinkId, NodeId, PortId

SNAPLEN_BYTES = 256
"""Every header of an MRC Write (142 bytes with its trailer) and the first bytes of payload."""

MOST_BYTES = 1 << 30
"""Most bytes of all files of one capture unless another limit is set: about four million packets (our choice)."""

LEAST_BYTES = 1 << 16
"""Least size limit of all files of one capture (our choice)."""

_FILE_HEADER_BYTES, _PACKET_HEADER_BYTES = 24, 16
"""pcap(5), classic format."""

BUFFER_KIB = 16384
"""Covers a scheduling stall of about a tenth of a second at full packet rate (our choice)."""

LISTENING = b"listening on"
"""Text that tcpdump prints once it records packets."""

_REPORT = re.compile(rb"(\d+) packets? (captured|received by filter|dropped by kernel|dropped by interface)")


@dataclass(frozen=True)
class CaptureEnd:
    """One end of a captured link."""

    link: LinkId
    port: PortId

    @property
    def node(self) -> NodeId:
        """The node whose port is recorded."""
        return self.port.node

    @property
    def file_name(self) -> str:
        """Return plane, link, node and interface: `p0_leaf3-spine5.leaf3-spine5.pcap`."""
        plane, _, ends = str(self.link).partition(":")
        return f"{plane}_{ends}.{self.node.short}-{self.port.interface}.pcap"

    @classmethod
    def of_file_name(cls, name: str) -> "CaptureEnd | None":
        """Return the end that a file's name describes; None for any other name."""
        link = LinkId.named(name.partition(".")[0].replace("_", ":", 1))
        return None if link is None else next((end for end in ends_of(link) if end.file_name == name), None)


@dataclass(frozen=True)
class CaptureCounts:
    """The final counts that tcpdump reports."""

    captured: int
    received: int
    dropped: int


def ends_of(link: LinkId) -> tuple[CaptureEnd, CaptureEnd]:
    """Return both ends of a link, the lower one first."""
    up, down = link.directions
    return CaptureEnd(link, up.egress), CaptureEnd(link, down.egress)


def most_packets(most_bytes: int, snaplen: int) -> int:
    """Return how many packets surely fit into a file of `size` bytes; at least one."""
    return max(1, (most_bytes - _FILE_HEADER_BYTES) // (_PACKET_HEADER_BYTES + snaplen))


def tcpdump_command(interface: str, snaplen: int, packets: int) -> tuple[str, ...]:
    """Return the command that records an interface of its namespace to stdout, until it has `packets` packets.

    It opens no file itself: who starts it does, with the rights of the user whose file it is. Nanoseconds: a hop takes
    few microseconds. -U and --immediate-mode: packets reach the file at once. -Z root: or tcpdump gives up the rights
    that it takes packets with. No -p: ports are not promiscuous anyway, but a wrong MAC should be seen.
    """
    buffer = ("-B", str(BUFFER_KIB), "--time-stamp-precision=nano")
    return (
        "tcpdump",
        "-i",
        interface,
        "-n",
        "-U",
        "--immediate-mode",
        "-Z",
        "root",
        *buffer,
        "-s",
        str(snaplen),
        "-c",
        str(packets),
        "-w",
        "-",
    )


def counts_from(report: bytes) -> CaptureCounts | None:
    """Parse the counts that tcpdump wrote to stderr; None when it ended before it wrote them."""
    found = {what: int(number) for number, what in _REPORT.findall(report)}
    if b"captured" not in found:
        return None
    dropped = found.get(b"dropped by kernel", 0) + found.get(b"dropped by interface", 0)
    return CaptureCounts(found[b"captured"], found.get(b"received by filter", 0), dropped)
