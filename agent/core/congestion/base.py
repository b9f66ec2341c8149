"""What a requester asks of congestion control and tells it. One controller serves one QP, or all QPs to a destination.

Bytes are nominal everywhere: payload and headers from the inner IPv6 on, the same at both ends, or the window leaks.
Source: MRC chapter 8, which adopts UET 3.6.13.
"""

from typing import NamedTuple, Protocol

from agent.wire import constants as c

NOMINAL_HEADER_BYTES = (
    c.IPV6_BYTES + c.UDP_BYTES + c.BTH_BYTES + c.METH_BYTES + c.TSETH_BYTES + c.RETH_BYTES + c.ICRC_BYTES
)
"""nominal_pktsize is the UDP length plus 40. Our choice: pad and immediate data are not counted, so that the size
follows from the payload alone."""

UNLIMITED_PKTS = 1 << 30
"""More than any window of PSNs."""


class RttSamples(NamedTuple):
    """The valid round trips of one drain, `taken` of them; see rtt.samples_of."""

    taken: int
    least_ns: int
    mean_ns: float


class Feedback(NamedTuple):
    """What the SACKs of one drain say together."""

    newly_received_bytes: int
    """Growth of the responder's byte clock (CC_STATE.rcvd_bytes); never negative."""
    sacks: int
    """How many, at least 1."""
    marked: int
    """How many of them answer a packet that met congestion (SETH.m SKIP_ONCE)."""
    rtt: RttSamples | None
    """None without a valid sample."""
    penalty: int = 0
    """CC_STATE.rcv_cwnd_pen of the newest, 0..127."""
    restore: bool = False
    """CC_STATE.restore_cwnd of the newest."""


class CongestionControl(Protocol):
    """A window. Keeps no clock and sets no timer: `now_ns` is monotonic and given."""

    @property
    def cwnd_bytes(self) -> int:
        """The window."""

    @property
    def in_flight_bytes(self) -> int:
        """Sent and not accounted for since. Signed: packets given up may arrive after all."""

    def room_pkts(self) -> int:
        """Full packets that may be sent now."""

    def on_sent(self, nominal_bytes: int) -> None:
        """So much was sent, retransmissions included."""

    def on_sacks(self, feedback: Feedback, now_ns: int) -> None:
        """SACKs came: one call a drain."""

    def on_trimmed(self, nominal_bytes: int, pkts: int, now_ns: int) -> None:
        """NACKs told of `pkts` trimmed packets, on whatever hop."""

    def on_lost(self, nominal_bytes: int) -> None:
        """So much is inferred lost, by SACKs or by timeout."""

    def on_discarded(self, nominal_bytes: int) -> None:
        """So much is no longer in flight, for no fault of the network: another NACK, a QP that failed or went idle."""

    def on_ports(self, ports_up: int) -> None:
        """So many ports work at both ends."""


class NoControl:
    """Congestion control off (API: algorithm NULL): only the PSN window limits."""

    @property
    def cwnd_bytes(self) -> int:
        """No window: 0 stands for none."""
        return 0

    @property
    def in_flight_bytes(self) -> int:
        """Always 0: nothing is counted."""
        return 0

    def room_pkts(self) -> int:
        """Any number."""
        return UNLIMITED_PKTS

    def on_sent(self, nominal_bytes: int) -> None:
        """Nothing to do."""

    def on_sacks(self, feedback: Feedback, now_ns: int) -> None:
        """Nothing to do."""

    def on_trimmed(self, nominal_bytes: int, pkts: int, now_ns: int) -> None:
        """Nothing to do."""

    def on_lost(self, nominal_bytes: int) -> None:
        """Nothing to do."""

    def on_discarded(self, nominal_bytes: int) -> None:
        """Nothing to do."""

    def on_ports(self, ports_up: int) -> None:
        """Nothing to do."""
