"""Reports of leaves on flows: verdicts, counts and times of each, and the rules that the leaf judges by. Pure."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agent.spraycheck.paths import FabricPath, LeafPair
from agent.spraycheck.statistics.calibration import FlowShape
from agent.spraycheck.statistics.declared import SourceVerdict, judge_declared, judge_source
from agent.spraycheck.statistics.flow_times import LossTime, Span
from agent.spraycheck.statistics.uniform import FlowTest, judge, plan_test
from agent.spraycheck.statistics.verdicts import Expectation, PathVerdict, Requirements

Counts = NDArray[np.int64]

Key = tuple[int, int]
"""Destination QP and epoch of a flow."""


@dataclass(frozen=True, slots=True)
class MeasuredFlow:
    """Identity of the flow that a report is about."""

    plane: int
    src_leaf: int
    dst_leaf: int
    src_host: int
    dst_host: int
    qpn: int
    epoch: int
    packets: int
    """N as announced."""

    @property
    def leaf_pair(self) -> LeafPair:
        """The pair of leaves that it connects."""
        return LeafPair(self.plane, self.src_leaf, self.dst_leaf)

    def path(self, spine: int) -> FabricPath:
        """Return the flow's path over one spine."""
        return FabricPath(self.plane, self.src_leaf, spine, self.dst_leaf)


@dataclass(frozen=True, slots=True)
class LeafRules:
    """Rules of one leaf's detector."""

    plane: int
    leaf: int
    spines: tuple[int, ...]
    """Usable spines, in the order of a flow's paths."""
    required: Requirements
    copies: int
    """EVs per path."""
    settle_ns: int
    """Time without packets, after the last PSN or the closing announcements, after which a flow is judged."""
    quiet_ns: int
    """Time without packets after which a path that lost its closing announcement is given up."""
    erase_after_ns: int
    """Age at which a flow's state is erased, judged or not (D4)."""
    narrow: bool = False
    """The counters have 16 bits; nothing is declared then."""
    one: bool = False
    """This leaf measures one of its flows at a time (F2)."""

    @property
    def expectations(self) -> tuple[Expectation, ...]:
        """Expectations by which every flow is judged."""
        return (Expectation.UNIFORM,) if self.narrow else (Expectation.UNIFORM, Expectation.DECLARED)


@dataclass(frozen=True, slots=True)
class Declaration:
    """A sender's declaration, received in one plane, of what it sent of a flow in another plane."""

    flow: MeasuredFlow
    sent: tuple[int, ...]
    """First transmissions over each spine of the flow's plane."""


@dataclass(frozen=True, slots=True)
class PathCounts:
    """Counts of a leaf for one flow, by path, `(k,)` each."""

    arrived: NDArray[np.int64]
    """First transmissions, including those that came late or trimmed."""
    late: NDArray[np.int64]
    """First transmissions that came after the last PSN."""
    trimmed: NDArray[np.int64]
    """First transmissions that came without their payload."""
    again: NDArray[np.int64]
    """Retransmissions."""
    flagged: NDArray[np.bool_] | None
    """Count below the threshold when the last PSN came, by the data plane; None if the threshold was not there yet."""


@dataclass(frozen=True, slots=True)
class ChosenFlow:
    """A flow that its source leaf has chosen to measure."""

    plane: int
    src_leaf: int
    dst_leaf: int
    qpn: int
    epoch: int


@dataclass(frozen=True, slots=True)
class RefusedFlow:
    """A flow that a leaf, its source or its destination, does not measure, since it has no room for it."""

    plane: int
    leaf: int
    """Leaf that has no room."""
    src_leaf: int
    dst_leaf: int
    src_host: int
    dst_host: int
    qpn: int
    epoch: int
    reason: str


@dataclass(frozen=True, slots=True)
class FlowReport:
    """Verdicts on one flow by one expectation; entry i of each tuple is about spine `spines[i]`."""

    flow: MeasuredFlow
    expectation: Expectation
    spines: tuple[int, ...]
    expected: tuple[float, ...]
    """Packets that a healthy path brings."""
    test: FlowTest | None
    """None when there is no expectation of equal shares to test against."""
    verdicts: tuple[PathVerdict, ...]
    counts: PathCounts
    sent: tuple[int, ...] | None = None
    """First transmissions that the sender declared for each path, if it did."""
    source: SourceVerdict | None = None
    """Verdict on all paths of the flow together, if the sender declared."""
    entered: int | None = None
    """First transmissions that had come to the source leaf in this plane, if that is known."""
    span: Span | None = None
    """Time in which this leaf saw the flow under way; None if it heard nothing."""
    lossy: LossTime | None = None
    """Time in which the flow lost packets, by its retransmissions; None if none came."""


def uniform_report(flow: MeasuredFlow, shape: FlowShape, arrived: Counts, required: Requirements) -> FlowReport:
    """Make the report by equal shares of `(k,)` counts. Raises ValueError for a shape that cannot be tested."""
    test, spines = plan_test(shape, required), tuple(range(len(arrived)))
    expected, verdicts = (test.shape.expected,) * len(arrived), judge(test, arrived)
    return FlowReport(flow, Expectation.UNIFORM, spines, expected, test, verdicts, in_order(arrived))


def declared_report(
    flow: MeasuredFlow, sent: Counts, arrived: Counts, required: Requirements, entered: int | None = None
) -> FlowReport:
    """Make the report by the packets sent on each of `(k,)` paths; `entered` of all came to the source leaf."""
    return FlowReport(
        flow,
        Expectation.DECLARED,
        tuple(range(len(sent))),
        tuple(map(float, sent)),
        None,
        judge_declared(sent, arrived, required),
        in_order(arrived),
        sent=tuple(sent.tolist()),
        source=judge_source(sent, arrived, required),
        entered=entered,
    )


def in_order(arrived: Counts) -> PathCounts:
    """Make counts of which nothing came late, trimmed or twice."""
    nothing = np.zeros_like(arrived)
    return PathCounts(arrived, nothing, nothing, nothing, None)
