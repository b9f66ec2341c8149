"""Flows that are too small each, seen together: the losses of all flows over one link, by what their senders declared.

A sender that retires a path at its first loss leaves every flow with one lost packet of a few, which proves nothing.
Two such flows that share the link do. Pure.
"""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from agent.spraycheck.declared import flagged
from agent.spraycheck.detector import Asked, Verdict
from agent.spraycheck.localize import Evidence
from agent.spraycheck.paths import FabricLink

Leaf = tuple[int, int, bool]
"""A leaf of a plane, and whether it is the flows' source: its uplinks are one group, the links down to it another."""


def seen_together(evidence: Collection[Evidence], asked: Asked) -> list[Evidence]:
    """The same evidence; a lossy path that was `insufficient` is `failed` if all flows over one of its links say so.

    The links of a leaf are tested beside each other as the paths of a flow are, so that losses which fall on all alike
    accuse none. With one flow over a link this says nothing that the flow itself did not.
    """
    lossy = {link for leaf, group in _groups(evidence).items() for link in _lossy_links(leaf, group, asked)}
    return [
        replace(each, verdict=Verdict.FAILED)
        if each.verdict is Verdict.INSUFFICIENT and each.lost and lossy.intersection(each.path.links)
        else each
        for each in evidence
    ]


def _groups(evidence: Collection[Evidence]) -> dict[Leaf, list[Evidence]]:
    groups: dict[Leaf, list[Evidence]] = defaultdict(list)
    for each in evidence:
        path = each.path
        groups[path.plane, path.src_leaf, True].append(each)
        groups[path.plane, path.dst_leaf, False].append(each)
    return groups


def _lossy_links(leaf: Leaf, group: Collection[Evidence], asked: Asked) -> list[FabricLink]:
    """Links of a leaf over which all flows together lose more than stray packets, and more than over the others."""
    places = 1 + max(each.path.spine for each in group)
    sent, lost = _sums(group, places)
    # How much was sent is the sender's doing: it stops where it loses. If most links lose, what they share is to blame.
    if 2 * np.count_nonzero(lost) > np.count_nonzero(sent):
        return []
    plane, index, up = leaf
    return [FabricLink(plane, index, int(spine), up) for spine in np.flatnonzero(flagged(sent, lost, asked))]


def _sums(group: Collection[Evidence], places: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    sent, lost = np.zeros(places, np.int64), np.zeros(places, np.int64)
    for each in group:
        sent[each.path.spine] += each.sent
        lost[each.path.spine] += each.lost
    return sent, lost
