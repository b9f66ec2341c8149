"""A scenario's transport in the words of the engine workers: names, units, and nothing left open."""

from typing import Literal

import msgspec

from agent.host import requests as ask
from scenarios.file.transport import MS, US, Congestion, EvProfile, EvTreatment, Transport, port_bps


def qp_settings_of(transport: Transport, seed: int) -> ask.QpSettings:
    """Settings of a queue pair; `seed` is that of its spray schedule. Both ends get the same."""
    return ask.QpSettings(
        pmtu=transport.pmtu,
        window_pkts=transport.window_pkts,
        policy=transport.spray,
        seed=seed,
        copies=transport.copies,
        start_psn=transport.start_psn,
        sack_delay_ns=round(transport.sack_delay_us * US),
        ack_timeout_ns=transport.ack_timeout_ms * MS,
        linear_cnt=transport.retries.linear,
        exp_cnt=transport.retries.doubling,
        mpr=transport.mpr,
        dynamic_mpr=transport.dynamic_mpr,
        max_wimm=transport.max_wimm,
        transport_ack=transport.transport_ack,
        nack_out_of_window=transport.nack_out_of_window,
        loss_rule=transport.loss_rule,
        trimming=transport.trimming,
        profile=_profile_settings(transport.ev.profile),
        ev=_ev_settings(transport.ev, transport),
        nscc=None if transport.congestion.algorithm == "off" else _nscc_settings(transport.congestion),
    )


def paced(settings: ask.QpSettings, rate_bps: int | None) -> ask.QpSettings:
    """The same, kept to a payload rate in full packets."""
    if rate_bps is None:
        return settings
    return msgspec.structs.replace(settings, packet_interval_ns=max(1, round(settings.pmtu * 8e9 / rate_bps)))


_MODES: dict[str, Literal["AUTO", "EXP", "GEN"]] = {"auto": "AUTO", "exp": "EXP", "gen": "GEN"}


def _profile_settings(profile: EvProfile) -> ask.ProfileSettings:
    fields = tuple(ask.GenFieldSettings(f.width, f.init_val, f.min, f.max, f.mask) for f in profile.fields)
    return ask.ProfileSettings(_MODES[profile.mode], profile.count, profile.evs, fields)


def _ev_settings(ev: EvTreatment, transport: Transport) -> ask.EvSettings:
    return ask.EvSettings(
        loss_policy=ev.loss_policy,
        bad_after=ev.bad_after,
        bad_window_ns=round(ev.bad_window_ms * MS),
        active=ev.active,
        min_active=ev.min_active,
        skip_ns=round(ev.skip_ms * MS),
        skip_share=ev.skip_share,
        swap_after=ev.swap_after,
        swap_memory_ns=round(ev.swap_memory_ms * MS),
        plane_silent_after=ev.plane_silent_after,
        leave_lossy_planes=ev.leave_lossy_planes,
        plane_retry_ns=round(ev.plane_retry_ms * MS),
        start_rotations=ev.start_rotations,
        probe_interval_ns=round(ev.probe_interval_ms * MS),
        probe_max_interval_ns=round(ev.probe_max_interval_ms * MS),
        probe_timeout_ns=round(ev.probe_timeout_ms * MS),
        revive_after=ev.revive_after,
        revive_ns=round(ev.revive_ms * MS),
        tail_probe_ns=transport.tail_probe_ns,
        reverse_probe_ns=None if transport.reverse_probe_ms is None else round(transport.reverse_probe_ms * MS),
        port_mask=transport.port_mask,
    )


def _nscc_settings(congestion: Congestion) -> ask.NsccSettings:
    return ask.NsccSettings(
        base_rtt_ns=round(congestion.base_rtt_us * US),
        base_rtt_floor_ns=round(congestion.base_rtt_floor_us * US),
        port_bps=port_bps(congestion),
        target_delay_ns=_nanoseconds(congestion.target_delay_us),
        max_cwnd_bytes=congestion.max_window,
        fi_bytes=congestion.fi_bytes,
        fi_scale=congestion.fi_scale,
        eta_bytes=congestion.eta_bytes,
        gamma=congestion.gamma,
        max_md_jump=congestion.max_md_jump,
        qa_gate=congestion.qa_gate,
        qa_threshold_ns=_nanoseconds(congestion.qa_threshold_us),
        disable_qa=congestion.disable_qa,
        adjust_bytes_threshold_bytes=congestion.adjust_bytes,
        adjust_period_threshold_ns=_nanoseconds(congestion.adjust_period_us),
        shared=congestion.shared,
    )


def _nanoseconds(us: float | None) -> int | None:
    return None if us is None else round(us * US)
