"""Captures of named links: how tcpdump is called for one end, what its files are called, what it reports at the end.

Starts nothing: who owns the processes does. A capture with drops is kept and says so.
"""

import re
from dataclasses import dataclass

from testbed.model.ids import LinkId, NodeId, PortId

SNAPLEN_BYTES = 256
"""Every header of an MRC Write (142 bytes with its trailer) and the first bytes of payload."""

MOST_BYTES = 1 << 30
"""Of all files of one order, unless more or less is asked for: some four million packets (our choice)."""

_FILE_HEADER_BYTES, _PACKET_HEADER_BYTES = 24, 16
"""pcap(5), classic format."""

BUFFER_KIB = 16384
"""Covers a scheduling stall of about a tenth of a second at full packet rate (our choice)."""

LISTENING = b"listening on"
"""tcpdump prints this once packets are being taken."""

_REPORT = re.compile(rb"(\d+) packets? (captured|received by filter|dropped by kernel|dropped by interface)")


@dataclass(frozen=True)
class CaptureEnd:
    """One end of a captured link."""

    link: LinkId
    port: PortId

    @property
    def node(self) -> NodeId:
        """Whose port is recorded."""
        return self.port.node

    @property
    def file_name(self) -> str:
        """Plane, link, node, interface: `p0_leaf3-spine5.leaf3-spine5.pcap`."""
        plane, _, ends = str(self.link).partition(":")
        return f"{plane}_{ends}.{self.node.short}-{self.port.interface}.pcap"

    @classmethod
    def of_file_name(cls, name: str) -> "CaptureEnd | None":
        """The end whose file is called so; None for any other name."""
        link = LinkId.named(name.partition(".")[0].replace("_", ":", 1))
        return None if link is None else next((end for end in ends_of(link) if end.file_name == name), None)


@dataclass(frozen=True)
class CaptureCounts:
    """tcpdump's own last words."""

    captured: int
    received: int
    dropped: int


def ends_of(link: LinkId) -> tuple[CaptureEnd, CaptureEnd]:
    """Both ends, the lower one first."""
    up, down = link.directions
    return CaptureEnd(link, up.egress), CaptureEnd(link, down.egress)


def most_packets(most_bytes: int, snaplen: int) -> int:
    """Packets that surely fit into a file of so many bytes; at least one."""
    return max(1, (most_bytes - _FILE_HEADER_BYTES) // (_PACKET_HEADER_BYTES + snaplen))


def tcpdump_command(interface: str, snaplen: int, packets: int) -> tuple[str, ...]:
    """Records everything on an interface of the namespace it is started in to stdout, until it has so many packets.

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
    """The counts in what tcpdump wrote to stderr; None when it did not get to say."""
    found = {what: int(number) for number, what in _REPORT.findall(report)}
    if b"captured" not in found:
        return None
    dropped = found.get(b"dropped by kernel", 0) + found.get(b"dropped by interface", 0)
    return CaptureCounts(found[b"captured"], found.get(b"received by filter", 0), dropped)
