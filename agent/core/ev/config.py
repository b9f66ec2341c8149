"""How a queue pair treats its entropy values: sets, states, loss policy, probes. Frozen and checked on construction.

All defaults leave the set alone (oblivious spraying); what a value follows is said with it, else it is our choice.
"""

from enum import Enum
from typing import Annotated

from agent.core.settings import Range, Settings

_SECOND_NS = 10**9


class LossPolicy(Enum):
    """What losses that leave no trace do to an EV."""

    OFF = "off"
    """Nothing, and marks neither: every EV is used whatever happens, as measurements of gray failures need."""

    PAPER = "paper"
    """One loss retires the EV (MRC paper)."""

    THRESHOLD = "threshold"
    """`bad_after` losses within `bad_window_ns` retire it."""


class EvConfig(Settings, frozen=True):
    """Settings of one queue pair's EV set and of its probes."""

    loss_policy: LossPolicy = LossPolicy.OFF
    """Whether and when losses retire an EV."""

    bad_after: Annotated[int, Range(1, 1 << 20)] = 3
    """Losses that retire an EV under THRESHOLD. Our choice."""

    bad_window_ns: Annotated[int, Range(1, 3600 * _SECOND_NS)] = 100_000_000
    """Within which they must fall. Our choice."""

    active: Annotated[int, Range(1, 1 << 16)] | None = None
    """EVs sprayed over, equally many of each plane, the rest is the backup set; None: all are active."""

    min_active: Annotated[int, Range(1, 1 << 16)] | None = None
    """Fewer are never left in use, nor less than one a plane; None: a quarter of the active ones."""

    skip_ns: Annotated[int, Range(0, 10 * _SECOND_NS)] = 1_000_000
    """A SKIP ends after this even if no rotation passed; one base round trip."""

    skip_share: Annotated[float, Range(0, 1)] = 0.5
    """When a greater share of the active EVs is in SKIP, none is passed over (UET); 1.0 always passes over."""

    swap_after: Annotated[int, Range(0, 1 << 20)] = 3
    """So many marks in a row on one EV swap it for a backup of its plane, 0 never (paper 5.2.5)."""

    swap_memory_ns: Annotated[int, Range(1, 3600 * _SECOND_NS)] = 50_000_000
    """Marks further apart than this are not in a row. Our choice."""

    plane_silent_after: Annotated[int, Range(1, 1 << 20)] = 8
    """So many losses in one plane, and meanwhile not one arrival, retire all its EVs unless it is the last plane with
    any. Our choice: the floor of one EV a plane would otherwise keep sending into a dead plane for ever."""

    leave_lossy_planes: bool = False
    """A plane that loses far more than the others on all its EVs is used no more for `plane_retry_ns`, unless states
    never change. Reported it is in any case. Our choice: MRC leaves it to whoever runs the network."""

    plane_retry_ns: Annotated[int, Range(1000, 3600 * _SECOND_NS)] = 10_000_000_000
    """After so long a plane that was left is tried again. Our choice."""

    start_rotations: Annotated[int, Range(1, 1 << 16)] = 2
    """Until so many packets an active EV are acknowledged, no more than these are sent: a path that is dead from the
    start costs no more. Our choice, after the paper's figure 4; nothing is held back while states never change."""

    probe_interval_ns: Annotated[int, Range(1000, 3600 * _SECOND_NS)] = 10_000_000
    """Between two probes of an EV that is assumed bad, jittered by a fifth."""

    probe_max_interval_ns: Annotated[int, Range(1000, 3600 * _SECOND_NS)] = 1_000_000_000
    """Unanswered probes double the interval up to this."""

    probe_timeout_ns: Annotated[int, Range(1000, 60 * _SECOND_NS)] = 10_000_000
    """A probe without an answer for this long has failed. Our choice; the API's example waits 2 ms."""

    revive_after: Annotated[int, Range(1, 1 << 16)] = 8
    """Answers in a row that revive an EV."""

    revive_ns: Annotated[int, Range(0, 3600 * _SECOND_NS)] = 200_000_000
    """They must span at least this."""

    tail_probe_ns: Annotated[int, Range(1000, 60 * _SECOND_NS)] | None = None
    """Packets unanswered for this long are asked about by reliability probes on their EVs; None: only timeouts end a
    tail (MRC 11.2)."""

    reverse_probe_ns: Annotated[int, Range(1000, 60 * _SECOND_NS)] | None = None
    """Who receives without sending probes one random EV this often for its reverse set; None: never (paper)."""

    port_mask: bool = False
    """SACKs carry the port mask extension (our choice); both ends must agree."""

    @property
    def adapts(self) -> bool:
        """Whether marks and losses change states at all."""
        return self.loss_policy is not LossPolicy.OFF

    @property
    def tolerated(self) -> int:
        """Losses that retire an EV."""
        return self.bad_after if self.loss_policy is LossPolicy.THRESHOLD else 1
