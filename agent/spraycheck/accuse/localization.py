"""Localization: the links accused by the verdicts on paths of many leaves; what the evidence leaves open stays open.

Pure. A flagged path accuses its two links, a healthy one clears both of its own if it was there at the time, an
insufficient one says nothing. What remains is explained by as few links as possible; every such explanation counts, and
where packets sent are known, how likely it makes the counts. SprayCheck L1 to L4.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from agent.spraycheck.accuse.common_causes import (
    NOTHING_COMMON,
    CommonCause,
    CommonFinding,
    SourceEvidence,
    causes_of,
    common_causes,
)
from agent.spraycheck.accuse.explanations import (
    MOST_CAUSES,
    DecidingFlow,
    Fit,
    Observation,
    deciding_flow,
    fit,
    independent_parts,
    larger_explanations,
    shares,
    smallest_explanations,
)
from agent.spraycheck.paths import FabricLink, FabricPath
from agent.spraycheck.statistics.flow_times import MOST_SHARE, LossTime, Span
from agent.spraycheck.statistics.verdicts import STRAY_RATE, Doubt, Verdict

MOST_WEIGHED = 64
"""Most explanations of one part that are weighed; with more, links are listed without likelihoods. Our choice: a fit
takes some 2 ms, and the monitor has ten polls a second."""

Explanation = frozenset[FabricLink]
Suspects = tuple[FabricLink, ...]
"""The links of a flagged path, or of an explanation, in order."""


class Finding(StrEnum):
    """Certainty of the accusation, from best to worst."""

    NONE = "none"
    """Nothing was flagged."""
    NAMED = "named"
    """Every flagged path is explained, in one way only."""
    AMBIGUOUS = "ambiguous"
    """More than one explanation is as good, or evidence that could change it is still to come."""
    UNEXPLAINED = "unexplained"
    """A flagged path of which every link was found healthy: the evidence contradicts itself."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Verdict and counts of one flow on one path."""

    path: FabricPath
    verdict: Verdict
    qpn: int
    sent: int = 0
    """Packets put on the path; 0 if that is not known, or only up to chance."""
    lost: int = 0
    """Packets lost, of those sent."""
    span: Span | None = None
    """Time in which the flow was under way; None if not known, which counts as all the time."""
    lossy: LossTime | None = None
    """Time in which a failed path lost packets; None: at any time."""
    needs: float = MOST_SHARE
    """Share of a healthy path's packets that must fall into the time of a loss for it to clear its links."""
    host: int = -1
    """The flow's source host."""
    expected: float = 0.0
    """Packets that a healthy path brings."""
    count: int = 0
    """Packets that came."""
    p_value: float | None = None
    """P-value of the test that the verdict rests on: probability that a healthy path looks as bad as this or worse."""
    miss: float | None = None
    """Probability that this test misses a drop of the required rate; None if that is not known."""
    doubt: Doubt | None = None
    """Why `insufficient`."""
    is_sum: bool = False
    """The verdict is that of several flows of this pair of leaves added up."""

    @property
    def causes(self) -> tuple[CommonCause, CommonCause, CommonCause]:
        """The causes that the paths of this flow share."""
        return causes_of(self.path.plane, self.host, self.path.src_leaf, self.path.dst_leaf)

    def share_at(self, flagged: "Evidence") -> float:
        """Compute the share of this flow's packets, if sent evenly, sent while the flagged one lost packets: 0 to 1."""
        window = flagged.lossy.window if flagged.lossy else flagged.span
        return 1.0 if self.span is None or window is None else self.span.share_within(window)

    def clears(self, flagged: "Evidence") -> bool:
        """Report whether this healthy path clears the links that it shares with the flagged one."""
        if flagged.lossy and self.span and not flagged.lossy.is_met_by(self.span):
            return False
        return self.share_at(flagged) >= self.needs


@dataclass(frozen=True, slots=True)
class LinkEstimate:
    """Likelihood and drop rate of one accused or suspected link, by the counts."""

    link: FabricLink
    likelihood: float
    """Probability that it failed, given that the links listed are all that can have; 1 if it is named."""
    rate: float | None
    """Its most likely drop rate, if it failed; None without counts."""


