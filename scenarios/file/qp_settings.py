"""Resolves a scenario's transport to the settings of its queue pairs, with windows that fit the rings of ports."""

from fractions import Fraction
from typing import Literal

from agent.core.config import EvConfig, QpConfig
from agent.core.congestion.config import NsccConfig
from agent.host.control import requests as ask
from agent.host.settings import RX_SLOTS
from scenarios.file.transport import EvProfile, Transport, set_by
from testbed.model.fabric import Fabric

RING_SHARE = Fraction(3, 4)
"""Share of a port's ring that data may fill; acknowledgements and probes need room, too (our choice)."""

SCAPY_PACKET_MS = 1
"""Approximate time per packet of a host that builds and reads it by Scapy: measured, see docs/scapy.md."""

_MODES: dict[str, Literal["AUTO", "EXP", "GEN"]] = {"auto": "AUTO", "exp": "EXP", "gen": "GEN"}


def qp_settings_of(transport: Transport, seed: int) -> ask.QpSettings:
    """Return settings of a queue pair; `seed` is that of its spray schedule. Both ends get the same."""
    ev = EvConfig(**set_by(EvConfig, transport, transport.ev), tail_probe_ns=transport.tail_probe_ns)
    nscc = NsccConfig(**set_by(NsccConfig, transport.congestion))
    return ask.QpSettings(
        core=QpConfig(**set_by(QpConfig, transport, transport.retries), seed=seed, ev=ev),
        copies=transport.copies,
        trimming=transport.trimming,
        profile=_profile_settings(transport.ev.profile),
        nscc=None if transport.congestion.algorithm == "off" else nscc,
        shared_window=transport.congestion.shared,
    )


def paced(settings: ask.QpSettings, rate_bps: int | None) -> ask.QpSettings:
    """Return the same settings with a payload rate limit, in full packets."""
    if rate_bps is None:
        return settings
    return settings.with_core(packet_interval_ns=max(1, round(settings.core.pmtu * 8e9 / rate_bps)))


def fitting_settings(
    transport: Transport, seed: int, queue_pairs: int, fabric: Fabric, at_scapy: int = 0
) -> ask.QpSettings:
    """Return settings for queue pairs of which this many lead to one host, and `at_scapy` begin or end at a host that
    uses Scapy.
    """
    window = fitting_window(transport.window_pkts, queue_pairs, fabric.spec.planes)
    if at_scapy:
        window = window_for_scapy(window, at_scapy, transport.ack_timeout_ms)
    return qp_settings_of(transport, seed).with_core(window_pkts=window)


def fitting_window(window_pkts: int, queue_pairs: int, planes: int) -> int:
    """Return the requested window, or the largest that fits for `queue_pairs` towards one host without one plane.

    In a fabric without propagation delay nearly all packets in flight wait in the rings of that host's ports.
    """
    most = int(RX_SLOTS * RING_SHARE) * max(1, planes - 1) // queue_pairs
    return max(1, min(window_pkts, most))


def window_for_scapy(window_pkts: int, queue_pairs: int, ack_timeout_ms: int) -> int:
    """Return the window, or what a host can handle by Scapy in half of the timeout with this many queue pairs."""
    return max(1, min(window_pkts, ack_timeout_ms // (2 * SCAPY_PACKET_MS) // max(1, queue_pairs)))


def _profile_settings(profile: EvProfile) -> ask.ProfileSettings:
    fields = tuple(ask.GenFieldSettings(f.width, f.init_val, f.min, f.max, f.mask) for f in profile.fields)
    return ask.ProfileSettings(_MODES[profile.mode], profile.count, profile.evs, fields)
