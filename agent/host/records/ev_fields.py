"""Entropy values in records: in hex, with the plane and spine that each of them names."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np

from agent.wire.ev import EvCodec

_CODEC = EvCodec()
_KEPT = 1 << 16
"""Values whose paths are cached: records name the same ones again and again. Our choice, above what a worker uses."""


def ev_text(ev: int) -> str:
    """Format a value as `0xc0001005`."""
    return f"{ev:#010x}"


def paths_of(evs: Iterable[int]) -> dict[str, list[Any]]:
    """Return `planes` and `spines` in the order of `evs`; spine None where a path turns at a leaf."""
    paths = [_path(ev) for ev in evs]
    return {"planes": [plane for plane, _ in paths], "spines": [spine for _, spine in paths]}


def path_of(ev: int, prefix: str) -> dict[str, Any]:
    """Return plane and spine of one value, their names after `prefix`."""
    plane, spine = _path(ev)
    return {f"{prefix}_plane": plane, f"{prefix}_spine": spine}


@lru_cache(_KEPT)
def _path(ev: int) -> tuple[int, int | None]:
    words = np.array([ev], np.uint32)
    spine = int(_CODEC.spine_of(words)[0])
    return int(_CODEC.plane_of(words)[0]), spine if spine >= 0 else None
