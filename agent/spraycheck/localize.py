"""Verdicts on the paths of many leaves to accused links; what the evidence leaves open stays open.

Pure. A flagged path accuses its two links, a healthy one clears both of its own, an insufficient one says nothing. What
remains is explained by as few links as possible; every such explanation counts. SprayCheck L1 to L4.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from agent.spraycheck.detector import Verdict
from agent.spraycheck.paths import FabricLink, FabricPath

MOST_LINKS = 12
"""No explanation with more links is searched for: all suspects are listed. Our choice, since it takes 2^12 steps."""

Explanation = frozenset[FabricLink]
Suspects = tuple[FabricLink, ...]
"""The links of a flagged path, or of an explanation, in order."""


class Finding(StrEnum):
    """How sure the accusation is, from best to worst."""

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
    """What one flow said of one path."""

    path: FabricPath
    verdict: Verdict
    qpn: int


@dataclass(frozen=True, slots=True)
class Localization:
    """The whole accusation."""

    finding: Finding
    links: tuple[FabricLink, ...]
    """Accused for certain: in every explanation."""
    candidates: tuple[Suspects, ...]
    """Where it stays open: one tuple for each independent failure, which holds its failed links and others."""
    evidence: tuple[Evidence, ...]
    """Every flagged path, and every healthy one that clears a link of a flagged path."""


def localize(evidence: Collection[Evidence], pending: Iterable[FabricPath] = ()) -> Localization:
    """What `evidence` says, while the verdicts on `pending` paths are still to come.

    A link that is the only suspect of a flagged path is named at once. Where only the smallest explanation speaks for
    a link, it is named when no pending path could still clear or charge a suspect.
    """
    flagged = [item for item in evidence if item.verdict is Verdict.FAILED]
    charged = {link for item in flagged for link in item.path.links}
    clearing = [
        item for item in evidence if item.verdict is Verdict.HEALTHY and not charged.isdisjoint(item.path.links)
    ]
    cleared = {link for item in clearing for link in item.path.links}
    suspects = {item.path: tuple(link for link in item.path.links if link not in cleared) for item in flagged}
    sole = {left[0] for left in suspects.values() if len(left) == 1}
    awaited = {link for path in pending for link in path.links}

    links, candidates = set(sole), list[Suspects]()
    for part in _parts([left for left in suspects.values() if left and not sole.intersection(left)]):
        certain, open_ended = _explain(part, awaited)
        links |= certain
        candidates += [open_ended] if open_ended else []
    finding = _finding(bool(flagged), not all(suspects.values()), bool(candidates))
    return Localization(finding, tuple(sorted(links)), tuple(sorted(candidates)), (*flagged, *clearing))


def _finding(flagged: bool, contradicted: bool, open_ended: bool) -> Finding:
    if contradicted:
        return Finding.UNEXPLAINED
    if open_ended:
        return Finding.AMBIGUOUS
    return Finding.NAMED if flagged else Finding.NONE


def _explain(paths: Collection[Suspects], awaited: set[FabricLink]) -> tuple[Explanation, Suspects]:
    """The links certain to be among the failed, and those among which the others are."""
    suspects = frozenset(link for path in paths for link in path)
    explanations = smallest_explanations(paths)
    if explanations is None or awaited & suspects:
        # A verdict to come may clear a suspect, and make a larger explanation the right one.
        return frozenset(), tuple(sorted(suspects))
    certain = frozenset.intersection(*explanations)
    return certain, tuple(sorted(frozenset.union(*explanations) - certain))


def smallest_explanations(paths: Collection[Suspects]) -> set[Explanation] | None:
    """Every smallest set of links with one on each path, or None if it would have more than MOST_LINKS.

    Paths have two suspects each, so a set of n is found among 2^n choices; n grows until one fits.
    """
    for size in range(1, MOST_LINKS + 1):
        if found := set(_covers(paths, frozenset(), size)):
            return found
    return None


def _covers(paths: Collection[Suspects], chosen: Explanation, room: int) -> Iterator[Explanation]:
    unexplained = next((path for path in paths if not chosen.intersection(path)), None)
    if unexplained is None:
        yield chosen
    elif room:
        for link in unexplained:
            yield from _covers(paths, chosen | {link}, room - 1)


def _parts(paths: Collection[Suspects]) -> list[list[Suspects]]:
    """Connected groups of paths; paths without a common suspect are independent failures (L2)."""
    groups: list[tuple[set[FabricLink], list[Suspects]]] = []
    for path in paths:
        apart = [group for group in groups if group[0].isdisjoint(path)]
        touching = [group for group in groups if not group[0].isdisjoint(path)]
        links = set(path).union(*(group[0] for group in touching))
        groups = [*apart, (links, [path, *(other for group in touching for other in group[1])])]
    return [members for _, members in groups]
