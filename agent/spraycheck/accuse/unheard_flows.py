"""Unheard flows: a plane's leaves have received nothing of them, but senders declare over other planes what they sent.

All of a flow's announcements in a plane are lost where a host's uplink is dead, or all paths of a pair of leaves. Then
no leaf of that plane has a record to judge. What the sender declares elsewhere takes its place: so many packets were
sent, and none came. Its clock is an argument.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from agent.spraycheck.accuse.monitor import Scope
from agent.spraycheck.leaf.flow_reports import Declaration, FlowReport, Key, LeafRules, declared_report, in_order
from agent.spraycheck.leaf.leaves import FlowKnowledge, LeafRound, Leaves
from agent.spraycheck.paths import FabricPath, LeafId
from agent.spraycheck.statistics.verdicts import Doubt, DoubtKind, Expectation, PathVerdict, Verdict


class UnheardFlows:
    """Finds flows of which the leaves have certainly heard nothing, and reports each once."""

    def __init__(self, leaves: Leaves) -> None:
        self._leaves = leaves
        self._rules = leaves.rules
        planes = {plane for plane, _ in self._rules}
        self._listens = len(planes) > 1 and not any(each.narrow or each.one for each in self._rules.values())
        """A leaf that measures one flow at a time keeps nothing of the others, and 16 bits declare nothing."""
        self._waiting: dict[Declaration, int] = {}
        """Declarations that wait, with the time since when."""
        self._over: dict[Declaration, int] = {}
        """Declarations that are settled, with the time; kept as long as copies may come."""

    def reports(self, rounds: Collection[LeafRound], now_ns: int) -> list[FlowReport]:
        """Report flows found to be unheard since the last call, with this round of all leaves.

        Raises SprayCheckError.
        """
        if not self._listens:
            return []
        for declaration in (declaration for each in rounds for declaration in each.declarations):
            if declaration not in self._over and _target(declaration) in self._rules:
                self._waiting.setdefault(declaration, now_ns)
        known = self._known()
        waiting = list(self._waiting.items())
        found = [
            report for declaration, since_ns in waiting for report in self._settle(declaration, known, since_ns, now_ns)
        ]
        kept_ns = max(each.erase_after_ns for each in self._rules.values())
        self._over = {declaration: at_ns for declaration, at_ns in self._over.items() if now_ns - at_ns <= kept_ns}
        return found

    def owed(self) -> Counter[tuple[Scope, FabricPath]]:
        """Count the verdicts owed on flows that may be unheard."""
        return Counter(
            ((declaration.flow.epoch, expectation), declaration.flow.path(spine))
            for declaration in self._waiting
            for expectation in Expectation
            for spine in self._rules[_target(declaration)].spines
        )

    def _known(self) -> dict[tuple[LeafId, Key], FlowKnowledge]:
        """Ask the leaves at both ends about the flows that wait."""
        wanted: dict[LeafId, set[Key]] = defaultdict(set)
        for declaration in self._waiting:
            for place in {_target(declaration), _source(declaration)} & self._rules.keys():
                wanted[place].add(_key(declaration))
        return self._leaves.known(wanted)

    def _settle(
        self, declaration: Declaration, known: Mapping[tuple[LeafId, Key], FlowKnowledge], since_ns: int, now_ns: int
    ) -> tuple[FlowReport, ...]:
        target, source = (
            known[_target(declaration), _key(declaration)],
            known.get((_source(declaration), _key(declaration))),
        )
        if target.heard or target.refused or (source is not None and source.refused):
            self._end(declaration, now_ns)
            return ()
        rules = self._rules[_target(declaration)]
        if now_ns - since_ns < rules.quiet_ns:
            return ()
        self._end(declaration, now_ns)
        return unheard_reports(rules, declaration, _entered(source))

    def _end(self, declaration: Declaration, now_ns: int) -> None:
        del self._waiting[declaration]
        self._over[declaration] = now_ns


def unheard_reports(rules: LeafRules, declaration: Declaration, entered: int | None) -> tuple[FlowReport, ...]:
    """Make the reports on a flow of which nothing has come to its leaf, by its sender's declaration elsewhere."""
    spines, sent = rules.spines, np.array(declaration.sent, np.int64)
    nothing = np.zeros(len(spines), np.int64)
    counts = in_order(nothing)
    if len(sent) != len(spines):
        return ()
    doubt = Doubt(
        DoubtKind.NOT_COUNTED,
        f"this leaf has heard nothing of the flow, which by its sender put {sent.sum():,} packets into this plane",
    )
    expected = (declaration.flow.packets / len(spines),) * len(spines)
    unsure = tuple(PathVerdict(path, 0, Verdict.INSUFFICIENT, doubt) for path in range(len(spines)))
    uniform = FlowReport(declaration.flow, Expectation.UNIFORM, spines, expected, None, unsure, counts)
    declared = replace(declared_report(declaration.flow, sent, nothing, rules.required, entered), spines=spines)
    return uniform, declared


def _entered(source: FlowKnowledge | None) -> int | None:
    """Return the first transmissions of a flow that came to its source leaf, 0 if that has heard nothing of it.

    None if it is not known: a newer flow of the queue pair has taken its place.
    """
    if source is None or source.replaced:
        return None
    return source.entered or 0


def _target(declaration: Declaration) -> LeafId:
    return declaration.flow.plane, declaration.flow.dst_leaf


def _source(declaration: Declaration) -> LeafId:
    return declaration.flow.plane, declaration.flow.src_leaf


def _key(declaration: Declaration) -> Key:
    return declaration.flow.qpn, declaration.flow.epoch
