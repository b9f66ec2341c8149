"""Defines how MRC sends, as a scenario chooses it: every setting of the transport under one name and unit.

Defaults and ranges are those of `agent.core`, which gives the reasons.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import Field

from agent.core.config import EvConfig, QpConfig, Range, Settings, ranges_of
from agent.core.congestion.config import NsccConfig
from faults.quantities import parse_bit_rate, render_bit_rate
from scenarios.file.values import BitRate, Bytes, OffIsAWord, Part

MS = 1_000_000
"""Nanoseconds."""
US = 1_000


@dataclass(frozen=True, slots=True)
class Sets:
    """The field of the core's settings that a key sets, and the conversion of its value."""

    record: type[Settings]
    name: str
    converted: Callable[[Any], Any]

    def __call__(self, schema: dict[str, Any]) -> None:
        """Add nothing to the JSON Schema."""


def _sets(
    record: type[Settings],
    name: str,
    unit: int = 1,
    *,
    default: Any = ...,
    within: tuple[float | None, float | None] | None = None,
    parse: Callable[[Any], Any] | None = None,
    render: Callable[[Any], Any] | None = None,
) -> Any:
    """Declare a key that sets a field of the core, with its default and range there, counted in `unit`s of its own.

    `default` and `within` where a scenario's are others; `parse` and `render` for values that are written otherwise.
    """
    own = getattr(record(), name)
    if isinstance(own, Enum):
        parse, render = type(own), lambda policy: policy.value
    parse = parse or (_whole(unit) if unit > 1 else _same)
    if default is ...:
        default = None if own is None else render(own) if render else own / unit if unit > 1 else own
    low, high = within or _limits(None if render else ranges_of(record).get(name), unit)
    return Field(default=default, ge=low, le=high, json_schema_extra=Sets(record, name, parse))


def _limits(allowed: Range | None, unit: int) -> tuple[float | None, float | None]:
    if allowed is None:
        return None, None
    if unit == 1:
        return allowed.low, allowed.high
    # A thousandth of a unit is as little as anybody writes, and JSON and YAML agree on its digits.
    return max(allowed.low / unit, 0.001) if allowed.low else 0, allowed.high / unit


def _whole(unit: int) -> Callable[[float], int]:
    """Convert a number of units to whole ones of the core."""
    return lambda value: round(value * unit)


def _same(value: Any) -> Any:
    return value


def set_by(record: type[Settings], *parts: Part) -> dict[str, Any]:
    """Return the fields of a record of the core that keys of these parts set, in its own units."""
    return {
        sets.name: None if (value := getattr(part, key)) is None else sets.converted(value)
        for part in parts
        for key, field in type(part).model_fields.items()
        if isinstance(sets := field.json_schema_extra, Sets) and sets.record is record
    }


_qp, _ev, _nscc = (partial(_sets, record) for record in (QpConfig, EvConfig, NsccConfig))


class Retries(Part):
    """Timeouts before a queue pair fails."""

    linear: int = _qp("linear_cnt")
    """Resends that each wait `ack_timeout_ms`."""
    doubling: int = _qp("exp_cnt")
    """Further resends, each with double the wait; then the queue pair fails. 25 never gives up and waits at most 128
    times as long."""


class EvField(Part):
    """One field of generated EVs, from the highest bits down (MRC API, EV mode GEN)."""

    width: int = Field(ge=1, le=32)
    """Bits of the field; all fields together have 32."""
    init_val: int = Field(ge=0, lt=1 << 32)
    """Initial value."""
    mask: int = Field(default=0, ge=0, lt=1 << 32)
    """Bits replaced by those of the EV's index."""
    min: int = Field(default=0, ge=0, lt=1 << 32)
    """Least value of the replaced bits."""
    max: int = Field(default=0, ge=0, lt=1 << 32)
    """Greatest value; others are omitted."""


class EvProfile(Part):
    """Source of a flow's EVs. Hosts below one leaf always use their one path per plane."""

    mode: Literal["auto", "exp", "gen"] = "auto"
    """`auto`: all paths, or `count` of them; `exp`: `evs`; `gen`: the first `count` that `fields` generate. Paths
    without an EV get no packets."""
    count: int | None = Field(default=None, ge=1, le=1 << 16)
    """Number of EVs. `auto`: drawn at random per flow, equally many per plane; left out, all."""
    evs: tuple[Annotated[int, Field(ge=0, lt=1 << 32)], ...] = ()
    """For `exp`: values such as `0xc0001105` (spine 5 of plane 1)."""
    fields: tuple[EvField, ...] = ()
    """For `gen`, from the highest bits down. The 8 spines of plane 0: `[{width: 16, init_val: 0xc000}, {width: 16,
    init_val: 0x1000, mask: 0x7, max: 7}]`, `count: 8`."""

    @property
    def is_all(self) -> bool:
        """Return whether every path has its EVs."""
        return self.mode == "auto" and self.count is None


