"""Packet sequence numbers: 24 bits on the wire, unwrapped 64-bit offsets everywhere else.

Offset 0 is a queue pair's starting PSN, so offsets only grow and are compared as plain integers. Serial
arithmetic is modulo 2^24 with the half-space rule, as in RoCE.
"""

import numpy as np
from numpy.typing import NDArray

from agent.wire.constants import PSN_BITS, PSN_MASK

_MASK = np.array(PSN_MASK, np.int64)

HALF_SPACE = 1 << (PSN_BITS - 1)
"""Distance from which a PSN ahead counts as older (half-space rule)."""


def psn_of(offset: int, start_psn: int) -> int:
    """Return the 24-bit PSN of one offset."""
    return (start_psn + offset) & PSN_MASK


def psns_of(offsets: NDArray[np.int64], start_psn: int) -> NDArray[np.uint32]:
    """Return the 24-bit PSNs of (n,) offsets."""
    return (offsets + start_psn & _MASK).astype(np.uint32)


def offsets_of(psns: NDArray[np.uint32], start_psn: int, reference: int) -> NDArray[np.int64]:
    """Return the (n,) offsets with these PSNs that are nearest to `reference`.

    They lie in reference - 2^23 .. reference + 2^23 - 1.
    """
    lowest = reference - HALF_SPACE
    offsets: NDArray[np.int64] = (psns.astype(np.int64) - (start_psn + lowest) & _MASK) + lowest
    return offsets


def offset_of(psn: int, start_psn: int, reference: int) -> int:
    """Return the offset with this PSN that is nearest to `reference`, as `offsets_of` does."""
    lowest = reference - HALF_SPACE
    return (psn - start_psn - lowest & PSN_MASK) + lowest
