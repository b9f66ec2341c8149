"""Checks whether the settings of a transport, its EV profile included, fit one another and a fabric. Pure.

Also warns of settings with surprising effects.
"""

from collections.abc import Iterator
from typing import NamedTuple

from agent.core.config import EvConfig, ranges_of
from agent.core.congestion.interface import NOMINAL_HEADER_BYTES
from agent.core.errors import ConfigError
from agent.core.ev.profile_sources import GenField, generated_evs
from agent.host.queue_pairs.ev_profiles import plane_over_spine
from agent.wire.constants import MPR_UNIT_PSNS
from agent.wire.ev import EvCodec
from results.text import count_text
from scenarios.file.transport import MS, Congestion, EvProfile, EvTreatment, Transport
from testbed.model.node_names import those_there_are

_NEEDS = {"auto": (), "exp": ("evs",), "gen": ("count", "fields")}
_MAY = {"auto": ("count",), "exp": ("evs",), "gen": ("count", "fields")}
_WHERE = ("ev", "profile")


class Misfit(NamedTuple):
    """Two settings, or a setting and the fabric, that do not fit together."""

    key: tuple[str, ...]
    """Key below `transport`."""
    wrong: str
    right: str


def profile_misfits(profile: EvProfile, planes: int, spines: int) -> Iterator[Misfit]:
    """List what is wrong with a profile on a fabric with this many planes and spines per plane."""
    given = [name for name in ("count", "evs", "fields") if getattr(profile, name)]
    missing = [name for name in _NEEDS[profile.mode] if name not in given]
    for name in missing:
        yield Misfit((*_WHERE, "mode"), f"{profile.mode} needs `{name}`", f"give `{name}`, or another mode")
    for name in given:
        if name not in _MAY[profile.mode]:
            yield Misfit((*_WHERE, name), f"means nothing with mode {profile.mode}", "leave it out, or another mode")
    if profile.mode == "auto" and profile.count and profile.count % planes:
        wrong = f"{profile.count} EVs cannot be shared equally by {planes} planes"
        yield Misfit((*_WHERE, "count"), wrong, f"a multiple of {planes}")
    if not missing:
        yield from _value_misfits(profile, planes, spines)


def _value_misfits(profile: EvProfile, planes: int, spines: int) -> Iterator[Misfit]:
    """Find values that name no path; report them in one error."""
    key = {"exp": "evs", "gen": "fields"}.get(profile.mode)
    if key is None:
        return
    try:
        for ev in profile.evs if profile.mode == "exp" else _generated(profile):
            plane_over_spine(ev, planes, spines, EvCodec())
    except ConfigError as error:
        right = "0xc000, then 0x1PII: plane P, spine II in hexadecimal, as 0xc0001105"
        yield Misfit((*_WHERE, key), str(error), right)


def _generated(profile: EvProfile) -> list[int]:
    fields = [GenField(each.width, each.init_val, each.min, each.max, each.mask) for each in profile.fields]
    return [int(ev) for ev in generated_evs(fields, profile.count or 0)]


def misfits(transport: Transport) -> Iterator[Misfit]:
    """List settings that contradict one another."""
    ev, packet_bytes = transport.ev, transport.pmtu + NOMINAL_HEADER_BYTES
    if ev.probe_max_interval_ms < ev.probe_interval_ms:
        wrong = f"{ev.probe_max_interval_ms:g} is less than probe_interval_ms, {ev.probe_interval_ms:g}"
        yield Misfit(("ev", "probe_max_interval_ms"), wrong, f"at least {ev.probe_interval_ms:g}")
    if transport.engine == "ring" and transport.engine_hosts is not None:
        yield Misfit(("engine_hosts",), "names hosts for an engine other than ring", "engine: scapy beside it")
    if transport.tail_probe_ms is not None and transport.tail_probe_ms >= transport.ack_timeout_ms:
        wrong = f"{transport.tail_probe_ms:g} is not before the timeout, {transport.ack_timeout_ms}"
        yield Misfit(("tail_probe_ms",), wrong, "less than ack_timeout_ms, or 0 for never")
    least = ranges_of(EvConfig)["tail_probe_ns"].low / MS
    if transport.tail_probe_ms and transport.tail_probe_ms < least:
        wrong = f"{transport.tail_probe_ms:g} is too small"
        yield Misfit(("tail_probe_ms",), wrong, f"at least {least:g}, or 0 for never")
    if transport.mpr is not None and transport.window_pkts > transport.mpr * MPR_UNIT_PSNS:
        most = transport.mpr * MPR_UNIT_PSNS
        wrong = f"{transport.window_pkts} is more than the receive window: mpr {transport.mpr} is {most} packets"
        yield Misfit(("window_pkts",), wrong, f"at most {most}, or a larger mpr")
    most_bytes = transport.congestion.max_window
    if most_bytes is not None and most_bytes < packet_bytes:
        wrong = f"{most_bytes} does not hold one packet of {packet_bytes} bytes with its headers"
        yield Misfit(("congestion", "max_window"), wrong, f"at least {packet_bytes}")


def ev_count(transport: Transport, planes: int, spines: int) -> int:
    """Return the number of EVs of a flow between two leaves."""
    profile = transport.ev.profile
    if profile.mode == "exp":
        return len(profile.evs)
    return profile.count or planes * spines * transport.copies


