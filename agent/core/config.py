"""Settings of a queue pair that both ends agree on out of band.

Frozen, complete and checked on construction; no defaults are looked up anywhere else. Names and units follow the MRC
API (`mrc.h`, QP attributes); docs/transport.md gives the reasons for values marked "our choice".
"""

from dataclasses import dataclass
from enum import Enum
from typing import Annotated

from agent.core.ev.config import EvConfig
from agent.core.ev.config import SprayPolicy as SprayPolicy
from agent.core.settings import Range, Settings
from agent.wire.constants import MPR_UNIT_PSNS as MPR_UNIT_PSNS
from agent.wire.constants import SACK_BITMAP_BITS

LEAST_MPR = 8
"""Endpoints should support a window of 1024 PSNs (MRC API headers)."""

EXP_CNT_INFINITE = 25
"""`exp_cnt` of this value never gives up (MRC API)."""


class LossRule(Enum):
    """Evidence that counts as proof of loss, besides timeouts and NACKs (the specification leaves it open)."""

    SAME_EV = "same-ev"
    """A packet sent later on the same EV has arrived. Exact where each EV is one FIFO path."""

    GENERIC = "generic"
    """Several packets sent later have arrived and a minimum time has passed. For paths that reorder."""

    BOTH = "both"
    """Either rule is enough. This also detects a path on which nothing arrives any more without a timeout."""


class QpConfig(Settings, frozen=True):
    """Settings of one queue pair; immutable for its lifetime."""

    pmtu: Annotated[int, Range(1, 8192)] = 4096
    """Payload bytes of a full packet (256..4096 in the specification; smaller ones for tests)."""

    window_pkts: Annotated[int, Range(1, 255 * MPR_UNIT_PSNS)] = 2048
    """Most packets between the oldest unacknowledged and the newest sent, before `mpr_dest` limits them."""

    mpr: Annotated[int, Range(1, 255)] | None = None
    """Receive window we offer, in units of 128 PSNs; sets the size of the responder's ring. None: what `window_pkts`
    needs, at least LEAST_MPR."""

    mpr_dest: Annotated[int, Range(1, 255)] | None = None
    """Receive window the peer offers, in units of 128 PSNs; the send window is min(window_pkts, 128 * mpr_dest). None:
    what `window_pkts` needs."""

    dynamic_mpr: bool = False
    """Advertise `mpr` in every SACK and follow the peer's; both ends must agree."""

    start_psn: Annotated[int, Range(0, (1 << 24) - 1)] | None = None
    """First PSN we send, 24 bits; None draws one from the queue pair's generator."""

    policy: SprayPolicy = SprayPolicy.ROTATION
    """Rule that chooses EVs for first transmissions."""

    seed: Annotated[int, Range(0, 2**64 - 1)] = 0
    """Seed of the spray schedule, which is a pure function of (policy, seed, EV set, packet index)."""

    rotations_per_order: Annotated[int, Range(1, 4096)] = 16
    """Rotations before the order is drawn again. Our choice: rare enough to be cheap, and QPs do not stay in step."""

    sack_gen_threshold_bytes: Annotated[int, Range(0, 2**40)] | None = None
    """A SACK is sent when more bytes than this arrived since the last one (trigger 1); None: 64 * max(pmtu, 1024),
    because one SACK shows 64 packets."""

    sack_delay_ns: Annotated[int, Range(0, 10**10)] = 300_000
    """Longest delay before a SACK is sent. Our choice, from measurements of the data path."""

    transport_ack: bool = True
    """Messages complete by the transport ACK (AETH); False: when the cumulative point passes them. Both ends must
    agree."""

    ack_coalesce_ns: Annotated[int, Range(0, 10**10)] = 5_000_000
    """Shortest time between transport ACKs while more data follows. Our choice: about a round trip under load; an ACK
    in every turn costs 5 % of the goodput (measured: make bench). A message end that requests an ACK gets it at
    once."""

    max_wimm: Annotated[int, Range(1, 65535)] = 128
    """Write-with-Immediates the peer may have in flight; the default is the API's example."""

    max_wimm_dest: Annotated[int, Range(1, 65535)] = 128
    """Write-with-Immediates that the peer allows us to have in flight."""

    nack_out_of_window: bool = False
    """Packets beyond the window get a NACK (Table 7-3); False: they are dropped silently (6.3.1 rule 6)."""

    loss_rule: LossRule = LossRule.SAME_EV
    """Evidence that proves a loss."""

    reorder_pkts: Annotated[int, Range(1, 1 << 16)] = 3
    """Later-sent packets that must have arrived to prove a loss under GENERIC (our choice)."""

    reorder_floor_ns: Annotated[int, Range(0, 10**10)] = 100_000
    """Shortest time that must also have passed under GENERIC; otherwise 1.25 smoothed round trips plus their spread.
    Our choice."""

    ack_timeout_ns: Annotated[int, Range(1000, 2**35)] = 67_108_864
    """A packet without any answer for this long is sent again; 1.024 µs * 2^16. Our choice of n."""

    linear_cnt: Annotated[int, Range(0, 7)] = 3
    """Timeouts at the fixed interval before it starts doubling."""

    exp_cnt: Annotated[int, Range(0, EXP_CNT_INFINITE)] = 7
    """Doublings before the queue pair fails; 25 never gives up."""

    packet_interval_ns: Annotated[int, Range(0, 10**10)] = 0
    """Average time between packets, retransmissions included; 0: as fast as windows allow."""

    ev: EvConfig = EvConfig()
    """Settings of EVs: what losses, marks and probe answers do to them."""

    @property
    def sack_threshold_bytes(self) -> int:
        """Resolve trigger 1 to bytes."""
        if self.sack_gen_threshold_bytes is not None:
            return self.sack_gen_threshold_bytes
        return SACK_BITMAP_BITS * max(self.pmtu, 1024)

    @property
    def receive_window_psns(self) -> int:
        """Count the PSNs beyond the cumulative point that the responder accepts."""
        return self.offered_mpr * MPR_UNIT_PSNS

    @property
    def offered_mpr(self) -> int:
        """Resolve `mpr` with its default."""
        return max(LEAST_MPR, -(-self.window_pkts // MPR_UNIT_PSNS)) if self.mpr is None else self.mpr

    @property
    def send_window_psns(self) -> int:
        """Count the PSNs beyond the cumulative point that the requester may send."""
        return self.window_pkts if self.mpr_dest is None else min(self.window_pkts, self.mpr_dest * MPR_UNIT_PSNS)


@dataclass(frozen=True, slots=True)
class PeerQp:
    """Parameters that the other end sent us out of band (MRC Table 10-1)."""

    qpn: int
    """Its queue pair number, 24 bits."""

    start_psn: int
    """First PSN it will send, 24 bits."""

    mpr: int | None = None
    """Receive window it offers, unit 128 PSNs; bounds our `mpr_dest`."""

    max_wimm: int | None = None
    """Write-with-Immediates it allows in flight; bounds our `max_wimm_dest`."""

    dynamic_mpr: bool | None = None
    """The peer follows and advertises windows; in force only if both ends do. None: the same as ours."""

    trim_nack: bool = True
    """The peer answers trimmed packets with NACKs; if not, our packets must not be trimmed (DSCP NO_TRIM)."""

    port_mask: bool | None = None
    """The peer's SACKs carry the mask of its ports, and it reads ours (our extension); in force only if both ends do.
    None: the same as ours."""
