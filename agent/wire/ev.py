"""Entropy values: 32 bits that name one path, carried in the UDP source port and the flow label's low 16 bits.

Our structured EV (MRC 9.2 leaves the fields open): flow label half = uSID of the switch where the path turns (spine, or
the leaf both hosts share), source port half = 0xC000 | copy, so that plane and spine read by eye in any capture.
"""

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from agent.wire.usid import UsidRole, WireError, leaf_local, leaf_to_leaf, pack, parts_of, usid_of

SPORT_BASE = 0xC000
"""Least source port: they are in the dynamic range, as RoCEv2's are."""
MAX_COPIES = 1 << 14
"""EVs that may name the same path: the low 14 bits of the source port distinguish them."""


class EvError(WireError):
    """An entropy value names no path of the host pair it is used for."""

    def __init__(self, ev: int, reason: str) -> None:
        super().__init__(f"EV {ev:#010x}: {reason}")
        self.ev = ev


class EvOrder(Enum):
    """Order of the two halves; sources disagree. The bytes on the wire are the same in both."""

    SPORT_HIGH = "sport-high"
    """EV[31:16] = source port, EV[15:0] = flow label: MRC Table 9-1, the default."""
    SPORT_LOW = "sport-low"
    """EV[31:16] = flow label, EV[15:0] = source port: the reading of the article."""


_HALF = np.array(16, np.uint32)


@dataclass(frozen=True, slots=True)
class EvPath:
    """Path of an EV: exactly one of `spine` and `leaf` is set, the switch where the path turns."""

    plane: int
    spine: int | None
    leaf: int | None
    copy: int


@dataclass(frozen=True, slots=True)
class EvCodec:
    """The only code that joins and splits EVs. Array arguments and results have any common shape."""

    order: EvOrder = EvOrder.SPORT_HIGH

    def join(self, sport: NDArray[np.uint16], flow_label: NDArray[np.uint16]) -> NDArray[np.uint32]:
        """Join source ports (n,) and low 16 flow-label bits (n,) to EVs (n,)."""
        high, low = (sport, flow_label) if self.order is EvOrder.SPORT_HIGH else (flow_label, sport)
        return high.astype(np.uint32) << _HALF | low

    def join_one(self, sport: int, flow_label: int) -> int:
        """Join the halves of one EV."""
        high, low = (sport, flow_label) if self.order is EvOrder.SPORT_HIGH else (flow_label, sport)
        return high << 16 | low

    def sport(self, ev: NDArray[np.uint32]) -> NDArray[np.uint16]:
        """Return UDP source ports (n,) of EVs (n,)."""
        return _high(ev) if self.order is EvOrder.SPORT_HIGH else _low(ev)

    def flow_label(self, ev: NDArray[np.uint32]) -> NDArray[np.uint16]:
        """Return the low 16 bits of the flow labels (n,) of EVs (n,); the upper four are zero."""
        return _low(ev) if self.order is EvOrder.SPORT_HIGH else _high(ev)

    def halves_of(self, ev: int) -> tuple[int, int]:
        """Return flow label and source port of one EV."""
        high, low = ev >> 16, ev & 0xFFFF
        return (low, high) if self.order is EvOrder.SPORT_HIGH else (high, low)

    def ev_of(self, plane: int, spine: int | None, leaf: int, copy: int = 0) -> int:
        """Return the EV of the path over `spine`, or, for None, of the path that turns at `leaf`. Raises WireError."""
        turn = usid_of(UsidRole.T0, plane, leaf) if spine is None else usid_of(UsidRole.T1, plane, spine)
        if not 0 <= copy < MAX_COPIES:
            raise EvError(turn, f"copy {copy} is not in 0..{MAX_COPIES - 1}")
        return int(self.join(np.array(SPORT_BASE | copy, np.uint16), np.array(turn, np.uint16)))

    def plane_of(self, ev: NDArray[np.uint32]) -> NDArray[np.uint8]:
        """Return planes (n,) of structured EVs (n,)."""
        return (self.flow_label(ev) >> np.uint16(8) & np.uint16(0xF)).astype(np.uint8)

    def spine_of(self, ev: NDArray[np.uint32]) -> NDArray[np.int16]:
        """Return spines (n,) of structured EVs (n,), -1 where the path turns at a leaf."""
        turn = self.flow_label(ev)
        over_spine = turn >> np.uint16(12) == UsidRole.T1
        return np.where(over_spine, (turn & np.uint16(0xFF)).astype(np.int16), np.int16(-1))

    def path_of(self, ev: int) -> EvPath:
        """Return the path of one EV. Raises WireError if it is not a structured EV."""
        word = np.array(ev, np.uint32)
        role, plane, index = parts_of(int(self.flow_label(word)))
        copy = int(self.sport(word)) & (MAX_COPIES - 1)
        if role is UsidRole.DOWNLINK:
            raise EvError(ev, "a path cannot turn at a downlink")
        spine, leaf = (index, None) if role is UsidRole.T1 else (None, index)
        return EvPath(plane, spine, leaf, copy)

    def carrier_of(self, ev: int, src_leaf: int, dst_leaf: int, slot: int) -> bytes:
        """Return the outer destination address of an EV's path to host slot `slot` of `dst_leaf` (MRC paper 2.3).

        Raises EvError if the path does not join the two leaves.
        """
        path = self.path_of(ev)
        if path.spine is not None:
            return pack(leaf_to_leaf(path.plane, src_leaf, path.spine, dst_leaf, slot))
        if not path.leaf == src_leaf == dst_leaf:
            raise EvError(ev, f"turns at leaf {path.leaf}, which leaves {src_leaf} and {dst_leaf} do not share")
        return pack(leaf_local(path.plane, dst_leaf, slot))


def _high(ev: NDArray[np.uint32]) -> NDArray[np.uint16]:
    return (ev >> _HALF).astype(np.uint16)


def _low(ev: NDArray[np.uint32]) -> NDArray[np.uint16]:
    return (ev & np.uint32(0xFFFF)).astype(np.uint16)
