"""Leaves of a lab as the monitor sees them: the results of each round, and what a leaf knows of a flow.

A leaf is in this process, or in one of its own (`remote_leaves`); the monitor sees no difference.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from agent.spraycheck.leaf.flow_reports import ChosenFlow, Declaration, FlowReport, Key, LeafRules, RefusedFlow
from agent.spraycheck.leaf.leaf_detector import LeafDetector, pending_paths
from agent.spraycheck.paths import FabricPath, LeafId
from agent.spraycheck.statistics.verdicts import Expectation


@dataclass(frozen=True, slots=True)
class Owed:
    """Verdicts that a leaf still owes on a path in one epoch, by one expectation."""

    epoch: int
    expectation: Expectation
    path: FabricPath
    flows: int


@dataclass(frozen=True, slots=True)
class LeafRound:
    """Results of one round of a leaf."""

    chosen: tuple[ChosenFlow, ...]
    """Flows that it has begun to measure as their source since the last round; none where it measures all."""
    refused: tuple[RefusedFlow, ...]
    """Flows for which it had no room since then."""
    reports: tuple[FlowReport, ...]
    """Reports on flows that ended since then."""
    owed: tuple[Owed, ...]
    declarations: tuple[Declaration, ...]
    """Senders' declarations of flows in other planes since then."""


@dataclass(frozen=True, slots=True)
class FlowKnowledge:
    """Knowledge of a leaf about one flow at its last round."""

    heard: bool
    """An announcement of the flow has come to this leaf as the flow's destination."""
    refused: bool
    """The leaf had no room for it."""
    entered: int | None
    """First transmissions that have come from the flow's host; None: this leaf does not count that flow."""
    replaced: bool
    """A newer flow of the queue pair is counted in its place."""


class Leaves(Protocol):
    """Interface that the monitor needs of all leaves."""

    @property
    def rules(self) -> Mapping[LeafId, LeafRules]:
        """Rules of each leaf, in the order of `rounds`."""
        ...

    def rounds(self, now_ns: int) -> list[LeafRound]:
        """Do one round of every leaf. Raises SprayCheckError."""
        ...

    def known(self, wanted: Mapping[LeafId, Collection[Key]]) -> dict[tuple[LeafId, Key], FlowKnowledge]:
        """Ask leaves about flows; a leaf of which nothing is wanted is not asked. Raises SprayCheckError."""
        ...


class SharedLeaves:
    """Leaves whose maps this process reads itself."""

    def __init__(self, detectors: Sequence[LeafDetector]) -> None:
        self._detectors = {(each.rules.plane, each.rules.leaf): each for each in detectors}

    @property
    def rules(self) -> Mapping[LeafId, LeafRules]:
        """Rules of each leaf."""
        return {place: each.rules for place, each in self._detectors.items()}

    def rounds(self, now_ns: int) -> list[LeafRound]:
        """Do one round of every leaf. Raises CountersError."""
        return [round_of(each, now_ns) for each in self._detectors.values()]

    def known(self, wanted: Mapping[LeafId, Collection[Key]]) -> dict[tuple[LeafId, Key], FlowKnowledge]:
        """Ask leaves about flows. Raises CountersError."""
        return {
            (place, key): known
            for place, keys in wanted.items()
            if keys
            for key, known in zip(keys, knowledge_of(self._detectors[place], keys), strict=True)
        }


def round_of(detector: LeafDetector, now_ns: int) -> LeafRound:
    """Do one round of a leaf. Raises CountersError."""
    chosen, refused, reports = detector.chosen(), detector.refused(), detector.poll(now_ns)
    # Declarations of other planes are taken out even if unused: otherwise the map would fill.
    owed = (Owed(*scope, path, flows) for (scope, path), flows in pending_paths(detector).items())
    return LeafRound(tuple(chosen), tuple(refused), tuple(reports), tuple(owed), tuple(detector.declarations()))


def knowledge_of(detector: LeafDetector, keys: Collection[Key]) -> list[FlowKnowledge]:
    """Return what a leaf knows of these flows, in their order. Raises CountersError."""
    entered = detector.entered()
    marked = {qpn for qpn, _ in entered}
    return [
        FlowKnowledge(
            detector.has_heard_of(key),
            detector.has_refused(key),
            entered.get(key),
            key not in entered and key[0] in marked,
        )
        for key in keys
    ]


def owed_of(rounds: Collection[LeafRound]) -> Counter[tuple[tuple[int, Expectation], FabricPath]]:
    """Count the verdicts that all leaves still owe, by epoch and expectation, and by path."""
    owed = Counter[tuple[tuple[int, Expectation], FabricPath]]()
    for each in (each for each_round in rounds for each in each_round.owed):
        owed[(each.epoch, each.expectation), each.path] += each.flows
    return owed


def with_source_counts(reports: Sequence[FlowReport], leaves: Leaves) -> list[FlowReport]:
    """Add the source leaf's count to reports by declarations, where it has one. Raises SprayCheckError.

    The two counts distinguish a host's own link from what lies behind its leaf. When a flow is judged by its
    declaration, nothing of it is under way any more, so the source leaf's count is complete. Asks only source leaves.
    """
    wanted: dict[LeafId, set[Key]] = defaultdict(set)
    for each in reports:
        if each.sent is not None and _source(each) in leaves.rules:
            wanted[_source(each)].add(_key(each))
    known = leaves.known(wanted)
    return [each if each.sent is None else _joined(each, known) for each in reports]


def _joined(report: FlowReport, known: Mapping[tuple[LeafId, Key], FlowKnowledge]) -> FlowReport:
    counted = known.get((_source(report), _key(report)))
    return replace(report, entered=None if counted is None else counted.entered)


def _source(report: FlowReport) -> LeafId:
    return report.flow.plane, report.flow.src_leaf


def _key(report: FlowReport) -> Key:
    return report.flow.qpn, report.flow.epoch
