"""Faulty links that a plan's flows cannot tell from whole ones, foreseen by the localisation that the leaves use. Pure.

Each path is taken to be judged rightly: `failed` if one of its links drops, else `healthy`. What stays open even then
is for other flows to settle, not for more packets.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from agent.spraycheck.deciding import DecidingFlow
from agent.spraycheck.detector import Verdict
from agent.spraycheck.localize import Evidence, Localization, localize
from agent.spraycheck.paths import FabricLink, FabricPath
from testbed.model.fabric import Fabric
from testbed.model.ids import DirectedLink, Role

LeafPair = tuple[int, int]
"""Of a flow: from, to."""

MOST_PATHS = 10_000
"""Beyond it nothing is foreseen (our choice): some tenths of a second."""

MOST_TOLD = 3
"""Links with a sentence of their own (our choice); the others are counted."""

LEAVES_FOR_STRIDES = 4
"""From so many on strides 1 and 3 lead to different leaves."""


@dataclass(frozen=True)
class _Open:
    link: FabricLink
    others: tuple[FabricLink, ...]
    pairs: tuple[LeafPair, ...]
    deciding: DecidingFlow | None


def undecided_warnings(
    fabric: Fabric, pairs: Collection[LeafPair], faulty: Collection[DirectedLink], wanted: Collection[DirectedLink]
) -> Iterator[str]:
    """Which of the `wanted` links, among those that are `faulty`, will not be named, and what would help.

    `pairs` are those of flows that are long enough for a verdict.
    """
    broken, named = frozenset(map(_fabric_link, faulty)), frozenset(map(_fabric_link, wanted))
    places = sorted({(link.plane, link.spine) for link in broken})
    if not 0 < len(pairs) * len(places) <= MOST_PATHS:
        return
    paths = [FabricPath(plane, source, spine, target) for plane, spine in places for source, target in sorted(pairs)]
    found = localize([Evidence(path, _verdict(path, broken), 0) for path in paths], leaves=range(fabric.spec.leaves))
    undecided = list(_open(found, paths, broken & named))
    yield from (_told(each, fabric) for each in undecided[:MOST_TOLD])
    if len(undecided) > MOST_TOLD:
        yield f"{len(undecided) - MOST_TOLD} more links with faults stay open likewise"
    crossed = {link for path in paths for link in path.links}
    for link in sorted(broken & named & crossed - {*found.links}.union(*found.candidates)):
        yield (
            f"{link} will be missed: every measured path over it fails by another link, too; add a flow over it and "
            "over no other link with a fault"
        )
    for link in sorted(set(found.links) - broken):
        yield (
            f"{link} will be named, which drops nothing: every measured path over it fails by another link; add a flow "
            "over it and over no link with a fault"
        )


def _fabric_link(way: DirectedLink) -> FabricLink:
    up = way.sender.role is Role.LEAF
    leaf, spine = (way.sender, way.receiver) if up else (way.receiver, way.sender)
    return FabricLink(way.plane, leaf.index, spine.index, up)


def _verdict(path: FabricPath, broken: Collection[FabricLink]) -> Verdict:
    return Verdict.FAILED if any(link in broken for link in path.links) else Verdict.HEALTHY


def _open(found: Localization, paths: Sequence[FabricPath], wanted: Collection[FabricLink]) -> Iterator[_Open]:
    for suspects in found.candidates:
        deciding = next((flow for flow in found.deciding if not {*flow.path.links}.isdisjoint(suspects)), None)
        for link in suspects:
            if link in wanted:
                pairs = tuple((path.src_leaf, path.dst_leaf) for path in paths if link in path.links)
                yield _Open(link, tuple(other for other in suspects if other != link), pairs, deciding)


def _told(each: _Open, fabric: Fabric) -> str:
    source, target = each.pairs[0]
    cause = f"only flows from leaf{source} to leaf{target} cross it" if len(each.pairs) == 1 else "no flow tells"
    others = " and ".join(map(str, each.others))
    return (
        f"{each.link}: {cause}, so it stays open whether it fails or {others} does (`ambiguous`), and then the "
        f"check of the named links fails; {_help(each, fabric)}"
    )


def _help(each: _Open, fabric: Fabric) -> str:
    if each.deciding is None:
        return "no other flow of this fabric can tell: ask for more leaves, or write expect.detection: recorded"
    path = each.deciding.path
    flow = f"h{fabric.host_at(path.src_leaf, 0)} to h{fabric.host_at(path.dst_leaf, 0)}"
    strides = (
        "strides: [1, 3], or " if fabric.spec.leaves >= LEAVES_FOR_STRIDES and fabric.spec.hosts_per_leaf == 1 else ""
    )
    return f"write {strides}one more flow, as from {flow}"
