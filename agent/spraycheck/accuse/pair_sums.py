"""Several flows of one pair of leaves, added up until they say something: P_min packets a spine. SprayCheck S6.

P_min is what the question needs. Remembers sums only, one for each plane, pair of leaves and way of spraying. Each sum
is tested once and begun anew, so that every packet is judged once, and the false alarms stated for a flow hold for a
sum.
"""

from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from agent.spraycheck.statistics.calibration import FlowShape
from agent.spraycheck.statistics.uniform import Asked, FlowTest, PathVerdict, judge, plan_test

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LeafPair:
    """Between whom flows are added up."""

    plane: int
    src_leaf: int
    dst_leaf: int


@dataclass(frozen=True, slots=True)
class Total(Generic[T]):
    """The verdicts of a sum."""

    pair: LeafPair
    test: FlowTest
    verdicts: tuple[PathVerdict, ...]
    members: tuple[T, ...]
    """The flows, as they were told apart when they were added."""


@dataclass(frozen=True, slots=True)
class _Sum(Generic[T]):
    shape: FlowShape
    counts: NDArray[np.int64]
    members: tuple[T, ...]


class PairTotals(Generic[T]):
    """Sums of all pairs."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._sums: dict[tuple[LeafPair, FlowShape], _Sum[T]] = {}

    def add(self, pair: LeafPair, shape: FlowShape, counts: NDArray[np.int64], member: T) -> Total[T] | None:
        """Take one flow's counts in, `(k,)`; the verdicts of its pair if there are enough packets now.

        A flow of which a lossy path loses fewer packets than the flow's ends blur is left out: with any number of such
        a sum tells nothing. Raises ValueError for a flow that cannot be tested.
        """
        ends = plan_test(shape, self._asked).calibration.end_effect_pkts
        if shape.expected * self._asked.min_rate <= 2 * ends:
            return None
        kind = pair, replace(shape, packets=0)
        grown = _Sum(shape, counts, (member,))
        if (before := self._sums.pop(kind, None)) is not None:
            packets, flows = before.shape.packets + shape.packets, before.shape.flows + shape.flows
            grown = _Sum(
                replace(shape, packets=packets, flows=flows), before.counts + counts, (*before.members, member)
            )
        test = plan_test(grown.shape, self._asked)
        if test.weakness is not None:
            self._sums[kind] = grown
            return None
        return Total(pair, test, judge(test, grown.counts), grown.members)
