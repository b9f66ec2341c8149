"""Several flows of one pair of leaves, added up until they say something: P_min packets a spine. SprayCheck S6.

Remembers sums only, one for each plane, pair of leaves and way of spraying. Each sum is tested once and begun anew, so
that every packet is judged once, and the false alarms stated for a flow hold for a sum.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from agent.spraycheck.calibration import FlowShape
from agent.spraycheck.detector import Asked, FlowTest, PathVerdict, judge, plan_test


@dataclass(frozen=True, slots=True)
class LeafPair:
    """Between whom flows are added up."""

    plane: int
    src_leaf: int
    dst_leaf: int


@dataclass(frozen=True, slots=True)
class Total:
    """The verdicts of a sum."""

    pair: LeafPair
    test: FlowTest
    verdicts: tuple[PathVerdict, ...]


class PairTotals:
    """Sums of all pairs.

    `p_min` are packets a spine from which on a sum is tested; None: as many as the question needs.
    """

    def __init__(self, asked: Asked, p_min: int | None = None) -> None:
        self._asked = asked
        self._p_min = p_min
        self._sums: dict[tuple[LeafPair, FlowShape], tuple[FlowShape, NDArray[np.int64]]] = {}

    def add(self, pair: LeafPair, shape: FlowShape, counts: NDArray[np.int64]) -> Total | None:
        """Take one flow's counts in, `(k,)`; the verdicts of its pair if there are enough packets now.

        Raises ValueError for a flow that cannot be tested.
        """
        plan_test(shape, self._asked)
        kind = pair, replace(shape, packets=0)
        so_far = self._sums.pop(kind, None)
        if so_far is not None:
            before, seen = so_far
            shape = replace(shape, packets=before.packets + shape.packets, flows=before.flows + shape.flows)
            counts = seen + counts
        test = plan_test(shape, self._asked)
        if not self._is_enough(test):
            self._sums[kind] = shape, counts
            return None
        return Total(pair, test, judge(test, counts))

    def packets_of(self, pair: LeafPair) -> int:
        """Packets of a pair that wait for more."""
        return sum(shape.packets for (each, _), (shape, _) in self._sums.items() if each == pair)

    def _is_enough(self, test: FlowTest) -> bool:
        if self._p_min is not None:
            return test.shape.expected >= self._p_min
        return test.weakness is None
