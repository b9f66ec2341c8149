"""Settings of NSCC by the names of the API's `nscc_cfg`, and the values derived from them.

Emulated round trips are milliseconds where the reference network has 12 us. Values that UET gives relative to that
network are applied relative to ours (our choice), so that a network K times slower behaves the same, K times slower.
"""

from dataclasses import dataclass
from typing import Annotated

from agent.core.config import Range, Settings

_REFERENCE_BDP_MTUS = 36.6
"""150000 bytes at an MTU of 4096 (our choice)."""


class NsccConfig(Settings, frozen=True):
    """Settings of one controller. None takes the default of UEC 1.0.3 as given, scaled to our network."""

    base_rtt_ns: Annotated[int, Range(1_000, 10**10)] = 1_000_000
    """Round trip of one full packet over the longest path of the empty network. Our choice: an emulated one."""

    base_rtt_floor_ns: Annotated[int, Range(0, 10**10)] = 250_000
    """Measured round trips lower the base no further than this. Our choice: a host that idles answers many times sooner
    than a busy one, and its round trip would give too small a window. 0 is UET's rule."""

    port_bps: Annotated[int, Range(1_000, 10**13)] = 10_000_000_000
    """Rate of one port, bit/s. Our choice: more than a kernel fabric forwards; set it where links are shaped."""

    trimming: bool = False
    """Switches trim packets; sets the default target."""

    target_delay_ns: Annotated[int, Range(1, 10**10)] | None = None
    """Target queueing delay: 0.75 base RTT with trimming, 1 without."""

    max_cwnd_bytes: Annotated[int, Range(1, 2**40)] | None = None
    """Largest window, also the first one: 1.5 BDP, which follows base RTT and ports."""

    fi_bytes: Annotated[float, Range(0, 2**40)] | None = None
    """Fair increase per round trip: 5 MTU * scaling_a."""

    fi_scale: Annotated[float, Range(0, 1000)] | None = None
    """Fast increase, as a share of the bytes received: 0.25 * scaling_a."""

    eta_bytes: Annotated[float, Range(0, 2**40)] | None = None
    """Increase per adjust period, whatever the signals: 0.15 MTU * scaling_a."""

    gamma: Annotated[float, Range(0, 1)] = 0.8
    """Strength of the multiplicative decrease."""

    max_md_jump: Annotated[float, Range(0, 1)] = 0.5
    """Least factor of one decrease."""

    qa_gate: Annotated[int, Range(0, 31)] = 3
    """Quick adapt fires if less than max_cwnd >> qa_gate was achieved in a period."""

    qa_threshold_ns: Annotated[int, Range(1, 10**11)] | None = None
    """Delay that fires quick adapt without loss: 4 times the target."""

    disable_qa: bool = False
    """Turns quick adapt off."""

    adjust_bytes_threshold_bytes: Annotated[int, Range(1, 2**40)] | None = None
    """Bytes received after which collected increases take effect: 8 MTU."""

    adjust_period_threshold_ns: Annotated[int, Range(1, 10**10)] | None = None
    """Time after which they take effect in any case: 1 base RTT."""


@dataclass(frozen=True, slots=True)
class NsccNumbers:
    """NsccConfig with every default resolved, for a number of ports and one packet size (MRC API, `nscc_cfg`)."""

    target_delay_ns: float
    alpha: float
    """Proportional increase: bytes squared per byte received and nanosecond below the target."""
    fi_bytes: float
    fi_scale: float
    eta_bytes: float
    qa_threshold_ns: float
    adjust_bytes: int
    adjust_period_ns: int

    @classmethod
    def of(cls, config: NsccConfig, mtu_bytes: int, ports_up: int) -> "NsccNumbers":
        """Resolve the defaults of `config`; `mtu_bytes` is the nominal size of a full packet."""
        target_ns = given(config.target_delay_ns, config.base_rtt_ns * (0.75 if config.trimming else 1.0))
        scaling_a = bdp_bytes(config, config.base_rtt_ns, ports_up) / (_REFERENCE_BDP_MTUS * mtu_bytes)
        # 12 us of the reference network correspond to our base RTT.
        scaling_b = target_ns / config.base_rtt_ns
        return cls(
            target_delay_ns=target_ns,
            alpha=4 * scaling_a * scaling_b * mtu_bytes / target_ns,
            fi_bytes=given(config.fi_bytes, 5 * mtu_bytes * scaling_a),
            fi_scale=given(config.fi_scale, 0.25 * scaling_a),
            eta_bytes=given(config.eta_bytes, 0.15 * mtu_bytes * scaling_a),
            qa_threshold_ns=given(config.qa_threshold_ns, 4 * target_ns),
            adjust_bytes=int(given(config.adjust_bytes_threshold_bytes, 8 * mtu_bytes)),
            adjust_period_ns=int(given(config.adjust_period_threshold_ns, config.base_rtt_ns)),
        )


def bdp_bytes(config: NsccConfig, base_rtt_ns: int, ports_up: int) -> float:
    """Return the bytes that all ports together send in a base RTT (our choice)."""
    return config.port_bps * ports_up * base_rtt_ns / 8e9


def given(setting: float | None, default: float) -> float:
    """Return the setting, or the default if it is None."""
    return default if setting is None else setting
