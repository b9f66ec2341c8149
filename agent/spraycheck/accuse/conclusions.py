"""Conclusions of one epoch on each path and each link, with the evidence that they rest on.

Pure. The accusation is made elsewhere (`localize`); here no link is accused, so nothing is added to false alarms.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from agent.spraycheck.accuse.common_causes import CauseKind, CommonCause
from agent.spraycheck.accuse.localization import Evidence, Localization
from agent.spraycheck.accuse.pooled_flows import LinkSum
from agent.spraycheck.paths import FabricLink, FabricPath
from agent.spraycheck.statistics.verdicts import Doubt, DoubtKind, Verdict

CONTRADICTED = Doubt(DoubtKind.CONTRADICTED, "a path over it failed of which every link was found healthy")
OWED = Doubt(DoubtKind.OWED, "verdicts on paths over it are still to come")
BEHIND_ACCUSED = Doubt(DoubtKind.BEHIND_ACCUSED, "every flow over it also crosses a link that is accused")


class LinkVerdict(StrEnum):
    """Conclusion on one direction of a link."""

    FAILED = "failed"
    """The link is named."""
    HEALTHY = "healthy"
    """A drop of the required rate on it would hardly have been missed."""
    UNDECIDED = "undecided"


class Ground(StrEnum):
    """Evidence that the conclusion on a path rests on."""

    FLOW = "flow"
    FLOWS = "flows"
    """Flows of this pair of leaves, added up."""
    LINKS = "links"
    """All flows over the links of the path."""


@dataclass(frozen=True, slots=True)
class PathConclusion:
    """Conclusion on one path, by all flows over it."""

    path: FabricPath
    verdict: Verdict
    by: Ground
    flows: int
    expected: float
    """Packets that a healthy path would have brought, of all these flows."""
    count: int
    p_value: float | None
    doubt: Doubt | None
    """Why `insufficient`."""


@dataclass(frozen=True, slots=True)
class Naming:
    """Time since which a link or cause is named without a break, and the evidence that it rested on at first."""

    since_ns: int
    leaves: tuple[str, ...]
    packets: int
    paths: int


@dataclass(frozen=True, slots=True)
class LinkConclusion:
    """Conclusion on one direction of a link, or on a common cause."""

    link: FabricLink | CommonCause
    verdict: LinkVerdict
    flows: int
    sent: int | None = None
    lost: int | None = None
    p_value: float | None = None
    miss: float | None = None
    likelihood: float | None = None
    rate: float | None = None
    alternatives: tuple[FabricLink | CommonCause, ...] = ()
    doubt: Doubt | None = None
    naming: Naming | None = None


def path_conclusions(
    by_flow: Sequence[Evidence], by_sums: Sequence[Evidence], links: Mapping[FabricLink, LinkConclusion]
) -> list[PathConclusion]:
    """Conclude on every path: `by_flow` is the evidence of each flow, `by_sums` the same with sums over flows.

    A path that says too little is healthy when both its links are, and failed when it lost packets as its flow's other
    paths did, or says too little, and one of its links failed.
    """
    by_path: dict[FabricPath, list[tuple[Evidence, Evidence]]] = defaultdict(list)
    for own, said in zip(by_flow, by_sums, strict=True):
        by_path[own.path].append((own, said))
    return [_path_conclusion(path, pairs, links) for path, pairs in by_path.items()]


def _path_conclusion(
    path: FabricPath, pairs: Sequence[tuple[Evidence, Evidence]], links: Mapping[FabricLink, LinkConclusion]
) -> PathConclusion:
    """Conclude on one path: a failed flow decides before a healthy one, and that before one that says too little."""
    verdicts = [said.verdict for _, said in pairs]
    verdict = next((each for each in Verdict if each in verdicts), Verdict.INSUFFICIENT)
    mine = [(own, said) for own, said in pairs if said.verdict is verdict]
    own, said = min(mine, key=lambda pair: (pair[1].p_value or 0.0) if verdict is Verdict.FAILED else -pair[1].expected)
    is_sum = said.is_sum or own.verdict is not verdict
    known = PathConclusion(
        path,
        verdict,
        Ground.FLOWS if is_sum else Ground.FLOW,
        len(pairs),
        sum(each.expected for each, _ in pairs),
        sum(each.count for each, _ in pairs),
        said.p_value,
        said.doubt if verdict is Verdict.INSUFFICIENT else None,
    )
    return _by_links(known, [links[link] for link in path.links if link in links])


def _by_links(known: PathConclusion, links: Sequence[LinkConclusion]) -> PathConclusion:
    kind = None if known.doubt is None else known.doubt.kind
    if kind not in (DoubtKind.FEW_PACKETS, DoubtKind.LOST_ALIKE):
        return known
    failed = [each for each in links if each.verdict is LinkVerdict.FAILED and each.sent is not None]
    if failed:
        return replace(known, verdict=Verdict.FAILED, by=Ground.LINKS, p_value=failed[0].p_value, doubt=None)
    if kind is DoubtKind.FEW_PACKETS and [each.verdict for each in links] == [LinkVerdict.HEALTHY] * 2:
        p_value = min((each.p_value for each in links if each.p_value is not None), default=None)
        return replace(known, verdict=Verdict.HEALTHY, by=Ground.LINKS, p_value=p_value, doubt=None)
    return known


def link_conclusions(
    evidence: Iterable[Evidence],
    found: Localization,
    sums: Mapping[FabricLink, LinkSum] | None,
    owed: Collection[FabricLink],
    namings: Mapping[str, Naming],
) -> list[LinkConclusion]:
    """Conclude on every link that a flow crosses, and on every common cause that is named.

    `evidence` is that of flows and of their sums; `sums` are over each link, where the number sent is known
    (`declared`); None: a link is then healthy by its paths. `owed` are links on which a verdict is to come.
    """
    over: dict[FabricLink, list[Evidence]] = defaultdict(list)
    for each in evidence:
        for link in each.path.links:
            over[link].append(each)
    contradicted = _contradicted(found, over)
    links = [_link_conclusion(link, over[link], found, sums) for link in over]
    links = [
        replace(each, verdict=LinkVerdict.UNDECIDED, doubt=doubt) if doubt and not _is_accused(each, found) else each
        for each in links
        for doubt in [CONTRADICTED if each.link in contradicted else OWED if each.link in owed else None]
    ]
    causes = [LinkConclusion(cause, LinkVerdict.FAILED, 0) for cause in found.common.causes]
    return [replace(each, naming=namings.get(str(each.link))) for each in (*links, *causes)]


def _is_accused(said: LinkConclusion, found: Localization) -> bool:
    return said.verdict is LinkVerdict.FAILED or any(said.link in suspects for suspects in found.candidates)


def _contradicted(found: Localization, over: Mapping[FabricLink, Collection[Evidence]]) -> set[FabricLink]:
    """Return the links of failed paths of which no link is accused."""
    accused = {*found.links}.union(*found.candidates)
    failed = (each for flows in over.values() for each in flows if each.verdict is Verdict.FAILED)
    return {link for each in failed if accused.isdisjoint(each.path.links) for link in each.path.links}


def _link_conclusion(
    link: FabricLink, flows: Sequence[Evidence], found: Localization, sums: Mapping[FabricLink, LinkSum] | None
) -> LinkConclusion:
    known = _known(link, flows) if sums is None else _summed(link, flows, sums.get(link))
    estimate = next((each for each in found.estimates if each.link == link), None)
    if estimate is not None:
        known = replace(known, likelihood=estimate.likelihood, rate=estimate.rate)
    if link in found.links or not {*found.common.causes}.isdisjoint(_common_of(link)):
        return replace(known, verdict=LinkVerdict.FAILED, doubt=None)
    for suspects in found.candidates:
        if link in suspects:
            others = tuple(each for each in suspects if each != link)
            text = f"the evidence does not show whether it failed or {' or '.join(map(str, others))}"
            doubt = Doubt(DoubtKind.SUSPECT, text)
            return replace(known, verdict=LinkVerdict.UNDECIDED, alternatives=others, doubt=doubt)
    if known.verdict is LinkVerdict.UNDECIDED:
        return replace(known, alternatives=_shared(flows, found))
    return known


def _common_of(link: FabricLink) -> tuple[CommonCause]:
    """Return the cause that is all links of its leaf in its direction."""
    return (CommonCause(link.plane, CauseKind.UPLINKS if link.up else CauseKind.DOWNLINKS, link.leaf),)


def _shared(flows: Iterable[Evidence], found: Localization) -> tuple[CommonCause, ...]:
    """Return the named or suspected causes that the paths of these flows share."""
    accused = {*found.common.causes}.union(*found.common.candidates)
    return tuple(sorted({cause for each in flows for cause in each.causes if cause in accused}))


def _known(link: FabricLink, flows: Sequence[Evidence]) -> LinkConclusion:
    """Conclude by its paths: healthy if one of them is, with the most packets that any such path brought."""
    healthy = [each for each in flows if each.verdict is Verdict.HEALTHY]
    failed = [each for each in flows if each.verdict is Verdict.FAILED]
    best = max(healthy or failed or flows, key=lambda each: each.expected)
    verdict = LinkVerdict.HEALTHY if healthy else LinkVerdict.UNDECIDED
    doubt = None if healthy else _doubt_of(flows) or BEHIND_ACCUSED
    return LinkConclusion(link, verdict, len(flows), p_value=best.p_value, miss=best.miss, doubt=doubt)


def _summed(link: FabricLink, flows: Sequence[Evidence], said: LinkSum | None) -> LinkConclusion:
    """Conclude by all that was sent over it and lost."""
    if said is None:
        doubt = BEHIND_ACCUSED if any(each.sent for each in flows) else _doubt_of(flows)
        return LinkConclusion(link, LinkVerdict.UNDECIDED, 0, 0, 0, doubt=doubt)
    verdict = LinkVerdict.HEALTHY if said.verdict is Verdict.HEALTHY else LinkVerdict.UNDECIDED
    doubt = said.doubt
    if said.verdict is Verdict.FAILED:
        doubt = Doubt(DoubtKind.LOST_ALIKE, "packets were lost over it in sum, and the evidence does not show where")
    return LinkConclusion(link, verdict, said.flows, said.sent, said.lost, said.p_value, said.miss, doubt=doubt)


def _doubt_of(flows: Sequence[Evidence]) -> Doubt | None:
    """Return the most frequent doubt, from the flow with most packets; NOTHING_SENT only if no flow sent."""
    doubts = [each.doubt for each in sorted(flows, key=lambda each: -each.expected) if each.doubt is not None]
    doubts = [each for each in doubts if each.kind is not DoubtKind.NOTHING_SENT] or doubts
    kinds = Counter(each.kind for each in doubts).most_common(1)
    return next((each for each in doubts if each.kind is kinds[0][0]), None)
