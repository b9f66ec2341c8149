"""Converts a scenario's transport to a request to the engine workers, with every setting resolved."""

from typing import Literal

from agent.core.config import QpConfig
from agent.core.congestion.config import NsccConfig
from agent.core.ev.config import EvConfig
from agent.host.control import requests as ask
from scenarios.file.transport import EvProfile, Transport, set_by


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


_MODES: dict[str, Literal["AUTO", "EXP", "GEN"]] = {"auto": "AUTO", "exp": "EXP", "gen": "GEN"}


def _profile_settings(profile: EvProfile) -> ask.ProfileSettings:
    fields = tuple(ask.GenFieldSettings(f.width, f.init_val, f.min, f.max, f.mask) for f in profile.fields)
    return ask.ProfileSettings(_MODES[profile.mode], profile.count, profile.evs, fields)
