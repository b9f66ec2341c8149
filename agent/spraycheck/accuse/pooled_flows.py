"""Sums of flows that are too small each: per link by what senders declared, per pair of leaves by equal shares. Pure.

Per link: a sender that retires a path at its first loss leaves every flow with one lost packet of a few, which proves
nothing. Two such flows that share the link do. And many small flows that lose nothing clear the link they share.

Per pair of leaves: flows are added up until they have P_min packets per spine, as many as the required rate needs
(SprayCheck S6). One sum is kept per plane, pair and way of spraying. Each sum is tested once and begun anew, so that
every packet is judged once, and the false alarms stated for a flow hold for a sum.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from agent.spraycheck.accuse.common_causes import CommonCause
from agent.spraycheck.accuse.localization import Evidence
from agent.spraycheck.paths import FabricLink, FabricPath, LeafPair
from agent.spraycheck.statistics.calibration import FlowShape
from agent.spraycheck.statistics.declared import declared_miss, declared_packets_needed, flagged, judge_declared
from agent.spraycheck.statistics.flow_times import Span, share_needed
from agent.spraycheck.statistics.uniform import FlowTest, judge, plan_test
from agent.spraycheck.statistics.verdicts import Doubt, DoubtKind, PathVerdict, Requirements, Verdict

LeafSide = tuple[int, int, bool]
"""Plane, leaf, and whether it is the flows' source: its uplinks are one group, the links down to it another."""

MOST_LOSE = Doubt(
    DoubtKind.MOST_LOSE, "more than half of the leaf's links lost packets: what these share may be to blame"
)


@dataclass(frozen=True, slots=True)
class LinkSum:
    """Verdict on one link by all flows over it."""

    link: FabricLink
    flows: int
    """Number of flows that sent anything over it."""
    sent: int
    lost: int
    verdict: Verdict
    doubt: Doubt | None
    """Why `insufficient`."""
    p_value: float
    """Probability that stray losses alone are as many."""
    miss: float
    """Probability that a drop of the required rate on this link would not be flagged here."""


def with_sums(evidence: Collection[Evidence], required: Requirements) -> list[Evidence]:
    """Return the evidence with sums: an `insufficient` path is `healthy` if the sum of its flows is, and a lossy one is
    `failed` if the sum over one of its links is.

    The links of a leaf are tested beside each other as the paths of a flow are, so that losses which fall on all alike
    accuse none. With one flow over a link this adds nothing to the flow itself.
    """
    lossy = {link for leaf, group in _groups(evidence).items() for link in _lossy_links(leaf, group, required)}
    whole = _whole_paths(evidence, required)
    return [_with_sum(each, whole, lossy) for each in evidence]


def _with_sum(each: Evidence, whole: Mapping[FabricPath, Evidence], lossy: set[FabricLink]) -> Evidence:
    if each.verdict is not Verdict.INSUFFICIENT or not each.sent:
        return each
    if each.path in whole:
        said = whole[each.path]
        return replace(each, verdict=Verdict.HEALTHY, span=said.span, needs=said.needs, doubt=None)
    is_lossy = bool(each.lost) and not lossy.isdisjoint(each.path.links)
    return replace(each, verdict=Verdict.FAILED, doubt=None) if is_lossy else each


def _whole_paths(evidence: Collection[Evidence], required: Requirements) -> dict[FabricPath, Evidence]:
    """Find paths that are healthy by the sum of their flows, tested as one flow of their leaf pair; with that flow.

    Paths of which one flow is `failed` are left out: others may not have been under way at that time.
    """
    failed = {each.path for each in evidence if each.verdict is Verdict.FAILED}
    pairs: dict[LeafPair, list[Evidence]] = defaultdict(list)
    for each in evidence:
        pairs[each.path.leaf_pair].append(each)
    return {
        path: _as_one_flow([each for each in group if each.path == path], len(verdicts), required)
        for pair, group in pairs.items()
        for verdicts in [_judged(group, required)]
        for said in verdicts
        if said.verdict is Verdict.HEALTHY and (path := pair.path(said.path)) not in failed
    }


def _as_one_flow(flows: Sequence[Evidence], paths: int, required: Requirements) -> Evidence:
    """Join all flows over a path into one that was under way from the first to the last of them."""
    spans = [each.span for each in flows if each.sent and each.span is not None]
    sent = sum(each.sent for each in flows)
    needs = share_needed(declared_packets_needed(paths, required), sent)
    return replace(flows[0], span=reduce(Span.joined, spans) if spans else None, sent=sent, needs=needs)


def _judged(group: Collection[Evidence], required: Requirements) -> tuple[PathVerdict, ...]:
    sent, lost = _sums(group)
    return judge_declared(sent, sent - lost, required)


