"""Checks that an EV profile has exactly what its mode needs, and names paths of the fabric. Pure."""

from collections.abc import Iterator
from typing import NamedTuple

from agent.core.errors import ConfigError
from agent.core.ev.profile import GenField, generated_evs
from agent.host.queue_pairs.profiles import plane_over_spine
from agent.wire.ev import EvCodec
from scenarios.file.transport import EvProfile

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
