"""Interface between a requester and congestion control. One controller serves one QP, or all QPs to a destination.

Bytes are nominal everywhere: payload and headers from the inner IPv6 on. Both ends must count the same, otherwise the
window leaks. Source: MRC chapter 8, which adopts UET 3.6.13.
"""

from typing import NamedTuple, Protocol

from agent.wire import constants as c

NOMINAL_HEADER_BYTES = (
    c.IPV6_BYTES + c.UDP_BYTES + c.BTH_BYTES + c.METH_BYTES + c.TSETH_BYTES + c.RETH_BYTES + c.ICRC_BYTES
)
"""nominal_pktsize is the UDP length plus 40. Our choice: pad and immediate data are not counted, so that the size
follows from the payload alone."""

UNLIMITED_PKTS = 1 << 30
"""A number of packets greater than any window of PSNs."""


class RttSamples(NamedTuple):
    """Valid round trips of one drain, `taken` of them; see `send/rtt.py`."""

    taken: int
    least_ns: int
    mean_ns: float


class Feedback(NamedTuple):
    """Combined contents of the SACKs of one drain."""

    newly_received_bytes: int
    """Growth of the responder's byte clock (CC_STATE.rcvd_bytes); never negative."""
    sacks: int
    """Number of SACKs, at least 1."""
    marked: int
    """Number of SACKs that answer a packet which met congestion (SETH.m SKIP_ONCE)."""
    rtt: RttSamples | None
    """Round trip samples; None without a valid one."""
    penalty: int = 0
    """CC_STATE.rcv_cwnd_pen of the newest SACK, 0..127."""
    restore: bool = False
    """CC_STATE.restore_cwnd of the newest SACK."""


class CongestionControl(Protocol):
    """A congestion window. It has no clock and no timer: the caller passes a monotonic `now_ns`."""

    @property
    def cwnd_bytes(self) -> int:
        """Return the window."""

    @property
    def in_flight_bytes(self) -> int:
        """Return bytes sent and not accounted for since. Signed: discarded packets may arrive later."""

    def room_pkts(self) -> int:
        """Count the full packets that may be sent now."""

    def on_sent(self, nominal_bytes: int) -> None:
        """Count bytes sent, retransmissions included."""

    def on_sacks(self, feedback: Feedback, now_ns: int) -> None:
        """Process SACKs: one call per drain."""

    def on_trimmed(self, nominal_bytes: int, pkts: int, now_ns: int) -> None:
        """Process NACKs of `pkts` trimmed packets, on any hop."""

    def on_lost(self, nominal_bytes: int) -> None:
        """Count bytes inferred lost, by SACKs or by timeout."""

    def on_discarded(self, nominal_bytes: int) -> None:
        """Remove bytes from flight for a reason other than the network.

        Another NACK, a QP that failed or became idle.
        """

    def on_ports(self, ports_up: int) -> None:
        """Set the number of ports that work at both ends."""


class NoControl:
    """No congestion control (API: algorithm NULL): only the PSN window limits."""

    @property
    def cwnd_bytes(self) -> int:
        """Return 0, which means that there is no window."""
        return 0

    @property
    def in_flight_bytes(self) -> int:
        """Return 0: nothing is counted."""
        return 0

    def room_pkts(self) -> int:
        """Allow any number."""
        return UNLIMITED_PKTS

    def on_sent(self, nominal_bytes: int) -> None:
        """Do nothing."""

    def on_sacks(self, feedback: Feedback, now_ns: int) -> None:
        """Do nothing."""

    def on_trimmed(self, nominal_bytes: int, pkts: int, now_ns: int) -> None:
        """Do nothing."""

    def on_lost(self, nominal_bytes: int) -> None:
        """Do nothing."""

    def on_discarded(self, nominal_bytes: int) -> None:
        """Do nothing."""

    def on_ports(self, ports_up: int) -> None:
        """Do nothing."""
