"""Numbers that collectives send: computable by every rank, and exact in float32 in any order of addition. Pure."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

_BY_ELEMENT, _BY_RANK, _BY_SEED = (np.uint32(value) for value in (0x9E3779B1, 0x85EBCA6B, 0xC2B2AE35))
"""Odd multipliers, so that no two elements share a sequence. Our choice: large primes that spread well over 32 bits."""

_MANTISSA_BITS = 24


def values(rank: int, seed: int, start: int, count: int, ranks: int) -> Floats:
    """Compute elements start .. start + count - 1 of a rank, (count,), in -1 .. 1.

    They have so few binary digits that float32 holds the sum of `ranks` of them exactly: at most 2^23 ranks.
    """
    bits = _MANTISSA_BITS - max(1, (ranks - 1).bit_length())
    mixed = np.arange(start, start + count, dtype=np.uint64).astype(np.uint32)
    mixed *= _BY_ELEMENT
    mixed += np.uint32((rank + 1) * int(_BY_RANK) + seed * int(_BY_SEED) & 0xFFFFFFFF)
    mixed ^= mixed >> np.uint32(15)
    mixed *= _BY_RANK
    whole = (mixed >> np.uint32(32 - bits)).astype(np.int32) - (1 << bits - 1)
    return whole.astype(np.float32) * np.float32(2.0 ** (1 - bits))


def total(ranks: tuple[int, ...], seed: int, start: int, count: int, job_ranks: int) -> Floats:
    """Compute the exact sum of those elements over some ranks of a job."""
    found = values(ranks[0], seed, start, count, job_ranks)
    for rank in ranks[1:]:
        found += values(rank, seed, start, count, job_ranks)
    return found
