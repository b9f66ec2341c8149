"""Entropy values as records have them: in hex, and beside it the plane and spine that each of them names."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from agent.wire.ev import EvCodec

_CODEC = EvCodec()


def ev_text(ev: int) -> str:
    """`0xc0001005`."""
    return f"{ev:#010x}"


def paths_of(evs: Sequence[int]) -> dict[str, list[Any]]:
    """`planes` and `spines` in the order of `evs`; no spine (None) where a path turns at a leaf."""
    words = np.array(evs, np.uint32)
    spines = [None if spine < 0 else spine for spine in _CODEC.spine_of(words).tolist()]
    return {"planes": _CODEC.plane_of(words).tolist(), "spines": spines}


def path_of(ev: int, prefix: str) -> dict[str, Any]:
    """The same of one value: its plane and spine, their names after `prefix`."""
    paths = paths_of((ev,))
    return {f"{prefix}_plane": paths["planes"][0], f"{prefix}_spine": paths["spines"][0]}
