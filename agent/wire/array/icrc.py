"""Invariant CRC (ICRC) of RoCEv2 and MRC (IBTA annex A17; MRC 7.5).

It is the CRC-32 over 8 bytes of 0xFF, inner IPv6, UDP, and everything from the BTH on. Fields that switches may change
count as ones: traffic class, flow label, hop limit, UDP checksum, BTH byte 4.

CRC is affine. So it runs over the bytes of each packet as they are, and a table then corrects the masked ones: the
effect of changing a header byte depends only on the change and on how many bytes follow.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import repeat
from zlib import crc32 as zlib_crc32

import numpy as np
from isal.isal_zlib import crc32
from numpy.typing import NDArray

from agent.wire.array.columns import windows
from agent.wire.constants import ICRC_BYTES, IPV6_BYTES, UDP_BYTES
from agent.wire.dtypes import INNER_OFFSET

_POLYNOMIAL = 0xEDB88320
_PSEUDO_LRH = b"\xff" * 8
_START = zlib_crc32(_PSEUDO_LRH)
RESIDUE = zlib_crc32(zlib_crc32(b"").to_bytes(4, "little"))
"""CRC of any message followed by its own CRC."""

_CHKSUM = IPV6_BYTES + 6
_BTH_BYTE_4 = IPV6_BYTES + UDP_BYTES + 4
_MASKS = (
    (0, 0x0F),
    (1, 0xFF),
    (2, 0xFF),
    (3, 0xFF),
    (7, 0xFF),
    (_CHKSUM, 0xFF),
    (_CHKSUM + 1, 0xFF),
    (_BTH_BYTE_4, 0xFF),
)
"""Offset from the inner IPv6 header, and the bits that count as ones."""
HEADER_BYTES = _BTH_BYTE_4 + 1
"""Number of bytes from the inner IPv6 header that contain all masked bytes."""
_MASK = sum(ones << 8 * (HEADER_BYTES - 1 - offset) for offset, ones in _MASKS)
"""All masks in the headers as one number."""
_WHOLE_BYTES = (slice(1, 4), slice(7, 8), slice(_CHKSUM, _CHKSUM + 2), slice(_BTH_BYTE_4, HEADER_BYTES))
"""Bytes that are masked completely."""
_OFFSETS = np.array([offset for offset, _ in _MASKS])
_TABLE_STARTS = np.arange(len(_MASKS))[:, np.newaxis] * 256
_PLACES = np.arange(4)[:, np.newaxis] * 256

Runs = Callable[[int, int], Sequence[memoryview]]
"""Returns bytes start .. end - 1 of each row of a block of frames."""


def icrc_of(inner: bytes) -> int:
    """Compute the ICRC of one packet from its inner IPv6 header to the last pad byte; append it little-endian."""
    masked = bytearray(inner)
    for offset, ones in _MASKS:
        masked[offset] |= ones
    return zlib_crc32(_PSEUDO_LRH + bytes(masked))


def flat_bytes(frames: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """View all bytes from the first row's start to the last row's end; rows are `frames.strides[0]` apart."""
    size = (len(frames) - 1) * frames.strides[0] + frames.shape[1]
    return np.lib.stride_tricks.as_strided(frames, (size,), (1,))


def runs_between(memory: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> Sequence[memoryview]:
    """Return each run `memory[start:end]`."""
    view = memoryview(memory.data)
    return [view[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def raw_crc(packet: bytes) -> int:
    """Compute the CRC of the pseudo header and a packet from its inner IPv6 header on, without masking."""
    crc: int = crc32(packet, _START)
    return crc


def is_right(packet: bytes) -> bool:
    """Report whether a packet, inner IPv6 header to ICRC, ends with its ICRC."""
    headers = int.from_bytes(packet[:HEADER_BYTES]) | _MASK
    return bool(crc32(packet[HEADER_BYTES:], crc32(headers.to_bytes(HEADER_BYTES), _START)) == RESIDUE)


def raw_crcs(runs: Sequence[memoryview]) -> NDArray[np.uint32]:
    """Compute the CRC of the pseudo header and each run, without masking, `(n,)`."""
    # One call per packet runs at memory speed; no numpy form is nearly as fast (measured).
    return np.fromiter(map(crc32, runs, repeat(_START)), np.uint32, len(runs))


def mask_effect(headers: NDArray[np.uint8], byte_count: int = 0) -> NDArray[np.uint32]:
    """Compute what masking changes in the CRC state `byte_count` bytes after the headers, `(n,)`.

    XOR it into the raw CRC.

    `headers` is `(n, >= HEADER_BYTES)` from the inner IPv6 header on.
    """
    entries = headers.T[_OFFSETS] + _TABLE_STARTS
    effects: NDArray[np.uint32] = np.bitwise_xor.reduce(_mask_tables(byte_count)[entries], axis=0)
    return effects


def carried(effect: NDArray[np.uint32], byte_counts: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Carry CRC differences over this many further bytes each, `(n,)`. Cheap when few counts differ."""
    result = np.empty_like(effect)
    for count in set(byte_counts.tolist()):
        rows = byte_counts == count
        result[rows] = carried_alike(effect[rows], count)
    return result


def carried_alike(effect: NDArray[np.uint32], byte_count: int) -> NDArray[np.uint32]:
    """Carry CRC differences `(n,)` over `byte_count` further bytes."""
    # The effect of 32 bits is that of its four bytes.
    entries = effect.astype("<u4").view(np.uint8).reshape(-1, 4).T + _PLACES
    result: NDArray[np.uint32] = np.bitwise_xor.reduce(_zero_run_tables(byte_count)[entries], axis=0)
    return result