@dataclass(frozen=True, slots=True)
class Localization:
    """Accusation of links and common causes, with its evidence."""

    finding: Finding
    """Certainty about fabric links; not about common causes."""
    links: tuple[FabricLink, ...]
    """Links accused for certain: those in every explanation."""
    candidates: tuple[Suspects, ...]
    """Suspects of each independent failure that stays open: its failed links and others."""
    fewest: tuple[int, ...]
    """Least number of failed links in each of `candidates`."""
    evidence: tuple[Evidence, ...]
    """Every flagged path, and every healthy one that clears a link of a flagged path."""
    estimates: tuple[LinkEstimate, ...] = ()
    """Estimates for every link in `links` and `candidates`, the likeliest first."""
    deciding: tuple[DecidingFlow, ...] = ()
    """Flow that would narrow each of `candidates` best, if there is one."""
    common: CommonFinding = NOTHING_COMMON
    """Causes that lost packets of all paths of a flow alike."""
    untimely: tuple[Evidence, ...] = ()
    """Healthy paths over a link of a flagged one which clear nothing: they were not under way at the time."""


@dataclass(frozen=True, slots=True)
class _Part:
    """One independent failure and its explanations."""

    certain: Explanation
    open_ended: Suspects
    shares: Mapping[Explanation, float]
    """Probability of each explanation."""
    fits: tuple[Fit, ...]
    fewest: int = 0
    """Links of `open_ended` that have failed at least."""


def localize(
    evidence: Collection[Evidence],
    pending: Iterable[FabricPath] = (),
    sources: Collection[SourceEvidence] = (),
    stray_rate: float = STRAY_RATE,
    leaves: Collection[int] = (),
) -> Localization:
    """Accuse links by `evidence`, while the verdicts on `pending` paths are still to come.

    `leaves` are those between which a deciding flow can go, besides those that `evidence` is about.

    A link that is the only suspect of a flagged path is named at once. Where only the smallest explanation speaks for
    a link, it is named when no pending path could still clear or charge a suspect, and the counts do not refute it.
    """
    flagged = [item for item in evidence if item.verdict is Verdict.FAILED]
    charged = {link for item in flagged for link in item.path.links}
    healthy = [item for item in evidence if item.verdict is Verdict.HEALTHY and not charged.isdisjoint(item.path.links)]
    timely = _timely(flagged, healthy)
    clearing = [item for item, there in zip(healthy, timely, strict=True) if there]
    cleared = {link for item in clearing for link in item.path.links}
    suspects = _suspects(flagged, clearing)
    sole = frozenset(left[0] for left in suspects if len(left) == 1)
    awaited = {link for path in pending for link in path.links}

    findings = [left for left in suspects if left and not sole.intersection(left)]
    open_evidence = [item for item in evidence if sole.isdisjoint(item.path.links)]
    parts = [_explain(part, awaited, open_evidence, stray_rate) for part in independent_parts(findings)]
    links = sole.union(*(part.certain for part in parts))
    unsettled = sorted((part.open_ended, part.fewest) for part in parts if part.open_ended)
    candidates = tuple(suspects for suspects, _ in unsettled)
    finding = _finding(bool(flagged), not all(suspects), bool(candidates))
    return Localization(
        finding,
        tuple(sorted(links)),
        candidates,
        tuple(fewest for _, fewest in unsettled),
        (*flagged, *clearing),
        _estimates(parts, _named_rates(sole, evidence, stray_rate)),
        _deciding(parts, evidence, cleared, leaves),
        common_causes(sources),
        tuple(item for item, there in zip(healthy, timely, strict=True) if not there),
    )


def _timely(flagged: Collection[Evidence], healthy: Collection[Evidence]) -> list[bool]:
    """Report for each healthy path whether it clears a link of a flagged one."""
    over = _by_link(flagged)
    return [any(each.clears(item) for link in each.path.links for item in over[link]) for each in healthy]


def _suspects(flagged: Collection[Evidence], clearing: Collection[Evidence]) -> list[Suspects]:
    """Return the links of each flagged path that no healthy one of its time clears, without repetition."""
    over = _by_link(clearing)
    left = (tuple(link for link in item.path.links if not _is_cleared(over[link], item)) for item in flagged)
    return list(dict.fromkeys(left))


def _is_cleared(clearing: Collection[Evidence], flagged: Evidence) -> bool:
    return any(each.clears(flagged) for each in clearing)


def _by_link(evidence: Collection[Evidence]) -> dict[FabricLink, list[Evidence]]:
    found: dict[FabricLink, list[Evidence]] = defaultdict(list)
    for each in evidence:
        for link in each.path.links:
            found[link].append(each)
    return found


def _finding(flagged: bool, contradicted: bool, open_ended: bool) -> Finding:
    if contradicted:
        return Finding.UNEXPLAINED
    if open_ended:
        return Finding.AMBIGUOUS
    return Finding.NAMED if flagged else Finding.NONE


