"""The monitoring system of the paper: reports of all leaves, epoch by epoch, to what is accused, as it becomes known.

Progressive: says something whenever the accusation changes, and once more when no verdict is owed. Pure but for memory.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import floor

from agent.spraycheck.causes import SourceEvidence
from agent.spraycheck.deciding import DecidingFlow
from agent.spraycheck.declared import packets_needed
from agent.spraycheck.detector import Asked, PathVerdict, Verdict, uniform_packets_needed
from agent.spraycheck.leaf import FlowReport
from agent.spraycheck.localize import Evidence, Finding, Localization, localize
from agent.spraycheck.paths import FabricPath
from agent.wire.constants import SprayPolicyCode

_KEPT_EPOCHS = 64  # our choice: far more than overlap, so that memory stays bounded


@dataclass(frozen=True, slots=True)
class Accusation:
    """What is known of one epoch at one moment."""

    epoch: int
    localization: Localization
    pending: int
    """Verdicts on paths still owed."""
    insufficient: int
    """Verdicts so far that neither accuse nor clear."""
    first_named_ns: int | None
    """When a link of this epoch was first named; monotonic clock."""


@dataclass(slots=True)
class _Epoch:
    evidence: list[Evidence] = field(default_factory=list)
    sources: list[SourceEvidence] = field(default_factory=list)
    last: FlowReport | None = None
    first_named_ns: int | None = None
    situation: tuple[int, frozenset[FabricPath]] | None = None
    """What the last localisation was made from: how much evidence, which verdicts owed."""
    said: tuple[object, ...] | None = None


class Monitor:
    """Collects evidence by epoch. One for all leaves.

    With `asked` it says how many packets a deciding flow needs, too.
    """

    def __init__(self, asked: Asked | None = None) -> None:
        self._asked = asked
        self._epochs: dict[int, _Epoch] = {}

    def observe(
        self, reports: Iterable[FlowReport], pending: Iterable[tuple[int, FabricPath]], now_ns: int
    ) -> list[Accusation]:
        """Take new reports in; the accusations that differ from what was said before.

        `pending` holds (epoch, path) of all verdicts still owed.
        """
        owed: dict[int, list[FabricPath]] = defaultdict(list)
        for epoch, path in pending:
            owed[epoch].append(path)
        for report in reports:
            self._take(report)
        changes = (self._accuse(number, epoch, owed[number], now_ns) for number, epoch in self._epochs.items())
        return [change for change in changes if change is not None]

    def _take(self, report: FlowReport) -> None:
        flow = report.flow
        if flow.epoch not in self._epochs:
            self._epochs[flow.epoch] = _Epoch()
            while len(self._epochs) > _KEPT_EPOCHS:
                del self._epochs[next(iter(self._epochs))]
        epoch = self._epochs[flow.epoch]
        if report.test is not None or report.sent is not None:
            epoch.last = report
        epoch.evidence += [_evidence_of(report, each) for each in report.verdicts]
        if report.source is not None:
            ends = flow.plane, flow.src_host, flow.src_leaf, flow.dst_leaf, flow.qpn
            epoch.sources.append(SourceEvidence(*ends, report.source.verdict, report.entered))

    def _accuse(self, number: int, epoch: _Epoch, owed: list[FabricPath], now_ns: int) -> Accusation | None:
        situation = len(epoch.evidence), frozenset(owed)
        if situation == epoch.situation:
            return None
        epoch.situation = situation
        found = localize(epoch.evidence, owed, epoch.sources)
        found = replace(found, deciding=tuple(self._counted(each, epoch.last) for each in found.deciding))
        if found.links and epoch.first_named_ns is None:
            epoch.first_named_ns = now_ns
        saying = found.finding, found.links, found.candidates, found.common, not owed
        silent = found.finding is Finding.NONE and not (found.common.causes or found.common.candidates)
        if saying == epoch.said or (silent and owed):
            return None
        epoch.said = saying
        unsure = sum(each.verdict is Verdict.INSUFFICIENT for each in epoch.evidence)
        return Accusation(number, found, len(owed), unsure, epoch.first_named_ns)

    def _counted(self, flow: DecidingFlow, like: FlowReport | None) -> DecidingFlow:
        """The same with the packets it needs, if it is judged as the flows so far were."""
        if self._asked is None or like is None:
            return flow
        asked = replace(self._asked, min_rate=flow.rate or self._asked.min_rate)
        paths = len(like.spines)
        if like.sent is not None:
            needed = packets_needed(asked.min_rate, paths, asked.test_level, asked.miss, asked.stray_rate)
            return replace(flow, packets=needed)
        if like.test is None:
            return flow
        shape = like.test.shape
        return replace(flow, packets=uniform_packets_needed(shape.policy, paths, shape.copies, asked))


def _evidence_of(report: FlowReport, verdict: PathVerdict) -> Evidence:
    path = report.flow.path(report.spines[verdict.path])
    return Evidence(path, verdict.verdict, report.flow.qpn, *_sent_and_lost(report, verdict))


def _sent_and_lost(report: FlowReport, verdict: PathVerdict) -> tuple[int, int]:
    """Exact if declared; within the end effect, to the path's favour, under rotation; else unknown."""
    if report.sent is not None:
        sent = report.sent[verdict.path]
        return sent, max(sent - verdict.count, 0)
    if report.test is None or report.test.shape.policy is not SprayPolicyCode.ROTATION:
        return 0, 0
    sent = floor(report.test.shape.expected)
    return sent, max(sent - report.test.calibration.end_effect_pkts - verdict.count, 0)
