"""How MRC sends, as a scenario chooses it: every setting of the transport under one name and unit.

Defaults and ranges are those of `agent.core`, where each is argued.
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from agent.core import config as core
from agent.core.congestion import config as nscc_config
from agent.core.ev.config import RANGES as EV_RANGES
from agent.core.ev.config import EvConfig
from faults.quantities import parse_bit_rate, render_bit_rate
from scenarios.file.values import BitRate, Bytes, OffIsAWord, Part

MS = 1_000_000
"""Nanoseconds."""
US = 1_000

_QP, _EV, _NSCC = core.QpConfig(), EvConfig(), nscc_config.NsccConfig()


def _ev(name: str, unit: int = 1) -> Any:
    """A field with default and range of a setting of `EvConfig`, counted in `unit`s of its own."""
    return _field(getattr(_EV, name), EV_RANGES[name], unit)


def _qp(name: str, unit: int = 1) -> Any:
    return _field(getattr(_QP, name), core.RANGES[name], unit)


def _nscc(name: str, unit: int = 1) -> Any:
    return _field(getattr(_NSCC, name), nscc_config.RANGES[name], unit)


def _field(default: Any, allowed: tuple[float, float], unit: int) -> Any:
    low, high = allowed
    if unit == 1:
        return Field(default=default, ge=low, le=high)
    # A thousandth of a unit is as little as anybody writes, and JSON and YAML agree on its digits.
    least = max(low / unit, 0.001) if low else 0
    return Field(default=None if default is None else default / unit, ge=least, le=high / unit)


class Retries(Part):
    """How often silence is answered by sending again before a queue pair fails."""

    linear: int = _qp("linear_cnt")
    """Times that a packet without answer is sent again and waits `ack_timeout_ms` again, as the first time."""
    doubling: int = _qp("exp_cnt")
    """Further times, each with twice the wait of the one before; then the queue pair fails. 25 never gives up and waits
    at most 128 times as long."""


class EvField(Part):
    """One field of generated EVs, from the highest bits down (MRC API, EV mode GEN)."""

    width: int = Field(ge=1, le=32)
    """Bits of the field; those of all fields make 32."""
    init_val: int = Field(ge=0, lt=1 << 32)
    """Its value, before bits are replaced."""
    mask: int = Field(default=0, ge=0, lt=1 << 32)
    """Bits replaced by those of the EV's index."""
    min: int = Field(default=0, ge=0, lt=1 << 32)
    """Least value of the replaced bits, read as a number."""
    max: int = Field(default=0, ge=0, lt=1 << 32)
    """Greatest; values outside are left out."""


class EvProfile(Part):
    """Where a flow's EVs come from; hosts below one leaf take their one path a plane in every mode."""

    mode: Literal["auto", "exp", "gen"] = "auto"
    """`auto`: all paths, or `count` of them; `exp`: those in `evs`; `gen`: the first `count` that `fields` generate.
    Paths without an EV get no packets."""
    count: int | None = Field(default=None, ge=1, le=1 << 16)
    """`auto`: so many, picked at random, equally many of each plane, anew for each flow; left out, all. `gen`: so
    many."""
    evs: tuple[Annotated[int, Field(ge=0, lt=1 << 32)], ...] = ()
    """Of `exp`, such as `0xc0001105`, over spine 5 of plane 1."""
    fields: tuple[EvField, ...] = ()
    """Of `gen`, from the highest bits down. Over the 8 spines of plane 0: `[{width: 16, init_val: 0xc000}, {width: 16,
    init_val: 0x1000, mask: 0x7, max: 7}]`, `count: 8`."""

    @property
    def is_all(self) -> bool:
        """Every path has its EVs."""
        return self.mode == "auto" and self.count is None