def _explain(
    findings: Collection[Suspects], awaited: set[FabricLink], evidence: Collection[Evidence], stray_rate: float
) -> _Part:
    """Find the links certain to have failed, and those among which the others are."""
    suspects = frozenset(link for each in findings for link in each)
    explanations = smallest_explanations(findings)
    if explanations is None:
        return _Part(frozenset(), tuple(sorted(suspects)), {}, (), MOST_CAUSES + 1)
    fewest = min(map(len, explanations))
    fits = _weigh(explanations, findings, _observations(suspects, evidence), stray_rate)
    explanations = {frozenset(each.links) for each in fits}
    weights = dict(zip((frozenset(each.links) for each in fits), shares(fits).tolist(), strict=True))
    if awaited & suspects:
        # A verdict to come may clear a suspect, and make a larger explanation the right one.
        return _Part(frozenset(), tuple(sorted(suspects)), weights, fits, fewest)
    certain = frozenset.intersection(*explanations)
    open_ended = tuple(sorted(frozenset.union(*explanations) - certain))
    return _Part(certain, open_ended, weights, fits, fewest - len(certain))


def _weigh(
    explanations: set[Explanation], findings: Collection[Suspects], seen: list[Observation], stray_rate: float
) -> tuple[Fit, ...]:
    """Fit the smallest explanations, and if the counts refute them all, those of one link more.

    Losses in bursts, or during part of a flow, deviate from any rate: so a refuted explanation stays on the list.
    """
    if len(explanations) > MOST_WEIGHED:
        seen = []
    fits = tuple(fit(each, seen, stray_rate) for each in explanations)
    if any(each.fits for each in fits):
        return fits
    larger = larger_explanations(explanations, findings)
    if not larger or len(larger) > MOST_WEIGHED:
        return fits
    return fits + tuple(fit(each, seen, stray_rate) for each in larger)


def _observations(suspects: Collection[FabricLink], evidence: Collection[Evidence]) -> list[Observation]:
    """Collect the counts of all paths over these links, whatever their verdict: weak evidence counts too.

    Of a path that is not flagged, only what was sent while a flagged one lost packets counts.
    """
    mine = [item for item in evidence if item.sent and not frozenset(suspects).isdisjoint(item.path.links)]
    flagged = [item for item in mine if item.verdict is Verdict.FAILED]
    return [Observation(item.path, sent, item.lost) for item in mine if (sent := _sent_at(item, flagged))]


def _sent_at(item: Evidence, flagged: Collection[Evidence]) -> int:
    if item.verdict is Verdict.FAILED or item.span is None:
        return item.sent
    share = max((item.share_at(each) for each in flagged), default=1.0)
    return max(round(item.sent * share), item.lost)


def _named_rates(
    sole: Explanation, evidence: Collection[Evidence], stray_rate: float
) -> dict[FabricLink, float | None]:
    seen = _observations(sole, evidence)
    if not seen or not sole:
        return dict.fromkeys(sole)
    fitted = fit(sole, seen, stray_rate)
    return dict(zip(fitted.links, fitted.rates, strict=True))


def _estimates(parts: Collection[_Part], named: Mapping[FabricLink, float | None]) -> tuple[LinkEstimate, ...]:
    found = [LinkEstimate(link, 1.0, rate) for link, rate in named.items()]
    for part in parts:
        rates = _rates_of(part)
        for link in {*part.certain, *part.open_ended}:
            likelihood = sum(share for links, share in part.shares.items() if link in links)
            if part.shares:
                found.append(LinkEstimate(link, round(likelihood, 6), rates.get(link)))
    return tuple(sorted(found, key=lambda each: (-each.likelihood, each.link)))


def _rates_of(part: _Part) -> dict[FabricLink, float]:
    """Return the rate of each link in the likeliest explanation that holds it; empty without counts."""
    if not part.fits or not any(map(any, (each.rates for each in part.fits))):
        return {}
    rates: dict[FabricLink, float] = {}
    for each in sorted(part.fits, key=lambda each: -part.shares[frozenset(each.links)]):
        for link, rate in zip(each.links, each.rates, strict=True):
            rates.setdefault(link, rate)
    return rates


def _deciding(
    parts: Collection[_Part], evidence: Collection[Evidence], cleared: Collection[FabricLink], more: Collection[int]
) -> tuple[DecidingFlow, ...]:
    leaves = {leaf for item in evidence for leaf in (item.path.src_leaf, item.path.dst_leaf)}.union(more)
    unsettled = [part for part in parts if part.open_ended and part.shares]
    flows = [deciding_flow(_doubted(part.shares), _rates_of(part), leaves, cleared) for part in unsettled]
    return tuple(each for each in flows if each is not None)


def _doubted(shares: Mapping[Explanation, float]) -> dict[Explanation, float]:
    """Mix probabilities by counts with equal ones: a flow must still rule out what is only unlikely."""
    return {links: (share + 1 / len(shares)) / 2 for links, share in shares.items()}
