"""Settings of entropy values: spray policy, sets, states, loss policy, probes. Frozen and checked on construction.

All defaults leave the set alone (oblivious spraying). Each value names its source; a value without a source is our
choice.
"""

from enum import Enum, StrEnum
from typing import Annotated

from agent.core.settings import Range, Settings
from agent.wire.constants import SprayPolicyCode


class SprayPolicy(StrEnum):
    """How first transmissions are spread over entropy values; planes take turns in both."""

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
