"""Selective acknowledgements as sets: receive ring to bitmaps, bitmaps to arrived and missing packets.

Pure. The 64-bit bitmap is least significant bit first; bit i of a SACK with sack_offset o stands for PSN cack_psn + o +
i; an all-zero bitmap has no meaning; cack_psn + 1 is missing by definition. MRC Table 7-14.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent.wire.constants import SACK_BITMAP_BITS as BITS

EMPTY, NEWS, REPORTED = 0, 1, 2
"""Values of a receive ring: nothing, received, received and shown in a SACK."""


class Bitmaps(NamedTuple):
    """Bitmaps of r blocks of 64 PSNs, (r,) each."""

    starts: NDArray[np.int64]
    """PSNs between the cumulative point + 1 and the block's first; multiples of 64."""
    bits: NDArray[np.uint64]


def bitmaps_of(held: NDArray[np.uint8], walk: int) -> Bitmaps:
    """Build bitmaps that show all news in `held`, (n,) ring slots from the cumulative point + 1 on, n >= 1.

    One more block is shown, number `walk` of the non-empty ones, in turn: a SACK may be lost, and this repeats all
    blocks over time (MRC: successive SACKs slide the base). An empty block would be an all-zero bitmap, which has no
    meaning.
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
    """Unpack (r,) bitmaps to (r, 64) booleans, least significant bit first."""
    flat = np.unpackbits(bitmaps.astype("<u8", copy=False).view(np.uint8), bitorder="little")
    return flat.view(np.bool_).reshape(-1, BITS)


def spread(starts: NDArray[np.int64], bits: NDArray[np.bool_], span: int) -> NDArray[np.bool_]:
    """Unite r rows of 64 bits, row i starting at position `starts[i]`, within positions 0 .. span - 1, (span,)."""
    # A margin of one row on both sides takes what lies outside, so no bit needs a bounds check.
    wide = np.zeros(span + 2 * BITS, np.bool_)
    places = np.minimum(np.maximum(starts, -BITS), span)
    places += BITS
    # One iteration per SACK, not per packet; for the few SACKs of a drain this is faster than indexing bit by bit.
    for place, row in zip(places.tolist(), bits, strict=True):
        wide[place : place + BITS] |= row
    return wide[BITS : BITS + span]
