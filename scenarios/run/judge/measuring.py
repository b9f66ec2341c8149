"""What a scenario asks of SprayCheck: what it is started for, and how many verdicts are to come of it. Pure."""

from collections.abc import Iterable, Iterator

from agent.spraycheck.paths import FabricPath
from agent.wire.detect_records import Select
from faults.quantities import parse_bit_rate
from scenarios.file.collective_plan import Sending
from scenarios.file.plan import Plan
from scenarios.lab.protocol import Measuring
from scenarios.run.judge.leaf_crossings import sendings_of
from scenarios.run.judge.packets_asked import asked_of, needed_for, run_tests_of

LeafPair = tuple[int, int]
"""Leaves, from and to."""


def measuring_of(plan: Plan) -> Measuring:
    """What SprayCheck is started for."""
    scenario, detector = plan.scenario, plan.scenario.detector
    return Measuring(
        detector.min_rate,
        scenario.transport.copies,
        narrow=detector.counter_bits == 16,
        one=detector.select == "one",
        reset_s=detector.reset_s,
        act=detector.act,
        expectation=scenario.judged_by,
        lift_after=detector.lift_after or 0,
        priority_bps=0 if detector.priority_rate is None else parse_bit_rate(detector.priority_rate),
        run_tests=run_tests_of(plan),
        per_leaf=detector.processes == "per-leaf",
    )


def announced_sendings(plan: Plan) -> list[Sending]:
    """What queue pairs of collectives send that SprayCheck is to measure: all but barriers.

    Where a leaf measures one flow at a time, those that tell the asked rate alone: the others would take their turns.
    """
    sendings = [sent for sent in sendings_of(plan) if not sent.is_barrier]
    if plan.scenario.detector.select == "all":
        return sendings
    spec, needed = plan.fabric.spec, needed_for(plan, asked_of(plan).min_rate)
    return [each for each in sendings if needed is not None and each.packets >= needed * spec.planes * spec.spines]


def measured_pairs(plan: Plan) -> set[LeafPair]:
    """Leaves, from and to, between which measured flows go."""
    return {*_crossing(plan)}


def _crossing(plan: Plan) -> list[LeafPair]:
    """Leaves, from and to, of every measured flow between two."""
    ends = [(flow.source, flow.destination) for flow in plan.flows]
    ends += [(sent.source, sent.destination) for sent in announced_sendings(plan)]
    pairs = ((plan.fabric.leaf_of(source), plan.fabric.leaf_of(target)) for source, target in ends)
    return [(source, target) for source, target in pairs if source != target]


def paths_of(plan: Plan, pairs: Iterable[LeafPair]) -> Iterator[FabricPath]:
    """All paths between leaves, plane by plane and spine by spine."""
    spec = plan.fabric.spec
    for plane in range(spec.planes):
        for source, target in sorted(pairs):
            yield from (FabricPath(plane, source, spine, target) for spine in range(spec.spines))


def links_to_judge(plan: Plan, chosen: Iterable[Select]) -> set[str]:
    """Links that carry measured flows, so that something is to be concluded of them.

    Where leaves measure one flow at a time, `chosen` says which: the links of these, and each source leaf's uplinks.
    """
    pairs = measured_pairs(plan)
    if plan.scenario.detector.select == "all":
        return {str(link) for path in paths_of(plan, pairs) for link in path.links}
    ends = {(each.plane, each.src_leaf, each.dst_leaf) for each in chosen}
    paths = (FabricPath(*end[:2], spine, end[2]) for end in ends for spine in range(plan.fabric.spec.spines))
    return {str(path.links[0]) for path in paths_of(plan, pairs)} | {str(link) for each in paths for link in each.links}


def verdicts_wanted(plan: Plan, chosen: int = 0) -> int:
    """How many verdicts of flows on paths come, by each expectation: on all of every measured flow between leaves.

    If leaves measure one flow at a time, `chosen` is how many they chose; each leaf of each plane has at least one.
    """
    spec, crossing = plan.fabric.spec, [source for source, _ in _crossing(plan)]
    if plan.scenario.detector.select == "all":
        return len(crossing) * spec.planes * spec.spines
    return max(len(set(crossing)) * spec.planes, chosen) * spec.spines