def icrcs_of(
    memory: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64], headers: NDArray[np.uint8]
) -> NDArray[np.uint32]:
    """Compute the ICRC of each run `memory[start:end]` that starts with an inner IPv6 header, `(n,)`.

    `headers` is `(n, >= HEADER_BYTES)`, the first bytes of the same runs; none may be shorter.
    """
    raw = raw_crcs(runs_between(memory, starts, ends))
    return raw ^ carried(mask_effect(headers), ends - starts - HEADER_BYTES)


def are_right(packets: NDArray[np.uint8]) -> bool:
    """Report whether every row of (n, length) packets, inner IPv6 header to ICRC, ends with its ICRC.

    Masks them in place.

    One pass over all rows: right ones leave a state that is known in advance. A wrong row is accepted as rarely as a
    wrong ICRC, once in 2^32.
    """
    packets[:, 0] |= _MASKS[0][1]
    for columns in _WHOLE_BYTES:
        packets[:, columns] = 0xFF
    return bool(crc32(packets, _START) == _state_after(packets.shape[1], len(packets)))


def icrcs_alike(runs: Sequence[memoryview], headers: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Compute the ICRC of each of n >= 1 runs of one length, `(n,)`; `headers` as for `icrcs_of`."""
    return raw_crcs(runs) ^ mask_effect(headers, len(runs[0]) - HEADER_BYTES)


def stamp_icrcs(rows: NDArray[np.uint8], effect: NDArray[np.uint32], ends: NDArray[np.uint32]) -> None:
    """Append ICRCs in place to frames of any lengths, as `stamp_icrc`: (n,) `ends` is the place of each."""
    memory = flat_bytes(rows)
    base = np.arange(len(rows)) * rows.strides[0]
    raw = raw_crcs(runs_between(memory, base + INNER_OFFSET, base + ends))
    icrc = raw ^ carried(effect, ends.astype(np.int64) - (INNER_OFFSET + HEADER_BYTES))
    windows(memory, ICRC_BYTES)[base + ends] = _octets(icrc)


def stamp_icrc(rows: NDArray[np.uint8], effect: NDArray[np.uint32], end: int, runs: Runs | None) -> None:
    """Append the ICRC in place to frames of one length that are complete otherwise.

    `effect` `(n,)` is what masking changes at `end`, the place of the ICRC (`carried_alike`).
    """
    if runs is not None:
        covered = runs(INNER_OFFSET, end)[: len(rows)]
    else:
        base = np.arange(len(rows)) * rows.strides[0]
        covered = runs_between(flat_bytes(rows), base + INNER_OFFSET, base + end)
    rows[:, end : end + ICRC_BYTES] = _octets(raw_crcs(covered) ^ effect)


def _octets(icrc: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """Split ICRCs to (n, 4) bytes, little-endian."""
    return icrc.astype("<u4", copy=False).view(np.uint8).reshape(-1, ICRC_BYTES)


@lru_cache(maxsize=1)
def _byte_table() -> NDArray[np.uint32]:
    """Build the usual CRC table: state left by one byte, (256,)."""
    state = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        state = np.where(state & np.uint32(1), state >> np.uint32(1) ^ np.uint32(_POLYNOMIAL), state >> np.uint32(1))
    return state


@lru_cache(maxsize=256)
def _mask_tables(byte_count: int) -> NDArray[np.uint32]:
    """Compute the effect of turning a masked byte's bits into ones, `byte_count` bytes after the headers, by its value.

    Eight tables of 256, end to end.
    """
    values = np.arange(256)
    tables = [
        carried_alike(_byte_table()[ones & ~values], HEADER_BYTES - 1 - offset + byte_count) for offset, ones in _MASKS
    ]
    return np.concatenate(tables)


@lru_cache(maxsize=1024)
def _zero_run_tables(byte_count: int) -> NDArray[np.uint32]:
    """Compute the effect of `byte_count` zero bytes on a CRC state: four tables of 256, one per byte, end to end."""
    state = (np.uint32(1) << np.arange(32, dtype=np.uint32)).astype(np.uint32)
    power = 0
    while byte_count >> power:
        if byte_count >> power & 1:
            state = _apply(_doubling(power), state)
        power += 1
    tables = np.zeros((4, 256), np.uint32)
    for bit in range(32):
        place, size = bit // 8, 1 << bit % 8
        tables[place, size : 2 * size] = tables[place, :size] ^ state[bit]
    return tables.ravel()


@lru_cache(maxsize=64)
def _states(byte_count: int) -> list[int]:
    """Return the CRC after 0, 1, 2 … right packets of `byte_count` bytes in sequence, as far as needed so far."""
    return [_START]


def _state_after(byte_count: int, packets: int) -> int:
    states = _states(byte_count)
    while len(states) <= packets:
        difference = np.array([states[-1] ^ _START], np.uint32)
        states.append(RESIDUE ^ int(carried_alike(difference, byte_count)[0]))
    return states[packets]


@lru_cache(maxsize=32)
def _doubling(power: int) -> NDArray[np.uint32]:
    """Compute the effect of 2**power zero bytes on each bit of the state, (32,).

    A matrix over GF(2), squared each step.
    """
    if power == 0:
        state = (np.uint32(1) << np.arange(32, dtype=np.uint32)).astype(np.uint32)
        single: NDArray[np.uint32] = state >> np.uint32(8) ^ _byte_table()[state & np.uint32(0xFF)]
        return single
    half = _doubling(power - 1)
    return _apply(half, half)


def _apply(matrix: NDArray[np.uint32], states: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Apply the matrix to each state."""
    bits = states[:, np.newaxis] >> np.arange(32, dtype=np.uint32) & np.uint32(1)
    return np.asarray(np.bitwise_xor.reduce(np.where(bits, matrix, np.uint32(0)), axis=1))
