"""Monitor, the paper's monitoring system: makes accusations and conclusions from the reports of all leaves.

Each epoch and expectation is judged by itself. The monitor reports whenever the accusation changes, and once more when
no verdict is owed. Pure except for memory.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from agent.spraycheck.accuse.common_causes import SourceEvidence
from agent.spraycheck.accuse.conclusions import (
    LinkConclusion,
    LinkVerdict,
    Naming,
    PathConclusion,
    link_conclusions,
    path_conclusions,
)
from agent.spraycheck.accuse.explanations import DecidingFlow
from agent.spraycheck.accuse.localization import Evidence, Finding, Localization, localize
from agent.spraycheck.accuse.pooled_flows import LinkSum, PairTotals, link_sums, with_sums
from agent.spraycheck.leaf.flow_reports import FlowReport
from agent.spraycheck.paths import FabricLink, FabricPath, leaf_name
from agent.spraycheck.statistics.declared import declared_packets_needed, judge_host_link
from agent.spraycheck.statistics.flow_times import Span, share_needed
from agent.spraycheck.statistics.uniform import FlowTest, certain_losses, uniform_packets_needed
from agent.spraycheck.statistics.verdicts import STRAY_RATE, Expectation, PathVerdict, Requirements, Verdict

_KEPT = 128  # epochs by expectation, our choice: far more than overlap, so that memory stays bounded

Scope = tuple[int, Expectation]
"""Epoch, and the expectation that its counts are compared with."""


@dataclass(frozen=True, slots=True)
class Accusation:
    """Accusation of one epoch at one moment, by one expectation."""

    epoch: int
    expectation: Expectation
    localization: Localization
    pending: int
    """Verdicts on paths still owed."""
    insufficient: int
    """Verdicts so far that neither accuse nor clear."""
    first_named_ns: int | None
    """Time at which a link of this epoch was first named; monotonic clock."""


@dataclass(frozen=True, slots=True)
class Conclusions:
    """New or changed conclusions of one epoch on paths and links, by one expectation."""

    epoch: int
    expectation: Expectation
    paths: tuple[PathConclusion, ...]
    links: tuple[LinkConclusion, ...]


@dataclass(slots=True)
class _Known:
    totals: PairTotals[tuple[int, FlowReport]] | None = None
    """Sums of flows that say too little alone, each with the place of its first path in `evidence`."""
    evidence: list[Evidence] = field(default_factory=list)
    sources: list[SourceEvidence] = field(default_factory=list)
    last: FlowReport | None = None
    first_named_ns: int | None = None
    situation: tuple[int, frozenset[FabricPath]] | None = None
    """Input of the last localisation: amount of evidence, and verdicts owed."""
    said: tuple[object, ...] | None = None
    namings: dict[str, Naming] = field(default_factory=dict)
    has_named: bool = False
    """Something was named at some time."""
    concluded: dict[object, PathConclusion | LinkConclusion] = field(default_factory=dict)
    """Latest conclusion on each path and link."""


class Monitor:
    """Collects evidence by epoch and expectation. One for all leaves.

    With `required` it says how many packets a deciding flow needs, too. `leaves` are all between which one can go.
    """

    def __init__(self, required: Requirements | None = None, leaves: Collection[int] = ()) -> None:
        self._required = required
        self._leaves = frozenset(leaves)
        self._known: dict[Scope, _Known] = {}
        self._fresh = list[Conclusions]()

    def observe(
        self, reports: Iterable[FlowReport], pending: Mapping[tuple[Scope, FabricPath], int], now_ns: int
    ) -> list[Accusation]:
        """Add new reports; return the accusations that differ from the previous ones.

        `pending` holds how many verdicts are still owed by scope and path.
        """
        owed: dict[Scope, Counter[FabricPath]] = defaultdict(Counter)
        for (scope, path), flows in pending.items():
            owed[scope][path] = flows
        for report in reports:
            self._take(report)
        changes = (self._accuse(scope, known, owed[scope], now_ns) for scope, known in self._known.items())
        return [change for change in changes if change is not None]

    def conclusions(self) -> list[Conclusions]:
        """Return the conclusions on paths and links that are new since the last call.

        Failures and healthy paths come as soon as they are known; all of an epoch when it owes no verdict.
        """
        fresh, self._fresh = self._fresh, []
        return fresh

    def _take(self, report: FlowReport) -> None:
        flow, scope = report.flow, (report.flow.epoch, report.expectation)
        if scope not in self._known:
            self._known[scope] = _Known()
            while len(self._known) > _KEPT:
                del self._known[next(iter(self._known))]
        known = self._known[scope]
        if report.test is not None or report.sent is not None:
            known.last = report
        known.evidence += [_evidence_of(report, each, self._required) for each in report.verdicts]
        if self._required is not None and report.test is not None and _says_too_little(report):
            self._add_up(known, report, report.test, self._required)
        if report.source is not None:
            ends = flow.plane, flow.src_host, flow.src_leaf, flow.dst_leaf, flow.qpn
            known.sources.append(SourceEvidence(*ends, report.source.verdict, self._host_link(report)))

    def _add_up(self, known: _Known, report: FlowReport, test: FlowTest, required: Requirements) -> None:
        """Add a small flow to others of its pair; once they suffice, their paths get the verdicts of the sum (S6)."""
        if known.totals is None:
            known.totals = PairTotals(required)
        pair = report.flow.leaf_pair
        place = len(known.evidence) - len(report.verdicts)
        total = known.totals.add(pair, test.shape, report.counts.arrived, (place, report))
        if total is None:
            return
        spans = [report.span for _, report in total.members if report.span is not None]
        span, miss = reduce(Span.joined, spans) if spans else None, total.test.miss
        for start, _ in total.members:
            for each in total.verdicts:
                alone = known.evidence[start + each.path]
                if alone.verdict is Verdict.INSUFFICIENT:
                    said = replace(alone, verdict=each.verdict, doubt=each.doubt, p_value=each.p_value, miss=miss)
                    known.evidence[start + each.path] = replace(said, span=span, is_sum=True)

    def _host_link(self, report: FlowReport) -> Verdict | None:
        """Judge the host's link by the source leaf's count; None without one."""
        if report.entered is None or report.sent is None or self._required is None:
            return None
        return judge_host_link(sum(report.sent), report.entered, self._required)

    def _accuse(self, scope: Scope, known: _Known, owed: Counter[FabricPath], now_ns: int) -> Accusation | None:
        situation = len(known.evidence), frozenset(owed)
        if situation == known.situation:
            return None
        known.situation = situation
        summed = self._summed(scope, known)
        stray_rate = STRAY_RATE if self._required is None else self._required.stray_rate
        found = localize(summed, owed, known.sources, stray_rate, self._leaves)
        found = replace(found, deciding=tuple(self._counted(each, known.last) for each in found.deciding))
        if found.links and known.first_named_ns is None:
            known.first_named_ns = now_ns
        known.namings = _namings(known.namings, found, known.evidence, now_ns)
        self._conclude(scope, known, summed, found, owed)
        saying = found.finding, found.links, found.candidates, found.common, not owed
        silent = found.finding is Finding.NONE and not (found.common.causes or found.common.candidates)
        if saying == known.said or (silent and owed):
            return None
        known.said = saying
        unsure = sum(each.verdict is Verdict.INSUFFICIENT for each in known.evidence)
        return Accusation(*scope, found, owed.total(), unsure, known.first_named_ns)

    def _summed(self, scope: Scope, known: _Known) -> Sequence[Evidence]:
        """Return the evidence with sums over flows."""
        if scope[1] is not Expectation.DECLARED or self._required is None:
            return known.evidence
        return with_sums(known.evidence, self._required)

    def _conclude(
        self,
        scope: Scope,
        known: _Known,
        summed: Sequence[Evidence],
        found: Localization,
        owed: Counter[FabricPath],
    ) -> None:
        """Keep new conclusions; while verdicts are owed, only certain and changed ones."""
        known.has_named = known.has_named or bool(known.namings)
        # While verdicts are owed, no link is certain but one that is named, and many flows may end one by one.
        links = self._links(scope, known, summed, found, owed) if known.has_named or not owed else []
        by_link = {each.link: each for each in links if isinstance(each.link, FabricLink)}
        paths = path_conclusions(known.evidence, summed, by_link)
        fresh_links = [each for each in links if _is_news(known.concluded, each.link, each, not owed)]
        fresh_paths = [each for each in paths if _is_news(known.concluded, each.path, each, not owed)]
        if fresh_links or fresh_paths:
            known.concluded |= {each.link: each for each in fresh_links} | {each.path: each for each in fresh_paths}
            self._fresh.append(Conclusions(*scope, tuple(fresh_paths), tuple(fresh_links)))

    def _links(
        self,
        scope: Scope,
        known: _Known,
        summed: Sequence[Evidence],
        found: Localization,
        owed: Counter[FabricPath],
    ) -> list[LinkConclusion]:
        """Conclude on all links as of now."""
        sums: dict[FabricLink, LinkSum] | None = None
        if scope[1] is Expectation.DECLARED and self._required is not None:
            accused = {*found.links}.union(*found.candidates)
            causes = {*found.common.causes}.union(*found.common.candidates)
            sums = {each.link: each for each in link_sums(known.evidence, self._required, accused, causes)}
        waiting = {link for path in owed for link in path.links}
        return link_conclusions(summed, found, sums, waiting, known.namings)

    def _counted(self, flow: DecidingFlow, like: FlowReport | None) -> DecidingFlow:
        """Return the flow with the packets that it needs, if it is judged as the flows so far were."""
        if self._required is None or like is None:
            return flow
        required = replace(self._required, min_rate=flow.rate or self._required.min_rate)
        return replace(flow, packets=_needed(like, required, len(like.spines)))


def _is_news(
    concluded: Mapping[object, PathConclusion | LinkConclusion],
    key: object,
    said: PathConclusion | LinkConclusion,
    is_all: bool,
) -> bool:
    before = concluded.get(key)
    if before is not None and before.verdict == said.verdict:
        return is_all and before != said
    is_sure = said.verdict not in (Verdict.INSUFFICIENT, LinkVerdict.UNDECIDED)
    return is_all or is_sure or (before is not None and before.verdict == LinkVerdict.FAILED)


def _namings(
    before: Mapping[str, Naming], found: Localization, evidence: Sequence[Evidence], now_ns: int
) -> dict[str, Naming]:
    """Return everything named now and since when; a name that stays keeps its time."""
    grounds = {
        **{str(link): [each for each in found.evidence if _accuses(each, link)] for link in found.links},
        **{str(cause): [each for each in evidence if cause in each.causes] for cause in found.common.causes},
    }
    return {name: _naming(before.get(name), mine, now_ns) for name, mine in grounds.items()}


def _naming(before: Naming | None, grounds: Sequence[Evidence], now_ns: int) -> Naming:
    leaves = tuple(sorted({leaf_name(each.path.plane, each.path.dst_leaf) for each in grounds}))
    if before is not None:
        return replace(before, leaves=leaves)
    return Naming(now_ns, leaves, round(sum(each.expected for each in grounds)), len(grounds))


def _accuses(each: Evidence, link: FabricLink) -> bool:
    return each.verdict is Verdict.FAILED and link in each.path.links


def _says_too_little(report: FlowReport) -> bool:
    """Report whether only packets are missing: the flow was shared as expected, over all paths, and is too small."""
    weakness = None if report.test is None or report.test.shape.vacant else report.test.weakness
    return weakness is not None and any(each.doubt == weakness for each in report.verdicts)


def _evidence_of(report: FlowReport, verdict: PathVerdict, required: Requirements | None) -> Evidence:
    path = report.flow.path(report.spines[verdict.path])
    needed = None if required is None else _needed(report, required, len(report.spines))
    needs = share_needed(needed, report.expected[verdict.path])
    counts = _sent_and_lost(report, verdict)
    return Evidence(
        path,
        verdict.verdict,
        report.flow.qpn,
        *counts,
        report.span,
        report.lossy,
        needs,
        host=report.flow.src_host,
        expected=report.expected[verdict.path],
        count=verdict.count,
        p_value=verdict.p_value,
        miss=None if report.test is None else report.test.miss,
        doubt=verdict.doubt,
    )


def _needed(report: FlowReport, required: Requirements, paths: int) -> int | None:
    """Return the packets per path from which on a flow judged like this one shows the required rate, if known."""
    if report.sent is not None:
        return declared_packets_needed(paths, required)
    if report.test is None:
        return None
    shape = report.test.shape
    return uniform_packets_needed(shape.policy, paths, shape.copies, required)


def _sent_and_lost(report: FlowReport, verdict: PathVerdict) -> tuple[int, int]:
    """Return packets sent and lost: exact if declared; within the end effect, to the path's favour, under rotation.

    (0, 0) if not known, also where more arrived than was declared: duplicates hide losses.
    """
    if report.sent is not None:
        sent = report.sent[verdict.path]
        return (sent, sent - verdict.count) if verdict.count <= sent else (0, 0)
    if report.test is None or not report.expected[verdict.path]:
        return 0, 0
    return certain_losses(report.test, verdict.count)
