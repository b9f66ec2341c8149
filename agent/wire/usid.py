"""uSIDs: 16-bit steps of a source route inside one 128-bit address (F3216, RFC 9800), and spraylab's numbering of them.

A carrier is a 32-bit block and up to six uSIDs; a zero ends it. This module does not know which switches exist.
"""

from collections.abc import Sequence
from enum import IntEnum

USID_BLOCK = 0x5F000000
"""Locator block 5f00:0::/32, from 5f00::/16 (RFC 9602)."""
BLOCK_BITS = 32
USID_BITS = 16
CARRIER_USIDS = 6
MAX_PLANES = 16
MAX_INDEX = 256

_USID_MASK = (1 << USID_BITS) - 1
_CHAIN_BITS = CARRIER_USIDS * USID_BITS
_CHAIN_MASK = (1 << _CHAIN_BITS) - 1


class WireError(ValueError):
    """Base of errors of agent.wire: a caller requests what the wire format cannot carry. Received bytes never raise."""


class UsidError(WireError):
    """A number does not fit the uSID plan, or a chain is too long for one address."""


class UsidRole(IntEnum):
    """Role in the top four bits of a uSID.

    Our choice, easy to read in captures; 0xE lies in the local block of RFC 9800.
    """

    T1 = 0x1
    T0 = 0x2
    DOWNLINK = 0xE


def usid_of(role: UsidRole, plane: int, index: int) -> int:
    """Build a uSID role(4) plane(4) index(8): a spine, a leaf, or a leaf's downlink to host slot `index`.

    Raises UsidError.
    """
    if not 0 <= plane < MAX_PLANES:
        raise UsidError(f"plane {plane} is not in 0..{MAX_PLANES - 1}")
    if not 0 <= index < MAX_INDEX:
        raise UsidError(f"{role.name} index {index} is not in 0..{MAX_INDEX - 1}")
    return role << 12 | plane << 8 | index


def parts_of(usid: int) -> tuple[UsidRole, int, int]:
    """Return role, plane and index of a uSID of our plan. Raises UsidError for any other."""
    try:
        return UsidRole(usid >> 12), usid >> 8 & 0xF, usid & 0xFF
    except ValueError:
        raise UsidError(f"uSID {usid:#06x} has no role of our plan") from None


def pack(usids: Sequence[int], block: int = USID_BLOCK) -> bytes:
    """Build the 16-byte carrier of a chain of at most six non-zero uSIDs. Raises UsidError."""
    if len(usids) > CARRIER_USIDS:
        raise UsidError(f"{len(usids)} uSIDs do not fit one address, at most {CARRIER_USIDS} do")
    chain = 0
    for usid in usids:
        if not 0 < usid <= _USID_MASK:
            raise UsidError(f"{usid:#x} is not a uSID (1..0xffff)")
        chain = chain << USID_BITS | usid
    chain <<= (CARRIER_USIDS - len(usids)) * USID_BITS
    return (block << _CHAIN_BITS | chain).to_bytes(16, "big")


def unpack(carrier: bytes) -> tuple[int, tuple[int, ...]]:
    """Return block and uSIDs of a carrier, up to the zero that ends it."""
    value = int.from_bytes(carrier, "big")
    usids = []
    for position in reversed(range(CARRIER_USIDS)):
        usid = value >> position * USID_BITS & _USID_MASK
        if usid == 0:
            break
        usids.append(usid)
    return value >> _CHAIN_BITS, tuple(usids)


def shift(carrier: bytes) -> bytes:
    """Shift the address as a uN does: remove the first uSID, move the rest left, fill with zeros (RFC 9800, 4.1)."""
    value = int.from_bytes(carrier, "big")
    chain = (value << USID_BITS) & _CHAIN_MASK
    return (value >> _CHAIN_BITS << _CHAIN_BITS | chain).to_bytes(16, "big")


def leaf_to_leaf(plane: int, src_leaf: int, spine: int, dst_leaf: int, slot: int) -> tuple[int, ...]:
    """Return the chain of a path through a spine: source leaf, spine, destination leaf, downlink (MRC paper 2.3)."""
    return (
        usid_of(UsidRole.T0, plane, src_leaf),
        usid_of(UsidRole.T1, plane, spine),
        usid_of(UsidRole.T0, plane, dst_leaf),
        usid_of(UsidRole.DOWNLINK, plane, slot),
    )


def leaf_local(plane: int, leaf: int, slot: int) -> tuple[int, ...]:
    """Return the chain of a path that turns at the leaf of both hosts."""
    return usid_of(UsidRole.T0, plane, leaf), usid_of(UsidRole.DOWNLINK, plane, slot)
