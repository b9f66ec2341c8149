"""What source leaves counted of flows, joined with what destination leaves report of them. Pure but for the reading.

The two counts tell a host's own link from what lies behind its leaf. When a flow is judged by its declaration nothing
of it is on its way any more, so the source leaf's count is complete.
"""

from collections.abc import Sequence
from dataclasses import replace

from agent.spraycheck.leaf import FlowReport, LeafDetector


def with_entered(reports: Sequence[FlowReport], detectors: Sequence[LeafDetector]) -> list[FlowReport]:
    """The same reports; those by a declaration with the source leaf's count, where it has one. Raises CountersError."""
    declared = {(each.flow.plane, each.flow.src_leaf) for each in reports if each.sent is not None}
    counts = {leaf: each.entered() for each in detectors if (leaf := (each.rules.plane, each.rules.leaf)) in declared}
    return [_joined(each, counts) for each in reports]


def _joined(report: FlowReport, counts: dict[tuple[int, int], dict[tuple[int, int], int]]) -> FlowReport:
    flow = report.flow
    if report.sent is None:
        return report
    return replace(report, entered=counts.get((flow.plane, flow.src_leaf), {}).get((flow.qpn, flow.epoch)))
