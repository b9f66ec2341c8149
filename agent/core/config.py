"""Settings of a queue pair that both ends agree on out of band, and of its entropy values.

Frozen, complete and checked on construction: each type states its range; no defaults are looked up anywhere else.
Requests carry these records unchanged, so a setting is declared once. Names and units follow the MRC API (`mrc.h`, QP
attributes); docs/transport.md gives the reasons for values marked "our choice".

All defaults of `EvConfig` leave the EV set alone (oblivious spraying). Each of its values names its source; a value
without a source is our choice.
"""

from dataclasses import dataclass
from enum import Enum, StrEnum
from functools import cache
from typing import Annotated, get_args, get_origin, get_type_hints

import msgspec

from agent.core.errors import ConfigError
from agent.wire.constants import MPR_UNIT_PSNS as MPR_UNIT_PSNS
from agent.wire.constants import SACK_BITMAP_BITS, SprayPolicyCode


@dataclass(frozen=True, slots=True)
class Range:
    """Least and greatest value of a setting, as in `Annotated[int, Range(1, 255)]`."""

    low: float
    high: float


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base of settings records; None is in every range if the type allows it."""

    def __post_init__(self) -> None:
        """Raise ConfigError with everything that is out of range."""
        problems = tuple(
            f"{name} is {value}, must be {allowed.low}..{allowed.high}"
            for name, allowed in ranges_of(type(self)).items()
            if (value := getattr(self, name)) is not None and not allowed.low <= value <= allowed.high
        )
        if problems:
            raise ConfigError(problems)


@cache
def ranges_of(settings: type[Settings]) -> dict[str, Range]:
    """Return the ranges of a record's settings by name; settings without a range are left out."""
    hints = get_type_hints(settings, include_extras=True)
    return {name: found for name, hint in hints.items() if (found := _range_in(hint)) is not None}


def _range_in(hint: object) -> Range | None:
    if get_origin(hint) is Annotated:
        return next((each for each in get_args(hint)[1:] if isinstance(each, Range)), None)
    return next((found for part in get_args(hint) if (found := _range_in(part)) is not None), None)


class SprayPolicy(StrEnum):
    """Order in which first transmissions use entropy values; planes take turns in both."""

    ROTATION = "rotation"
    """Every EV once per rotation, in a pseudo-random order that is drawn again every `rotations_per_order` rotations
    (MRC 9.3.1)."""

    RANDOM = "random"
    """Planes in turn; within the plane an independent uniform draw per packet."""

    @property
    def code(self) -> SprayPolicyCode:
        """Return the code that announcements carry."""
        return SprayPolicyCode[self.name]


_SECOND_NS = 10**9


class LossPolicy(Enum):
    """Effect on an EV of losses that were not reported by a NACK."""

    OFF = "off"
    """No effect, and marks have none either: every EV stays in use, as measurements of gray failures need."""

    PAPER = "paper"
    """One loss retires the EV (MRC paper)."""

    THRESHOLD = "threshold"
    """`bad_after` losses within `bad_window_ns` retire it."""


class EvConfig(Settings, frozen=True):
    """Settings of one queue pair's EV set and of its probes."""

    loss_policy: LossPolicy = LossPolicy.OFF
    """Rule by which losses retire an EV."""

    bad_after: Annotated[int, Range(1, 1 << 20)] = 3
    """Losses that retire an EV under THRESHOLD. Our choice."""

    bad_window_ns: Annotated[int, Range(1, 3600 * _SECOND_NS)] = 100_000_000
    """Time within which these losses must occur. Our choice."""

    active: Annotated[int, Range(1, 1 << 16)] | None = None
    """EVs to spray over, equally many per plane; the others are the backup set. None: all are active."""

    min_active: Annotated[int, Range(1, 1 << 16)] | None = None
    """Least EVs that stay in use, and at least one per plane; None: a quarter of the active ones."""

    skip_ns: Annotated[int, Range(0, 10 * _SECOND_NS)] = 1_000_000
    """Longest time of a SKIP, even if no rotation passed; one base round trip."""

    skip_share: Annotated[float, Range(0, 1)] = 0.5
    """If a greater share of active EVs is in SKIP, none is skipped (UET); 1.0 always skips."""

    swap_after: Annotated[int, Range(0, 1 << 20)] = 3
    """Marks in a row on one EV that swap it for a backup of its plane; 0: never (paper 5.2.5)."""

    swap_memory_ns: Annotated[int, Range(1, 3600 * _SECOND_NS)] = 50_000_000
    """Marks further apart than this are not in a row. Our choice."""

    plane_silent_after: Annotated[int, Range(1, 1 << 20)] = 8
    """Losses in one plane, without any arrival between them, that retire all its EVs, unless no other plane has any.
    Our choice: the floor of one EV per plane would otherwise keep sending into a dead plane for ever."""

    leave_lossy_planes: bool = False
    """A plane that loses far more than the others on all its EVs is not used for `plane_retry_ns`, unless states never
    change. It is reported in any case. Our choice: MRC leaves this to the network's operator."""

    plane_retry_ns: Annotated[int, Range(1000, 3600 * _SECOND_NS)] = 10_000_000_000
    """Time after which an avoided plane is tried again. Our choice."""

    start_rotations: Annotated[int, Range(1, 1 << 16)] = 2
    """Packets per active EV that may be sent before any are acknowledged: a path that is dead from the start costs no
    more. Our choice, after the paper's figure 4; no limit while states never change."""

    probe_interval_ns: Annotated[int, Range(1000, 3600 * _SECOND_NS)] = 10_000_000
    """Time between two probes of an EV that is assumed bad, with a jitter of one fifth."""

    probe_max_interval_ns: Annotated[int, Range(1000, 3600 * _SECOND_NS)] = 1_000_000_000
    """Longest interval between probes: unanswered probes double it up to this."""

    probe_timeout_ns: Annotated[int, Range(1000, 60 * _SECOND_NS)] = 10_000_000
    """A probe without an answer for this long has failed. Our choice; the API's example waits 2 ms."""

    revive_after: Annotated[int, Range(1, 1 << 16)] = 8
    """Answers in a row that revive an EV."""

    revive_ns: Annotated[int, Range(0, 3600 * _SECOND_NS)] = 200_000_000
    """Shortest time that these answers must span."""

    tail_probe_ns: Annotated[int, Range(1000, 60 * _SECOND_NS)] | None = None
    """Packets unanswered for this long are checked by reliability probes on their EVs; None: only timeouts detect a
    lost tail (MRC 11.2)."""

    reverse_probe_ns: Annotated[int, Range(1000, 60 * _SECOND_NS)] | None = None
    """How often a receive-only host probes a random EV to find working return paths; None: never (paper)."""

    port_mask: bool = False
    """SACKs carry the port mask extension (our choice); both ends must agree."""

    @property
    def adapts(self) -> bool:
        """Report whether marks and losses change states at all."""
        return self.loss_policy is not LossPolicy.OFF

    @property
    def tolerated(self) -> int:
        """Resolve the losses that retire an EV."""
        return self.bad_after if self.loss_policy is LossPolicy.THRESHOLD else 1


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
