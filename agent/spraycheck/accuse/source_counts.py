"""What source leaves counted of flows, joined with what destination leaves report of them.

The two counts tell a host's own link from what lies behind its leaf. When a flow is judged by its declaration nothing
of it is on its way any more, so the source leaf's count is complete.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from agent.spraycheck.leaf.leaf_detector import FlowReport, Key
from agent.spraycheck.leaf.leaves import Known, Leaves, Place


def with_entered(reports: Sequence[FlowReport], leaves: Leaves) -> list[FlowReport]:
    """The same reports; those by a declaration with the source leaf's count, where it has one. Raises SprayCheckError.

    Asks no leaf that is the source of none of them.
    """
    wanted: dict[Place, set[Key]] = defaultdict(set)
    for each in reports:
        if each.sent is not None and _source(each) in leaves.rules:
            wanted[_source(each)].add(_key(each))
    known = leaves.known(wanted)
    return [each if each.sent is None else _joined(each, known) for each in reports]


def _joined(report: FlowReport, known: Mapping[tuple[Place, Key], Known]) -> FlowReport:
    counted = known.get((_source(report), _key(report)))
    return replace(report, entered=None if counted is None else counted.entered)


def _source(report: FlowReport) -> Place:
    return report.flow.plane, report.flow.src_leaf


def _key(report: FlowReport) -> Key:
    return report.flow.qpn, report.flow.epoch