class EvTreatment(Part):
    """Which entropy values (EVs) there are, and what becomes of those that lose packets, are marked, or answer."""

    profile: EvProfile = EvProfile()
    """Where they come from."""
    loss_policy: Annotated[Literal["off", "paper", "threshold"], OffIsAWord] = "off"
    """`off`: every EV is used whatever happens (oblivious spraying, as SprayCheck needs it); `paper`: one loss retires
    it; `threshold`: `bad_after` losses within `bad_window_ms`. A retired EV is replaced by a spare of its plane and
    probed until it may come back."""
    bad_after: int = _ev("bad_after")
    """Losses that retire an EV under `threshold`."""
    bad_window_ms: float = _ev("bad_window_ns", MS)
    """Within which those losses must fall."""
    active: int | None = _ev("active")
    """EVs sprayed over, equally many of each plane; the others are spares. Left out: all."""
    min_active: int | None = _ev("min_active")
    """Losses never leave fewer in use, nor less than one a plane; left out, a quarter of the active ones."""
    skip_ms: float = _ev("skip_ns", MS)
    """A marked EV is passed over once, or for so long."""
    skip_share: float = _ev("skip_share")
    """When a greater share of the active EVs is marked, none is passed over."""
    swap_after: int = _ev("swap_after")
    """So many marks in a row swap an EV for a spare of its plane; 0 never."""
    swap_memory_ms: float = _ev("swap_memory_ns", MS)
    """Marks further apart are not in a row."""
    plane_silent_after: int = _ev("plane_silent_after")
    """So many losses in a plane in which nothing arrives meanwhile retire all its EVs."""
    leave_lossy_planes: bool = _EV.leave_lossy_planes
    """A plane that loses far more than the others on all its paths, as over a host link that drops, is used no more for
    `plane_retry_ms`. Without it such a plane is only reported (`PLANE_LOSSY`): retiring paths does not help there."""
    plane_retry_ms: float = _ev("plane_retry_ns", MS)
    """After so long a plane that was left is tried again."""
    start_rotations: int = _ev("start_rotations")
    """Packets an active EV that must be acknowledged before more are sent, unless `loss_policy` is `off`."""
    probe_interval_ms: float = _ev("probe_interval_ns", MS)
    """Between two probes of a retired EV."""
    probe_max_interval_ms: float = _ev("probe_max_interval_ns", MS)
    """Unanswered probes double the interval up to this."""
    probe_timeout_ms: float = _ev("probe_timeout_ns", MS)
    """A probe without an answer for this long has failed."""
    revive_after: int = _ev("revive_after")
    """Answers in a row that bring an EV back."""
    revive_ms: float = _ev("revive_ns", MS)
    """Those answers must span this long."""


class Congestion(Part):
    """How much may be in flight beyond what windows of packets say."""

    algorithm: Annotated[Literal["off", "nscc"], OffIsAWord] = "off"
    """`off`: only packet windows limit; `nscc`: a window steered by queueing delay and marks."""
    base_rtt_us: float = _nscc("base_rtt_ns", US)
    """Round trip of the empty fabric."""
    base_rtt_floor_us: float = _nscc("base_rtt_floor_ns", US)
    """Measured round trips lower it no further."""
    link_rate: BitRate = render_bit_rate(_NSCC.port_bps)
    """Rate of one port; the sum over planes and `base_rtt_us` give the largest window. Say what the links are shaped
    to."""
    target_delay_us: float | None = _nscc("target_delay_ns", US)
    """Queueing delay aimed at; left out, one `base_rtt_us` (0.75 with `trimming`)."""
    max_window: Bytes | None = None
    """Largest window, headers included; left out, 1.5 times rate and round trip."""
    fi_bytes: float | None = _nscc("fi_bytes")
    """Fair increase a round trip, at and above the target; left out, 5 full packets, scaled to the fabric's BDP."""
    fi_scale: float | None = _nscc("fi_scale")
    """Fast increase, a share of what is received while there is no queue; left out, 0.25, scaled likewise."""
    eta_bytes: float | None = _nscc("eta_bytes")
    """Increase every adjust period, whatever the signals; left out, 0.15 of a full packet, scaled likewise."""
    gamma: float = _nscc("gamma")
    """Strength of the decrease."""
    max_md_jump: float = _nscc("max_md_jump")
    """Least factor of one decrease."""
    qa_gate: int = _nscc("qa_gate")
    """Quick adapt acts if less than the largest window, halved so often, was achieved in a period."""
    qa_threshold_us: float | None = _nscc("qa_threshold_ns", US)
    """Queueing delay at which quick adapt acts without a trim; left out, 4 times the target."""
    disable_qa: bool = _NSCC.disable_qa
    """No quick adapt."""
    adjust_bytes: Bytes | None = None
    """Collected increases take effect after so much is received; left out, 8 full packets."""
    adjust_period_us: float | None = _nscc("adjust_period_threshold_ns", US)
    """Or after so long; left out, one `base_rtt_us`."""
    shared: bool = False
    """One window for all flows from a host to another; else one each."""