def link_sums(
    evidence: Collection[Evidence],
    required: Requirements,
    accused: Collection[FabricLink] = (),
    causes: Collection[CommonCause] = (),
) -> list[LinkSum]:
    """Judge each link by all flows over it; `accused` are links named or suspected, `causes` common causes named or
    suspected.

    A `healthy` link is cleared: it lost no more than stray packets, which one that drops the required rate does with
    probability at most `required.miss`, however its senders chose how much to send over it. Paths over an accused link
    show nothing about the other links they cross, nor do flows with an accused cause. They are left out whatever they
    lost: to leave out those that lost something would clear links that lose.
    """
    suspects, shared = frozenset(accused), frozenset(causes)
    rest = [each for each in evidence if suspects.isdisjoint(each.path.links) and shared.isdisjoint(each.causes)]
    of_suspects = (each for each in _link_sums(evidence, required) if each.link in suspects)
    return [*of_suspects, *(each for each in _link_sums(rest, required) if each.link not in suspects)]


def _link_sums(evidence: Collection[Evidence], required: Requirements) -> Iterator[LinkSum]:
    for leaf, group in _groups(evidence).items():
        sent, lost = _sums(group)
        flows = np.bincount([each.path.spine for each in group if each.sent], minlength=len(sent))
        for said in judge_declared(sent, sent - lost, required):
            if sent[said.path]:
                yield _link_sum(leaf, said, sent, int(flows[said.path]), _mostly_lossy(sent, lost), required)


def _link_sum(
    leaf: LeafSide, said: PathVerdict, sent: NDArray[np.int64], flows: int, mostly_lossy: bool, required: Requirements
) -> LinkSum:
    plane, index, up = leaf
    link, own = FabricLink(plane, index, said.path, up), int(sent[said.path])
    verdict, doubt = said.verdict, said.doubt
    if mostly_lossy and verdict is Verdict.FAILED:
        verdict, doubt = Verdict.INSUFFICIENT, MOST_LOSE
    p_value, miss = said.p_value or 0.0, declared_miss(own, int(sent.sum()), required)
    return LinkSum(link, flows, own, own - said.count, verdict, doubt, p_value, miss)


def _groups(evidence: Collection[Evidence]) -> dict[LeafSide, list[Evidence]]:
    groups: dict[LeafSide, list[Evidence]] = defaultdict(list)
    for each in evidence:
        path = each.path
        groups[path.plane, path.src_leaf, True].append(each)
        groups[path.plane, path.dst_leaf, False].append(each)
    return groups


def _lossy_links(leaf: LeafSide, group: Collection[Evidence], required: Requirements) -> list[FabricLink]:
    """Find links of a leaf over which flows in sum lose more than stray packets, and more than over the others."""
    sent, lost = _sums(group)
    if _mostly_lossy(sent, lost):
        return []
    plane, index, up = leaf
    return [FabricLink(plane, index, int(spine), up) for spine in np.flatnonzero(flagged(sent, lost, required))]


def _mostly_lossy(sent: NDArray[np.int64], lost: NDArray[np.int64]) -> bool:
    """Report whether most links lost packets: then what they share is to blame.

    Senders stop where they lose, so the number sent over each link depends on losses, and the test does not show it.
    """
    return 2 * int(np.count_nonzero(lost)) > int(np.count_nonzero(sent))


def _sums(group: Collection[Evidence]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count packets sent and lost over each spine up to the last one used."""
    places = 1 + max(each.path.spine for each in group)
    sent, lost = np.zeros(places, np.int64), np.zeros(places, np.int64)
    for each in group:
        sent[each.path.spine] += each.sent
        lost[each.path.spine] += each.lost
    return sent, lost


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Total(Generic[T]):
    """Verdicts of a sum of flows."""

    pair: LeafPair
    test: FlowTest
    verdicts: tuple[PathVerdict, ...]
    members: tuple[T, ...]
    """Keys of the flows, as given when they were added."""


@dataclass(frozen=True, slots=True)
class _Sum(Generic[T]):
    shape: FlowShape
    counts: NDArray[np.int64]
    members: tuple[T, ...]


class PairTotals(Generic[T]):
    """Sums of flows of all pairs of leaves."""

    def __init__(self, required: Requirements) -> None:
        self._required = required
        self._sums: dict[tuple[LeafPair, FlowShape], _Sum[T]] = {}

    def add(self, pair: LeafPair, shape: FlowShape, counts: NDArray[np.int64], member: T) -> Total[T] | None:
        """Add one flow's counts, `(k,)`; return the verdicts of its pair if there are enough packets now.

        A flow is left out if a lossy path of it loses fewer packets than the flow's ends blur: no number of such flows
        makes a sum that shows anything. Raises ValueError for a flow that cannot be tested.
        """
        ends = plan_test(shape, self._required).calibration.end_effect_pkts
        if shape.expected * self._required.min_rate <= 2 * ends:
            return None
        kind = pair, replace(shape, packets=0)
        grown = _Sum(shape, counts, (member,))
        if (before := self._sums.pop(kind, None)) is not None:
            packets, flows = before.shape.packets + shape.packets, before.shape.flows + shape.flows
            grown = _Sum(
                replace(shape, packets=packets, flows=flows), before.counts + counts, (*before.members, member)
            )
        test = plan_test(grown.shape, self._required)
        if test.weakness is not None:
            self._sums[kind] = grown
            return None
        return Total(pair, test, judge(test, grown.counts), grown.members)
