"""Reports on flows of which all counts are known at once: of a model, of a plan, or of a flow that brought nothing."""

import numpy as np
from numpy.typing import NDArray

from agent.spraycheck.expectation import Expectation
from agent.spraycheck.leaf.flow_state import MeasuredFlow
from agent.spraycheck.leaf.leaf_detector import FlowReport, PathCounts
from agent.spraycheck.statistics.calibration import FlowShape
from agent.spraycheck.statistics.declared import judge_declared, judge_source
from agent.spraycheck.statistics.uniform import Asked, judge, plan_test

Counts = NDArray[np.int64]


def uniform_report(flow: MeasuredFlow, shape: FlowShape, arrived: Counts, asked: Asked) -> FlowReport:
    """By equal shares: of `(k,)` counts. Raises ValueError for a shape that cannot be tested."""
    test, spines = plan_test(shape, asked), tuple(range(len(arrived)))
    expected, verdicts = (test.shape.expected,) * len(arrived), judge(test, arrived)
    return FlowReport(flow, Expectation.UNIFORM, spines, expected, test, verdicts, in_order(arrived))


def declared_report(
    flow: MeasuredFlow, sent: Counts, arrived: Counts, asked: Asked, entered: int | None = None
) -> FlowReport:
    """By what was sent on each of `(k,)` paths; `entered` is how much of it came to the source leaf."""
    return FlowReport(
        flow,
        Expectation.DECLARED,
        tuple(range(len(sent))),
        tuple(map(float, sent)),
        None,
        judge_declared(sent, arrived, asked),
        in_order(arrived),
        sent=tuple(sent.tolist()),
        source=judge_source(sent, arrived, asked),
        entered=entered,
    )


def in_order(arrived: Counts) -> PathCounts:
    """Counts of which nothing came late, trimmed or twice."""
    nothing = np.zeros_like(arrived)
    return PathCounts(arrived, nothing, nothing, nothing, None)
