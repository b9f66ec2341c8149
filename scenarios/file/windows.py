"""Computes the largest window for which all packets on the way to a host fit the rings of its ports.

In a fabric without propagation delay nearly all packets on the way wait there.
"""

from fractions import Fraction

from agent.host.settings import RX_SLOTS

RING_SHARE = Fraction(3, 4)
"""Share of a port's ring that data may fill; acknowledgements and probes need room, too (our choice)."""


def fitting_window(window_pkts: int, queue_pairs: int, planes: int) -> int:
    """Return the requested window, or the largest that fits for `queue_pairs` towards one host with one plane out
    of use.
    """
    most = int(RX_SLOTS * RING_SHARE) * max(1, planes - 1) // queue_pairs
    return max(1, min(window_pkts, most))


SCAPY_PACKET_MS = 1
"""Approximate time per packet of a host that builds and reads it by Scapy: measured, see docs/scapy.md."""


def window_for_scapy(window_pkts: int, queue_pairs: int, ack_timeout_ms: int) -> int:
    """Return the window, or what a host can handle by Scapy in half of the timeout with this many queue pairs."""
    return max(1, min(window_pkts, ack_timeout_ms // (2 * SCAPY_PACKET_MS) // max(1, queue_pairs)))