class EvTreatment(Part):
    """Entropy values (EVs): which there are, and what losses, marks and answers do to them."""

    profile: EvProfile = EvProfile()
    """Where EVs come from."""
    loss_policy: Annotated[Literal["off", "paper", "threshold"], OffIsAWord] = _ev("loss_policy")
    """`off`: losses retire no EV (oblivious spraying, as SprayCheck needs it); `paper`: one loss retires it;
    `threshold`: `bad_after` losses within `bad_window_ms`. A spare of the same plane replaces a retired EV, and probes
    may bring it back."""
    bad_after: int = _ev("bad_after")
    """Losses that retire an EV under `threshold`."""
    bad_window_ms: float = _ev("bad_window_ns", MS)
    """Window for `bad_after`."""
    active: int | None = _ev("active")
    """EVs in use, equally many per plane; the others are spares. Left out: all."""
    min_active: int | None = _ev("min_active")
    """Fewest EVs that losses leave in use, at least one per plane; left out, a quarter of the active ones."""
    skip_ms: float = _ev("skip_ns", MS)
    """A marked EV is skipped once, or for this long."""
    skip_share: float = _ev("skip_share")
    """If a larger share of the active EVs is marked, none is skipped."""
    swap_after: int = _ev("swap_after")
    """Marks in a row that swap an EV for a spare of its plane; 0 never."""
    swap_memory_ms: float = _ev("swap_memory_ns", MS)
    """Longest gap between marks in a row."""
    plane_silent_after: int = _ev("plane_silent_after")
    """Losses in a plane, with no arrivals meanwhile, that retire all its EVs."""
    leave_lossy_planes: bool = _ev("leave_lossy_planes")
    """Leave a plane for `plane_retry_ms` if it loses far more than the others on all its paths, as over a lossy host
    link. Otherwise it is only reported (`PLANE_LOSSY`)."""
    plane_retry_ms: float = _ev("plane_retry_ns", MS)
    """Time until a plane that was left is tried again."""
    start_rotations: int = _ev("start_rotations")
    """First packets per active EV that must be acknowledged before more are sent, unless `loss_policy` is `off`."""
    probe_interval_ms: float = _ev("probe_interval_ns", MS)
    """Interval of probes of a retired EV."""
    probe_max_interval_ms: float = _ev("probe_max_interval_ns", MS)
    """Longest interval; unanswered probes double it."""
    probe_timeout_ms: float = _ev("probe_timeout_ns", MS)
    """Timeout of a probe."""
    revive_after: int = _ev("revive_after")
    """Answers in a row that revive an EV."""
    revive_ms: float = _ev("revive_ns", MS)
    """Time that those answers must span."""


class Congestion(Part):
    """Congestion control, beside the packet windows."""

    algorithm: Annotated[Literal["off", "nscc"], OffIsAWord] = "off"
    """`off`: only packet windows; `nscc`: also a window set by queueing delay and marks."""
    base_rtt_us: float = _nscc("base_rtt_ns", US)
    """Round trip of the empty fabric."""
    base_rtt_floor_us: float = _nscc("base_rtt_floor_ns", US)
    """Lower bound of the measured base round trip."""
    link_rate: BitRate = _nscc("port_bps", parse=parse_bit_rate, render=render_bit_rate)
    """Rate of one port; with `base_rtt_us` it gives the largest window. Set it to the rate that links are shaped to."""
    target_delay_us: float | None = _nscc("target_delay_ns", US)
    """Target queueing delay; left out, one `base_rtt_us` (0.75 with `trimming`)."""
    max_window: Bytes | None = _nscc("max_cwnd_bytes", within=(None, None))
    """Largest window with headers; left out, 1.5 times rate and round trip."""
    fi_bytes: float | None = _nscc("fi_bytes")
    """Fair increase per round trip at and above the target; left out, 5 full packets, scaled to the BDP."""
    fi_scale: float | None = _nscc("fi_scale")
    """Fast increase, as a share of the bytes received without a queue; left out, 0.25, scaled to the BDP."""
    eta_bytes: float | None = _nscc("eta_bytes")
    """Increase per adjust period under any signals; left out, 0.15 of a full packet, scaled to the BDP."""
    gamma: float = _nscc("gamma")
    """Strength of the decrease."""
    max_md_jump: float = _nscc("max_md_jump")
    """Smallest factor of one decrease."""
    qa_gate: int = _nscc("qa_gate")
    """Quick adapt acts if a period achieved less than the largest window halved this many times."""
    qa_threshold_us: float | None = _nscc("qa_threshold_ns", US)
    """Queueing delay that triggers quick adapt without a trim; left out, 4 times the target."""
    disable_qa: bool = _nscc("disable_qa")
    """No quick adapt."""
    adjust_bytes: Bytes | None = _nscc("adjust_bytes_threshold_bytes", within=(None, None))
    """Received bytes after which increases take effect; left out, 8 full packets."""
    adjust_period_us: float | None = _nscc("adjust_period_threshold_ns", US)
    """Time after which increases take effect; left out, one `base_rtt_us`."""
    shared: bool = False
    """One window for all flows from one host to another, instead of one per flow."""