class Transport(Part):
    """How MRC sends."""

    engine: Literal["ring", "scapy"] = "ring"
    """How hosts move packets: `ring`, packet rings and numpy, fast; `scapy`, each packet built and read by Scapy, slow
    and readable ([scapy.md](scapy.md))."""
    engine_hosts: tuple[Annotated[int, Field(ge=0)], ...] | None = Field(default=None, min_length=1)
    """Hosts that `engine: scapy` is for, the others having rings; left out, all."""
    pmtu: Literal[256, 512, 1024, 2048, 4096] = 256
    """Payload bytes of a full packet."""
    window_pkts: int = Field(default=256, ge=1, le=16384)
    """Packets a queue pair may have outstanding. All windows together wait in this machine's rings, for about 6 µs a
    packet, so a large window makes long round trips rather than speed."""
    ack_timeout_ms: int = Field(default=500, ge=1, le=34_000)
    """Silence after which a packet is sent again without evidence that it was lost. MRC's default is 67 ms; here an
    engine may have to wait for its core, and what waits in a ring is not lost."""
    retries: Retries = Retries()
    """How often silence is answered by sending again before a queue pair fails."""
    spray: Literal["rotation", "random"] = "rotation"
    """How entropy values are drawn: each once a turn in pseudo-random order, or independently."""
    copies: int = Field(default=1, ge=1, le=16)
    """Entropy values per path."""
    start_psn: int | None = Field(default=None, ge=0, lt=1 << 24)
    """First packet sequence number of every queue pair; left out, drawn by chance."""
    loss_rule: Literal["same-ev", "generic", "both"] = "same-ev"
    """What proves a loss: a later arrival on the same EV (paths keep order), several later arrivals and some time
    (paths that reorder), or either."""
    tail_probe_ms: float | None = Field(default=None, ge=0, le=60_000)
    """A path silent for so long is asked by a probe; left out, a quarter of `ack_timeout_ms`, 0 never."""
    reverse_probe_ms: float | None = _ev("reverse_probe_ns", MS)
    """Who only receives probes one random EV this often, to know ways back that work; left out, never."""
    port_mask: bool = False
    """SACKs tell which ports of their sender are up, besides Port Status Updates."""
    mpr: int | None = Field(default=None, ge=1, le=255)
    """Receive window offered, in units of 128 packets; left out, what `window_pkts` needs."""
    dynamic_mpr: bool = _QP.dynamic_mpr
    """SACKs advertise the receive window anew."""
    max_wimm: int = _qp("max_wimm")
    """Writes with immediate data that may be in flight."""
    transport_ack: bool = _QP.transport_ack
    """Messages complete by a transport ACK; else when SACKs have told of all their packets."""
    sack_delay_us: float = _qp("sack_delay_ns", US)
    """News of arrivals is never kept longer."""
    nack_out_of_window: bool = _QP.nack_out_of_window
    """Packets beyond the receive window are refused by a NACK rather than dropped in silence."""
    trimming: bool = False
    """Data goes out in the classes that switches may trim."""
    ev: EvTreatment = EvTreatment()
    """What becomes of entropy values that lose packets."""
    congestion: Congestion = Congestion()
    """Congestion control."""

    def scapy_hosts(self, hosts: int) -> tuple[int, ...]:
        """Which of so many hosts move packets by Scapy."""
        if self.engine == "ring":
            return ()
        return tuple(range(hosts)) if self.engine_hosts is None else tuple(sorted(set(self.engine_hosts)))

    @property
    def tail_probe_ns(self) -> int | None:
        """With its default resolved; None: never."""
        if self.tail_probe_ms is None:
            return self.ack_timeout_ms * MS // TAIL_PROBES_A_TIMEOUT
        return round(self.tail_probe_ms * MS) or None


TAIL_PROBES_A_TIMEOUT = 4
"""A silent path is probed after this part of the timeout: a lost acknowledgement then costs a probe, and not packets
sent twice. Our choice: long enough that an engine waiting for its core is no silence."""


def port_bps(congestion: Congestion) -> int:
    """`link_rate` in bit/s."""
    return parse_bit_rate(congestion.link_rate)
