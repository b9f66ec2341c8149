"""EV profile of a queue pair: picked, given or generated values, each of which must name a path to its peer.

MRC API, EV profiles: modes AUTO, EXP and GEN. Hosts below one leaf have one path per plane and use it in every mode.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agent.core.errors import ConfigError
from agent.core.ev.controlled_profile import ProfilePaths
from agent.core.ev.profile_sources import EvProfile, GenField, auto_profile, exp_profile, generated_evs
from agent.host.control.requests import ProfileSettings
from agent.host.errors import RequestError
from agent.host.settings import FabricSettings
from agent.wire.ev import EvCodec
from agent.wire.usid import WireError


@dataclass(frozen=True, slots=True)
class Paths:
    """All paths between hosts of two leaves."""

    fabric: FabricSettings
    src_leaf: int
    is_local: bool
    """Both hosts are below the same leaf."""
    codec: EvCodec

    def profile(self, settings: ProfileSettings, copies: int, rng: np.random.Generator) -> EvProfile:
        """Make the requested profile; AUTO picks from `copies` EVs per path. Raises RequestError or ConfigError."""
        if self.is_local or settings.mode == "AUTO":
            return self._picked(None if self.is_local else settings.count, copies, rng)
        evs = settings.evs if settings.mode == "EXP" else self._generated(settings)
        if not evs:
            raise RequestError(f"an EV profile of mode {settings.mode} without values")
        return exp_profile(evs, [self._plane_of(ev) for ev in evs])

    def controlled(self) -> ProfilePaths:
        """Return the choices of a controller: every path once, and any value that names one. Raises nothing."""
        evs = self._all(1)
        planes = dict(zip(evs.tolist(), self.codec.plane_of(evs).tolist(), strict=True))

        def local_plane_of(ev: int) -> int:
            if ev not in planes:
                raise ConfigError((f"EV {ev:#010x} names no path below one leaf",))
            return int(planes[ev])

        def plane_of(ev: int) -> int:
            return plane_over_spine(ev, self.fabric.planes, self.fabric.spines, self.codec)

        return ProfilePaths(evs, local_plane_of if self.is_local else plane_of)

    def _picked(self, count: int | None, copies: int, rng: np.random.Generator) -> EvProfile:
        values = self._all(copies)
        planes = self.codec.plane_of(values)
        return EvProfile(values, planes) if count is None else auto_profile(values, planes, count, rng)

    def _all(self, copies: int) -> NDArray[np.uint32]:
        """Return EVs of all paths, each `copies` times."""
        if copies < 1:
            raise RequestError(f"copies is {copies}, must be at least 1")
        turns: list[int | None] = [None] if self.is_local else [*range(self.fabric.spines)]
        evs = [
            self.codec.ev_of(plane, spine, self.src_leaf, copy)
            for copy in range(copies)
            for plane in range(self.fabric.planes)
            for spine in turns
        ]
        return np.array(evs, np.uint32)

    def _generated(self, settings: ProfileSettings) -> tuple[int, ...]:
        if settings.count is None:
            raise RequestError("an EV profile of mode GEN needs count")
        fields = [GenField(each.width, each.init_val, each.min, each.max, each.mask) for each in settings.fields]
        return tuple(generated_evs(fields, settings.count).tolist())

    def _plane_of(self, ev: int) -> int:
        """Return the plane of an EV. Raises RequestError unless it names a path of this fabric."""
        try:
            plane = plane_over_spine(ev, self.fabric.planes, self.fabric.spines, self.codec)
        except ConfigError as error:
            raise RequestError(str(error)) from error
        return plane


def plane_over_spine(ev: int, planes: int, spines: int, codec: EvCodec) -> int:
    """Return the plane of an EV that names a path over a spine. Raises ConfigError if it does not."""
    try:
        path = codec.path_of(ev)
    except (WireError, OverflowError) as error:
        raise ConfigError((f"EV {ev:#x}: {error}",)) from error
    if path.spine is None or path.plane >= planes or path.spine >= spines:
        raise ConfigError((f"EV {ev:#010x} names no spine of {planes} planes x {spines} spines",))
    return path.plane
