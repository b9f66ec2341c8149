"""How large a window may be, so that all packets on the way to a host fit the rings of its ports.

In a fabric without propagation delay nearly everything that is on the way waits there.
"""

from fractions import Fraction

from agent.host.settings import RX_SLOTS

RING_SHARE = Fraction(3, 4)
"""Of a port's ring that data may fill; acknowledgements and probes need room, too (our choice)."""


def fitting_window(window_pkts: int, queue_pairs: int, planes: int) -> int:
    """The window asked for, or the largest that fits: of `queue_pairs` towards one host, with one plane out of use."""
    most = int(RX_SLOTS * RING_SHARE) * max(1, planes - 1) // queue_pairs
    return max(1, min(window_pkts, most))


SCAPY_PACKET_MS = 1
"""What a packet takes a host that builds and reads it by Scapy, about: measured, see docs/scapy.md."""


def window_for_scapy(window_pkts: int, queue_pairs: int, ack_timeout_ms: int) -> int:
    """The window, or what a host gets done by Scapy in half of the timeout with so many queue pairs from and to it."""
    return max(1, min(window_pkts, ack_timeout_ms // (2 * SCAPY_PACKET_MS) // max(1, queue_pairs)))
