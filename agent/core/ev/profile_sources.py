"""Sources of a profile's entropy values: picked (AUTO), given (EXP) or generated from fields (GEN).

Pure: candidates and fields in, arrays out; the caller knows which path a value names. MRC API, EV profiles.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agent.core.errors import ConfigError

_MAX_INDEX_BITS = 20


@dataclass(frozen=True, slots=True, eq=False)
class EvProfile:
    """Entropy values that a queue pair sprays over; a row number is the `ev_index` of batches."""

    evs: NDArray[np.uint32]
    """(e,) 32-bit values as carried in UDP source port and flow label."""

    planes: NDArray[np.uint8]
    """(e,) plane of each value, which also selects the port."""

    def __post_init__(self) -> None:
        """Raise ConfigError unless both columns have the same, sensible length."""
        if self.evs.ndim != 1 or self.evs.shape != self.planes.shape or not 1 <= len(self.evs) <= 1 << 16:
            raise ConfigError((f"EV profile of shapes {self.evs.shape}, {self.planes.shape}: need 1..65536 of each",))


@dataclass(frozen=True, slots=True)
class GenField:
    """One field of a generated EV: `init_val`, with the bits of `mask` replaced by bits of the EV's index."""

    width: int
    """Width of the field in bits."""
    init_val: int
    min: int = 0
    """Least value of the replaced bits, read as a number; values below `min` or above `max` are left out."""
    max: int = 0
    mask: int = 0
    """Bits to replace; zero: a fixed field."""


def auto_profile(evs: NDArray[np.uint32], planes: NDArray[np.uint8], count: int, rng: np.random.Generator) -> EvProfile:
    """Choose `count` of the candidates (e,) at random, equally many per plane, in random order.

    A plane with fewer candidates than its share repeats them: duplicates are legal. Raises ConfigError if the planes
    cannot share `count` equally.
    """
    numbers = np.unique(planes)
    share, rest = divmod(count, len(numbers))
    if rest or not share:
        raise ConfigError((f"{count} EVs cannot be split equally over {len(numbers)} planes",))
    chosen = [_drawn(np.flatnonzero(planes == plane), share, rng) for plane in numbers]
    rows = np.stack(chosen, axis=1).reshape(-1)
    return EvProfile(evs[rows], planes[rows])


def exp_profile(evs: Sequence[int], planes: Sequence[int]) -> EvProfile:
    """Make a profile of exactly the values that a controller supplies. Raises ConfigError if they do not fit."""
    problems = [f"EV {ev:#x} does not fit 32 bits" for ev in evs if not 0 <= ev < 1 << 32]
    problems += [f"plane {plane} is not 0..255" for plane in planes if not 0 <= plane <= 255]
    if problems:
        raise ConfigError(tuple(problems))
    return EvProfile(np.array(evs, np.uint32), np.array(planes, np.uint8))


def generated_evs(fields: Sequence[GenField], count: int, bits: int = 32) -> NDArray[np.uint32]:
    """Generate the first `count` values of the fields, by rising index, (count,) uint32.

    The index is as wide as all masks together; each mask bit, most significant first, takes the index's next bit, most
    significant first; fields are joined in order, the first highest. Raises ConfigError for impossible fields or when
    there are fewer values.
    """
    problems = tuple(_problems_of(fields, bits))
    if problems:
        raise ConfigError(problems)
    index_bits = sum(field.mask.bit_count() for field in fields)
    index = np.arange(1 << index_bits, dtype=np.uint64)
    values = np.zeros(len(index), np.uint64)
    valid = np.ones(len(index), np.bool_)
    left = index_bits
    for field in fields:
        left -= field.mask.bit_count()
        drawn = (index >> np.uint64(left)) & np.uint64((1 << field.mask.bit_count()) - 1)
        if field.mask:
            valid &= (drawn >= field.min) & (drawn <= field.max)
        values = (values << np.uint64(field.width)) | _placed(field, drawn)
    found = values[valid]
    if len(found) < count:
        raise ConfigError((f"the fields generate {len(found)} EVs, {count} are requested",))
    return found[:count].astype(np.uint32)


def active_rows(planes: NDArray[np.uint8], count: int | None, rng: np.random.Generator) -> NDArray[np.int64]:
    """Choose (a,) rows of (e,) `planes` that start active, equally many per plane, in profile order; None: all."""
    if count is None or count >= len(planes):
        return np.arange(len(planes))
    numbers = np.unique(planes)
    share = max(1, count // len(numbers))
    chosen = [rng.permutation(np.flatnonzero(planes == plane))[:share] for plane in numbers]
    return np.sort(np.concatenate(chosen))


def _drawn(rows: NDArray[np.intp], count: int, rng: np.random.Generator) -> NDArray[np.intp]:
    rounds = [rng.permutation(rows) for _ in range(-(-count // len(rows)))]
    return np.concatenate(rounds)[:count]


def _placed(field: GenField, drawn: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Put the drawn bits into the field's value where the mask has ones."""
    value = np.full(len(drawn), field.init_val & ~field.mask, np.uint64)
    # One iteration per bit of the mask.
    source = 0
    for place in range(field.width):
        if field.mask >> place & 1:
            value |= ((drawn >> np.uint64(source)) & np.uint64(1)) << np.uint64(place)
            source += 1
    return value


def _problems_of(fields: Sequence[GenField], bits: int) -> list[str]:
    found = []
    if (total := sum(field.width for field in fields)) > bits:
        found.append(f"the fields take {total} bits, the format has {bits}")
    if (index_bits := sum(field.mask.bit_count() for field in fields)) > _MAX_INDEX_BITS:
        found.append(f"the masks have {index_bits} bits, at most {_MAX_INDEX_BITS} are supported")
    for number, field in enumerate(fields):
        if field.width < 1 or field.init_val >> field.width or field.mask >> field.width:
            found.append(f"field {number}: init_val or mask does not fit {field.width} bits")
        if not 0 <= field.min <= field.max < 1 << field.mask.bit_count():
            found.append(f"field {number}: {field.min}..{field.max} does not fit its mask {field.mask:#x}")
    return found
