"""What all writes of a plan together put on each link: by that flows too small alone are judged as declared. Pure."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

from scenarios.file.plan import Plan
from scenarios.run.asked import asked_of, needed_for
from scenarios.run.planned_drops import fabric_drops
from testbed.model.ids import Role


@dataclass(frozen=True)
class LinkLoad:
    """What one link gets in sum, as far as it is judged by that."""

    flows: int
    packets: int


def adds_up_links(plan: Plan) -> bool:
    """Whether flows are added up over links: by declaration, and where it is known which are measured."""
    return plan.scenario.judged_by == "declared" and plan.scenario.detector.select == "all"


def least_load(plan: Plan) -> LinkLoad | None:
    """Of the link that gets the least among those whose sum must clear a write too small alone; None without any.

    Paths over links that are to drop say nothing of the other links they cross, so those get less.
    """
    return min(_loads_that_decide(plan), key=lambda load: load.packets, default=None)


def lossy_load(plan: Plan) -> LinkLoad | None:
    """Of the link that gets the least among those that are to drop; None if none drops or none is used."""
    loads = _loads(plan, frozenset(), frozenset())
    found = (loads.get((leaf, up)) for leaf, up, _ in _dropping_links(plan))
    return min((load for load in found if load), key=lambda load: load.packets, default=None)


def packets_a_flow(plan: Plan, needed: int) -> int:
    """Packets of each flow from which on all links that must clear one too small alone get `needed`."""
    spec = plan.fabric.spec
    fewest = min((load.flows for load in _loads_that_decide(plan)), default=1)
    return ceil(needed / fewest) * spec.planes * spec.spines


_Place = tuple[int, bool]
"""A leaf, and whether its uplinks are meant: all of them get the same, but for paths left out."""


def _loads_that_decide(plan: Plan) -> Iterator[LinkLoad]:
    needed = needed_for(plan, asked_of(plan).min_rate)
    for up, down in _shapes(plan):
        weak = {
            place
            for source, destination, packets in _crossing(plan)
            if (needed is None or packets < needed) and source not in up and destination not in down
            for place in ((source, True), (destination, False))
        }
        yield from (load for place, load in _loads(plan, up, down).items() if place in weak)


def _shapes(plan: Plan) -> set[tuple[frozenset[int], frozenset[int]]]:
    """For each spine, the leaves whose link up to it drops and those whose link down from it does, each pair once."""
    drops, spec = list(_dropping_links(plan)), plan.fabric.spec
    spines = {(plane, spine) for plane in range(spec.planes) for spine in range(spec.spines)}
    return {
        (
            frozenset(leaf for leaf, up, at in drops if at == spine and up),
            frozenset(leaf for leaf, up, at in drops if at == spine and not up),
        )
        for spine in spines
    }


def _dropping_links(plan: Plan) -> Iterator[tuple[int, bool, tuple[int, int]]]:
    """Leaf, whether up from it, plane and spine of each link between switches that is to drop."""
    for way, _, _ in fabric_drops(plan):
        up = way.sender.role is Role.LEAF
        leaf, spine = (way.sender, way.receiver) if up else (way.receiver, way.sender)
        yield leaf.index, up, (way.plane, spine.index)


def _loads(plan: Plan, up: frozenset[int], down: frozenset[int]) -> dict[_Place, LinkLoad]:
    """Over each leaf's link to and from one spine, without paths up from leaves of `up` or down to those of `down`."""
    flows, sums = Counter[_Place](), Counter[_Place]()
    for source, destination, packets in _crossing(plan):
        if source not in up and destination not in down:
            for place in ((source, True), (destination, False)):
                flows[place] += 1
                sums[place] += packets
    return {place: LinkLoad(flows[place], sums[place]) for place in flows}


def _crossing(plan: Plan) -> Iterator[tuple[int, int, int]]:
    """Leaves, from and to, of each write between two, and its packets on each path."""
    spec, leaf_of = plan.fabric.spec, plan.fabric.leaf_of
    for flow in plan.flows:
        source, destination = leaf_of(flow.source), leaf_of(flow.destination)
        if source != destination:
            yield source, destination, flow.payload_bytes // plan.scenario.transport.pmtu // (spec.planes * spec.spines)
