"""Settings of a queue pair, as the two ends agree on them out of band.

Frozen, complete and checked on construction; no defaults are looked up anywhere else. Names and units
follow the MRC API (`mrc.h`, QP attributes); values marked "our choice" are argued in docs/transport.md.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Annotated

from agent.core.ev.config import EvConfig
from agent.core.settings import Range, Settings
from agent.core.spray_policy import SprayPolicy as SprayPolicy
from agent.wire.constants import MPR_UNIT_PSNS as MPR_UNIT_PSNS
from agent.wire.constants import SACK_BITMAP_BITS

LEAST_MPR = 8
"""Endpoints should support a window of 1024 PSNs (MRC API headers)."""

EXP_CNT_INFINITE = 25
"""`exp_cnt` of this value never gives up (MRC API)."""


class LossRule(Enum):
    """What proves a packet lost, besides timeouts and NACKs (the specification leaves it open)."""

    SAME_EV = "same-ev"
    """A packet sent later on the same EV has arrived: exact where one EV is one FIFO path."""

    GENERIC = "generic"
    """Several packets sent later have arrived, and time has passed: for paths that reorder."""

    BOTH = "both"
    """Either: also a path on which nothing arrives any more is found out without a timeout."""


class QpConfig(Settings, frozen=True):
    """One queue pair's settings; immutable for its life."""

    pmtu: Annotated[int, Range(1, 8192)] = 4096
    """Payload bytes of a full packet (256..4096 in the specification; smaller ones for tests)."""

    window_pkts: Annotated[int, Range(1, 255 * MPR_UNIT_PSNS)] = 2048
    """Most packets between the oldest unacknowledged one and the newest sent, before `mpr_dest` is applied."""

    mpr: Annotated[int, Range(1, 255)] | None = None
    """Receive window we offer, unit 128 PSNs; sizes the responder's ring. None: what `window_pkts` needs, at least
    LEAST_MPR."""

    mpr_dest: Annotated[int, Range(1, 255)] | None = None
    """Receive window the peer offers, unit 128 PSNs; the send window is min(window_pkts, 128 * mpr_dest). None: as
    many as `window_pkts` asks for."""

    dynamic_mpr: bool = False
    """Advertise `mpr` in every SACK and follow the peer's; both ends must agree."""

    start_psn: Annotated[int, Range(0, (1 << 24) - 1)] | None = None
    """First PSN we send, 24 bits; None draws one from the queue pair's generator."""

    policy: SprayPolicy = SprayPolicy.ROTATION
    """How EVs are chosen for first transmissions."""

    seed: Annotated[int, Range(0, 2**64 - 1)] = 0
    """Seed of the spray schedule, which is a pure function of (policy, seed, EV set, packet index)."""

    rotations_per_order: Annotated[int, Range(1, 4096)] = 16
    """Rotations before the order is redrawn. Our choice: rare enough to be cheap, and QPs do not stay in step."""

    sack_gen_threshold_bytes: Annotated[int, Range(0, 2**40)] | None = None
    """SACK when the bytes since the last one exceed this (trigger 1); None: 64 * max(pmtu, 1024), because one
    SACK shows 64 packets."""

    sack_delay_ns: Annotated[int, Range(0, 10**10)] = 300_000
    """News is never kept longer than this. Our choice, from measurements of the data path."""

    transport_ack: bool = True
    """Messages complete by the transport ACK (AETH); False: when the cumulative point passes them. Both ends alike."""

    ack_coalesce_ns: Annotated[int, Range(0, 10**10)] = 5_000_000
    """Transport ACKs keep this distance while more data follows: about a round trip under load, and an ACK in every
    turn costs 5 % of the goodput (measured: make bench). A message end that asks for an answer gets it at once."""

    max_wimm: Annotated[int, Range(1, 65535)] = 128
    """Write-with-Immediates the peer may have in flight; the API's example."""

    max_wimm_dest: Annotated[int, Range(1, 65535)] = 128
    """As many the peer allows us."""

    nack_out_of_window: bool = False
    """Packets beyond the window are NACKed (Table 7-3) rather than dropped in silence (6.3.1 rule 6)."""

    loss_rule: LossRule = LossRule.SAME_EV
    """What proves a packet lost."""

    reorder_pkts: Annotated[int, Range(1, 1 << 16)] = 3
    """Arrivals of packets sent later that prove a loss under GENERIC, if also time has passed (our choice)."""

    reorder_floor_ns: Annotated[int, Range(0, 10**10)] = 100_000
    """Least time of it; otherwise 1.25 smoothed round trips and the spread of the round trips. Our choice."""

    ack_timeout_ns: Annotated[int, Range(1000, 2**35)] = 67_108_864
    """A packet without any answer for this long is resent; 1.024 µs * 2^16. Our choice of n."""

    linear_cnt: Annotated[int, Range(0, 7)] = 3
    """Timeouts at the fixed interval before it starts doubling."""

    exp_cnt: Annotated[int, Range(0, EXP_CNT_INFINITE)] = 7
    """Doublings before the queue pair fails; 25 never gives up."""

    packet_interval_ns: Annotated[int, Range(0, 10**10)] = 0
    """Time from packet to packet that is kept on average, resent ones included; 0: as fast as windows allow."""

    ev: EvConfig = EvConfig()
    """What becomes of EVs that lose, are marked or answer probes."""

    @property
    def sack_threshold_bytes(self) -> int:
        """Trigger 1 in bytes, with the default resolved."""
        if self.sack_gen_threshold_bytes is not None:
            return self.sack_gen_threshold_bytes
        return SACK_BITMAP_BITS * max(self.pmtu, 1024)

    @property
    def receive_window_psns(self) -> int:
        """PSNs beyond the cumulative point that the responder accepts."""
        return self.offered_mpr * MPR_UNIT_PSNS

    @property
    def offered_mpr(self) -> int:
        """`mpr` with its default resolved."""
        return max(LEAST_MPR, -(-self.window_pkts // MPR_UNIT_PSNS)) if self.mpr is None else self.mpr

    @property
    def send_window_psns(self) -> int:
        """PSNs beyond the cumulative point that the requester may send."""
        return self.window_pkts if self.mpr_dest is None else min(self.window_pkts, self.mpr_dest * MPR_UNIT_PSNS)


@dataclass(frozen=True, slots=True)
class PeerQp:
    """What the other end told us out of band (MRC Table 10-1)."""

    qpn: int
    """Its queue pair number, 24 bits."""

    start_psn: int
    """The first PSN it will send, 24 bits."""

    mpr: int | None = None
    """Receive window it offers, unit 128 PSNs; bounds our `mpr_dest`."""

    max_wimm: int | None = None
    """Write-with-Immediates it allows in flight; bounds our `max_wimm_dest`."""

    dynamic_mpr: bool | None = None
    """Whether it follows and advertises windows; off unless both ends do. None: as ours."""

    trim_nack: bool = True
    """It answers trimmed packets with NACKs; otherwise ours must not be trimmed (DSCP NO_TRIM)."""

    port_mask: bool | None = None
    """Whether its SACKs carry the mask of its ports, and it reads ours (our extension); off unless both ends do.
    None: as ours."""