class Transport(Part):
    """Settings of the MRC transport."""

    engine: Literal["ring", "scapy"] = "ring"
    """`ring`: packet rings and numpy, fast; `scapy`: Scapy builds and reads each packet, slow and readable
    ([Scapy](scapy.md))."""
    engine_hosts: tuple[Annotated[int, Field(ge=0)], ...] | None = Field(default=None, min_length=1)
    """Hosts that use `engine: scapy`; left out, all."""
    pmtu: Literal[256, 512, 1024, 2048, 4096] = _qp("pmtu", default=256, within=(None, None))
    """Payload bytes of a full packet."""
    window_pkts: int = _qp("window_pkts", default=256, within=(1, 16384))
    """Packets in flight per queue pair. They wait in this machine's rings, about 6 µs per packet, so a large window
    makes long round trips, not speed."""
    ack_timeout_ms: int = _qp("ack_timeout_ns", MS, default=500, within=(1, 34_000))
    """Timeout after which an unanswered packet is sent again. MRC's default is 67 ms; here an engine may wait for its
    core, and packets that wait in a ring are not lost."""
    retries: Retries = Retries()
    """Timeouts before a queue pair fails."""
    spray: Literal["rotation", "random"] = _qp("policy")
    """Order of entropy values: each once per turn in pseudo-random order, or drawn independently."""
    copies: int = Field(default=1, ge=1, le=16)
    """Entropy values per path."""
    start_psn: int | None = _qp("start_psn")
    """First packet sequence number of every queue pair; left out, random."""
    loss_rule: Literal["same-ev", "generic", "both"] = _qp("loss_rule")
    """What proves a loss: a later arrival on the same EV (paths keep order), several later arrivals and some time
    (paths reorder), or [either](transport.md#loss)."""
    tail_probe_ms: float | None = Field(default=None, ge=0, le=60_000)
    """Time without a SACK before paths are probed; left out, a quarter of `ack_timeout_ms`; 0 never."""
    reverse_probe_ms: float | None = _ev("reverse_probe_ns", MS)
    """How often a receive-only host probes a random EV to find working return paths; left out, never."""
    port_mask: bool = _ev("port_mask")
    """SACKs carry the state of their sender's ports, beside Port Status Updates."""
    mpr: int | None = _qp("mpr")
    """Receive window offered, in units of 128 packets; left out, enough for `window_pkts`."""
    dynamic_mpr: bool = _qp("dynamic_mpr")
    """SACKs update the receive window."""
    max_wimm: int = _qp("max_wimm")
    """Most writes with immediate data in flight."""
    transport_ack: bool = _qp("transport_ack")
    """Messages complete by a transport ACK; otherwise when SACKs cover all their packets."""
    sack_delay_us: float = _qp("sack_delay_ns", US)
    """Longest delay before a SACK is sent."""
    nack_out_of_window: bool = _qp("nack_out_of_window")
    """Refuse packets beyond the receive window by a NACK instead of dropping them silently."""
    trimming: bool = False
    """Send data in the classes that switches may trim."""
    ev: EvTreatment = EvTreatment()
    """Entropy values (EVs)."""
    congestion: Congestion = Congestion()
    """Congestion control."""

    def scapy_hosts(self, hosts: int) -> tuple[int, ...]:
        """Return which of this many hosts move packets by Scapy."""
        if self.engine == "ring":
            return ()
        return tuple(range(hosts)) if self.engine_hosts is None else tuple(sorted(set(self.engine_hosts)))

    @property
    def tail_probe_ns(self) -> int | None:
        """Return the interval with its default resolved; None: never."""
        if self.tail_probe_ms is None:
            return self.ack_timeout_ms * MS // TAIL_PROBES_A_TIMEOUT
        return round(self.tail_probe_ms * MS) or None


TAIL_PROBES_A_TIMEOUT = 4
"""Share of the timeout after which a silent path is probed: a lost acknowledgement then costs a probe, not packets
sent twice. Our choice: long enough that an engine waiting for its core is not counted as silence.
"""