def misfits_on(transport: Transport, planes: int, spines: int) -> Iterator[Misfit]:
    """List settings that this number of paths cannot satisfy."""
    yield from profile_misfits(transport.ev.profile, planes, spines)
    ev, evs = transport.ev, ev_count(transport, planes, spines)
    if ev.profile.mode != "auto":
        return
    active = evs if ev.active is None else ev.active
    if active % planes:
        wrong = f"{active} EVs cannot be shared equally by {count_text(planes, 'plane')}"
        yield Misfit(("ev", "active"), wrong, f"a multiple of {planes}")
    elif active > evs:
        counts = ((planes, "plane"), (spines, "spine"), (transport.copies, "copy", "copies"))
        made_of = f": {' x '.join(count_text(*each) for each in counts)}" if ev.profile.is_all else ""
        yield Misfit(("ev", "active"), f"there are {evs} EVs{made_of}", f"at most {evs}")
    elif ev.min_active is not None and ev.min_active > active:
        yield Misfit(("ev", "min_active"), f"{ev.min_active} is more than the {active} active EVs", f"at most {active}")


def engine_misfits(transport: Transport, hosts: int) -> Iterator[Misfit]:
    """List hosts that the fabric does not have."""
    for host in transport.engine_hosts or ():
        if host >= hosts:
            wrong = f"h{host} is not one of {count_text(hosts, 'host')}"
            yield Misfit(("engine_hosts",), wrong, those_there_are("host", "h", hosts))


def cautions_of(transport: Transport, planes: int, spines: int) -> Iterator[str]:
    """Warn of surprising effects of these settings, one sentence each."""
    evs = ev_count(transport, planes, spines)
    active = transport.ev.active or evs
    if transport.loss_rule == "same-ev" and transport.window_pkts < 2 * active:
        yield (
            f"transport.window_pkts is {transport.window_pkts}, less than twice the {active} EVs: a loss is proven by "
            "a later packet on the same EV, so many losses will wait for a probe or a timeout"
        )
    if transport.trimming:
        yield "transport.trimming: no switch of this fabric trims; only the class of the packets changes"
    yield from _idle_settings(transport)


def measuring_cautions_of(transport: Transport, planes: int, spines: int) -> Iterator[str]:
    """Explain why the flows' packets will not be spread as SprayCheck expects, one sentence each."""
    if transport.ev.loss_policy != "off":
        yield (
            f"transport.ev.loss_policy is {transport.ev.loss_policy}: when an EV is retired its packets take other "
            "paths, but detector.expectation is uniform: all paths are expected to get equal counts; use `declared`"
        )
    if not transport.ev.profile.is_all:
        yield (
            "transport.ev.profile: paths without an EV get no packets, which detector.expectation uniform takes for a "
            "fault; ask for `declared`"
        )
    evs = ev_count(transport, planes, spines)
    if transport.ev.active is not None and transport.ev.active < evs:
        yield (
            f"transport.ev.active is {transport.ev.active} of {evs}: paths of spares get no packets, which "
            "detector.expectation uniform takes for a fault; ask for `declared`"
        )


def leaving_cautions_of(transport: Transport, planes: int, spines: int) -> Iterator[str]:
    """Explain why paths over a link that drops will get fewer packets than their share, one sentence each."""
    ev, evs = transport.ev, planes * spines * transport.copies
    losses = {"paper": "its first loss", "threshold": f"{ev.bad_after} losses within {ev.bad_window_ms:g} ms"}
    if ev.loss_policy in losses:
        yield (
            f"transport.ev.loss_policy is {ev.loss_policy}: an EV is retired at {losses[ev.loss_policy]}, so a path "
            "that drops is left early, may not get the packets per path shown here, and the link may not be named"
        )
    if ev.active is not None and ev.active < evs:
        yield (
            f"transport.ev.active is {ev.active} of {evs}: spares carry nothing until they take an EV's place, and "
            "packets per path are shown here as if all were in use"
        )


def _idle_settings(transport: Transport) -> Iterator[str]:
    """List changed settings that have no effect."""
    ev, congestion = transport.ev, transport.congestion
    changed = [name for name in _ADAPTIVE if getattr(ev, name) != getattr(EvTreatment(), name)]
    if ev.loss_policy == "off" and changed:
        yield f"transport.ev.{', '.join(changed)}: without effect while transport.ev.loss_policy is off"
    counted = [name for name in ("bad_after", "bad_window_ms") if getattr(ev, name) != getattr(EvTreatment(), name)]
    if ev.loss_policy == "paper" and counted:
        yield f"transport.ev.{', '.join(counted)}: without effect, loss_policy paper retires an EV at its first loss"
    steering = [name for name in Congestion.model_fields if getattr(congestion, name) != getattr(Congestion(), name)]
    if congestion.algorithm == "off" and steering:
        yield f"transport.congestion.{', '.join(steering)}: without effect while transport.congestion.algorithm is off"


_ADAPTIVE = tuple(
    name for name in EvTreatment.model_fields if name not in ("loss_policy", "active", "probe_timeout_ms")
)
"""Return settings about EVs that change their state."""
