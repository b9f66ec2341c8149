"""Flows of which a plane's leaves have heard nothing, while senders declare over other planes what they sent in it.

All of a flow's announcements in a plane are lost where a host's uplink is dead, or all paths of a pair of leaves. Then
no leaf of that plane has a record to judge. What the sender declares elsewhere takes its place: so many packets were
sent, and none came. Its clock is an argument.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from agent.spraycheck.accuse.monitor import Matter
from agent.spraycheck.leaf.flow_reports import FlowReport, Key, LeafRules, ToldFlow, declared_report, in_order
from agent.spraycheck.leaf.leaves import Known, Leaves, Place, Turn
from agent.spraycheck.paths import FabricPath
from agent.spraycheck.statistics.verdicts import Doubt, DoubtKind, Expectation, PathVerdict, Verdict


class Unheard:
    """Waits until it is certain that the leaves have heard nothing, and reports each such flow once."""

    def __init__(self, leaves: Leaves) -> None:
        self._leaves = leaves
        self._rules = leaves.rules
        planes = {plane for plane, _ in self._rules}
        self._listens = len(planes) > 1 and not any(each.narrow or each.one for each in self._rules.values())
        """A leaf that measures one flow at a time keeps nothing of the others, and 16 bits declare nothing."""
        self._waiting: dict[ToldFlow, int] = {}
        """Since when."""
        self._over: dict[ToldFlow, int] = {}
        """When it was settled; kept as long as copies of a declaration may come."""

    def reports(self, turns: Collection[Turn], now_ns: int) -> list[FlowReport]:
        """Of flows that are known to be unheard since the last call, with this round of all leaves.

        Raises SprayCheckError.
        """
        if not self._listens:
            return []
        for told in (told for turn in turns for told in turn.told):
            if told not in self._over and _target(told) in self._rules:
                self._waiting.setdefault(told, now_ns)
        known = self._known()
        waiting = list(self._waiting.items())
        found = [report for told, since_ns in waiting for report in self._settle(told, known, since_ns, now_ns)]
        kept_ns = max(each.erase_after_ns for each in self._rules.values())
        self._over = {told: at_ns for told, at_ns in self._over.items() if now_ns - at_ns <= kept_ns}
        return found

    def owed(self) -> Counter[tuple[Matter, FabricPath]]:
        """Verdicts on flows that may be unheard."""
        return Counter(
            ((told.flow.epoch, expectation), told.flow.path(spine))
            for told in self._waiting
            for expectation in Expectation
            for spine in self._rules[_target(told)].spines
        )

    def _known(self) -> dict[tuple[Place, Key], Known]:
        """What the leaves at both ends know of the flows that wait."""
        wanted: dict[Place, set[Key]] = defaultdict(set)
        for told in self._waiting:
            for place in {_target(told), _source(told)} & self._rules.keys():
                wanted[place].add(_key(told))
        return self._leaves.known(wanted)

    def _settle(
        self, told: ToldFlow, known: Mapping[tuple[Place, Key], Known], since_ns: int, now_ns: int
    ) -> tuple[FlowReport, ...]:
        target, source = known[_target(told), _key(told)], known.get((_source(told), _key(told)))
        if target.heard or target.refused or (source is not None and source.refused):
            self._end(told, now_ns)
            return ()
        rules = self._rules[_target(told)]
        if now_ns - since_ns < rules.quiet_ns:
            return ()
        self._end(told, now_ns)
        return unheard_reports(rules, told, _entered(source))

    def _end(self, told: ToldFlow, now_ns: int) -> None:
        del self._waiting[told]
        self._over[told] = now_ns


def unheard_reports(rules: LeafRules, told: ToldFlow, entered: int | None) -> tuple[FlowReport, ...]:
    """The reports on a flow of which nothing has come to its leaf, by what its sender declares elsewhere."""
    spines, sent = rules.spines, np.array(told.sent, np.int64)
    nothing = np.zeros(len(spines), np.int64)
    counts = in_order(nothing)
    if len(sent) != len(spines):
        return ()
    doubt = Doubt(
        DoubtKind.NOT_COUNTED,
        f"this leaf has heard nothing of the flow, which by its sender put {sent.sum():,} packets into this plane",
    )
    expected = (told.flow.packets / len(spines),) * len(spines)
    unsure = tuple(PathVerdict(path, 0, Verdict.INSUFFICIENT, doubt) for path in range(len(spines)))
    uniform = FlowReport(told.flow, Expectation.UNIFORM, spines, expected, None, unsure, counts)
    declared = replace(declared_report(told.flow, sent, nothing, rules.asked, entered), spines=spines)
    return uniform, declared


def _entered(source: Known | None) -> int | None:
    """First transmissions of a flow that came to its source leaf, 0 if that has heard nothing of it.

    None if it is not known: a newer flow of the queue pair has taken its place.
    """
    if source is None or source.replaced:
        return None
    return source.entered or 0


def _target(told: ToldFlow) -> Place:
    return told.flow.plane, told.flow.dst_leaf


def _source(told: ToldFlow) -> Place:
    return told.flow.plane, told.flow.src_leaf


def _key(told: ToldFlow) -> Key:
    return told.flow.qpn, told.flow.epoch
