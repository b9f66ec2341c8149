"""Selective acknowledgements as sets: a receive ring to bitmaps, bitmaps to what arrived and what did not.

Pure. The 64-bit bitmap is least significant bit first; bit i of a SACK with sack_offset o speaks of PSN
cack_psn + o + i; an all-zero bitmap says nothing; cack_psn + 1 is missing by definition. MRC Table 7-14.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent.wire.constants import SACK_BITMAP_BITS as BITS

EMPTY, NEWS, REPORTED = 0, 1, 2
"""Slots of a receive ring: nothing, received, received and shown in a SACK."""


class Bitmaps(NamedTuple):
    """Bitmaps of r blocks of 64 PSNs, (r,) each."""

    starts: NDArray[np.int64]
    """PSNs between the cumulative point + 1 and the block's first; multiples of 64."""
    bits: NDArray[np.uint64]


def bitmaps_of(held: NDArray[np.uint8], walk: int) -> Bitmaps:
    """Bitmaps that show all news in `held`, (n,) ring slots from the cumulative point + 1 on, n >= 1.

    One block more is shown, number `walk` of those that hold anything, in turn: a SACK may be lost, and walking repeats
    all of them (MRC: successive SACKs slide the base). An empty block would be a bitmap of zeros, which says nothing.
    """
    blocks = -(-len(held) // BITS)
    grid = np.zeros((blocks, BITS), np.uint8)
    grid.reshape(-1)[: len(held)] = held
    shown = (grid == NEWS).any(axis=1)
    holding = (grid != EMPTY).any(axis=1).nonzero()[0]
    shown[holding[walk % len(holding)]] = True
    chosen = shown.nonzero()[0]
    packed = np.packbits(grid[chosen] != EMPTY, axis=1, bitorder="little")
    return Bitmaps(chosen * BITS, packed.view("<u8")[:, 0].astype(np.uint64, copy=False))


def bits_of(bitmaps: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """(r,) bitmaps as (r, 64) booleans, least significant bit first."""
    flat = np.unpackbits(bitmaps.astype("<u8", copy=False).view(np.uint8), bitorder="little")
    return flat.view(np.bool_).reshape(-1, BITS)


def spread(starts: NDArray[np.int64], bits: NDArray[np.bool_], span: int) -> NDArray[np.bool_]:
    """The union of r rows of 64 bits, row i from position `starts[i]` on, within positions 0 .. span - 1, (span,)."""
    # A margin of one row on both sides takes what lies outside, so no bit needs a bounds check.
    wide = np.zeros(span + 2 * BITS, np.bool_)
    places = np.minimum(np.maximum(starts, -BITS), span)
    places += BITS
    # One turn a SACK, not a packet; for the few of a drain this beats indexing bit by bit.
    for place, row in zip(places.tolist(), bits, strict=True):
        wide[place : place + BITS] |= row
    return wide[BITS : BITS + span]
