"""All leaves of a lab as the monitor sees them: what each says a round, and what it knows of a flow when asked.

A leaf is in this process, or in one of its own (`remote`); the monitor cannot tell the difference.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from agent.spraycheck.leaf.flow_reports import ChosenFlow, FlowReport, Key, LeafRules, RefusedFlow, ToldFlow
from agent.spraycheck.leaf.leaf_detector import LeafDetector, pending_paths
from agent.spraycheck.paths import FabricPath
from agent.spraycheck.statistics.verdicts import Expectation

Place = tuple[int, int]
"""Plane and leaf."""


@dataclass(frozen=True, slots=True)
class Owed:
    """Verdicts that a leaf still owes on a path in one epoch, by one expectation."""

    epoch: int
    expectation: Expectation
    path: FabricPath
    flows: int


@dataclass(frozen=True, slots=True)
class Turn:
    """What a leaf says in one round."""

    chosen: tuple[ChosenFlow, ...]
    """Flows that it has begun to measure as their source since the last round; none where it measures all."""
    refused: tuple[RefusedFlow, ...]
    """Flows for which it had no room since then."""
    reports: tuple[FlowReport, ...]
    """Of flows that ended since then."""
    owed: tuple[Owed, ...]
    told: tuple[ToldFlow, ...]
    """What senders declared here since then of their flows in other planes."""


@dataclass(frozen=True, slots=True)
class Known:
    """What a leaf knows of one flow at its last round."""

    heard: bool
    """An announcement of the flow has come to this leaf as the flow's destination."""
    refused: bool
    """The leaf had no room for it."""
    entered: int | None
    """First transmissions that have come from the flow's host; None: this leaf does not count that flow."""
    replaced: bool
    """A newer flow of the queue pair is counted in its place."""


class Leaves(Protocol):
    """What the monitor needs of all leaves."""

    @property
    def rules(self) -> Mapping[Place, LeafRules]:
        """What each leaf goes by, in the order of `turns`."""
        ...

    def turns(self, now_ns: int) -> list[Turn]:
        """One round of every leaf. Raises SprayCheckError."""
        ...

    def known(self, wanted: Mapping[Place, Collection[Key]]) -> dict[tuple[Place, Key], Known]:
        """What leaves know of flows. Asks no leaf of which nothing is wanted. Raises SprayCheckError."""
        ...


class SharedLeaves:
    """Leaves whose maps this process reads itself."""

    def __init__(self, detectors: Sequence[LeafDetector]) -> None:
        self._detectors = {(each.rules.plane, each.rules.leaf): each for each in detectors}

    @property
    def rules(self) -> Mapping[Place, LeafRules]:
        """What each leaf goes by."""
        return {place: each.rules for place, each in self._detectors.items()}

    def turns(self, now_ns: int) -> list[Turn]:
        """One round of every leaf. Raises CountersError."""
        return [turn_of(each, now_ns) for each in self._detectors.values()]

    def known(self, wanted: Mapping[Place, Collection[Key]]) -> dict[tuple[Place, Key], Known]:
        """What leaves know of flows. Raises CountersError."""
        return {
            (place, key): known
            for place, keys in wanted.items()
            if keys
            for key, known in zip(keys, known_of(self._detectors[place], keys), strict=True)
        }


def turn_of(detector: LeafDetector, now_ns: int) -> Turn:
    """One round of a leaf. Raises CountersError."""
    chosen, refused, reports = detector.chosen(), detector.refused(), detector.poll(now_ns)
    # What senders told of other planes is taken out also where nobody uses it, or the map would fill.
    owed = (Owed(*matter, path, flows) for (matter, path), flows in pending_paths(detector).items())
    return Turn(tuple(chosen), tuple(refused), tuple(reports), tuple(owed), tuple(detector.told_elsewhere()))


def known_of(detector: LeafDetector, keys: Collection[Key]) -> list[Known]:
    """What a leaf knows of these flows, in their order. Raises CountersError."""
    entered = detector.entered()
    marked = {qpn for qpn, _ in entered}
    return [
        Known(
            detector.has_heard_of(key),
            detector.has_refused(key),
            entered.get(key),
            key not in entered and key[0] in marked,
        )
        for key in keys
    ]


def owed_of(turns: Collection[Turn]) -> Counter[tuple[tuple[int, Expectation], FabricPath]]:
    """Verdicts that all leaves still owe, by epoch and expectation, and by path."""
    owed = Counter[tuple[tuple[int, Expectation], FabricPath]]()
    for each in (each for turn in turns for each in turn.owed):
        owed[(each.epoch, each.expectation), each.path] += each.flows
    return owed


def with_source_counts(reports: Sequence[FlowReport], leaves: Leaves) -> list[FlowReport]:
    """The same reports; those by a declaration with the source leaf's count, where it has one. Raises SprayCheckError.

    The two counts tell a host's own link from what lies behind its leaf. When a flow is judged by its declaration
    nothing of it is on its way any more, so the source leaf's count is complete. Asks no leaf that is the source of
    none.
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
