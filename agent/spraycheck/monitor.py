"""The monitoring system of the paper: reports of all leaves, epoch by epoch, to what is accused, as it becomes known.

Progressive: says something whenever the accusation changes, and once more when no verdict is owed. Pure but for memory.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from agent.spraycheck.detector import Verdict
from agent.spraycheck.leaf import FlowReport
from agent.spraycheck.localize import Evidence, Finding, Localization, localize
from agent.spraycheck.paths import FabricPath

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
    first_named_ns: int | None = None
    situation: tuple[int, frozenset[FabricPath]] | None = None
    """What the last localisation was made from: how much evidence, which verdicts owed."""
    said: tuple[object, ...] | None = None


class Monitor:
    """Collects evidence by epoch. One for all leaves."""

    def __init__(self) -> None:
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
        self._epochs[flow.epoch].evidence += [
            Evidence(flow.path(report.spines[each.path]), each.verdict, flow.qpn) for each in report.verdicts
        ]

    def _accuse(self, number: int, epoch: _Epoch, owed: list[FabricPath], now_ns: int) -> Accusation | None:
        situation = len(epoch.evidence), frozenset(owed)
        if situation == epoch.situation:
            return None
        epoch.situation = situation
        found = localize(epoch.evidence, owed)
        if found.links and epoch.first_named_ns is None:
            epoch.first_named_ns = now_ns
        saying = found.finding, found.links, found.candidates, not owed
        if saying == epoch.said or (found.finding is Finding.NONE and owed):
            return None
        epoch.said = saying
        unsure = sum(each.verdict is Verdict.INSUFFICIENT for each in epoch.evidence)
        return Accusation(number, found, len(owed), unsure, epoch.first_named_ns)
