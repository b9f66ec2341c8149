"""Plan of the measurement: SprayCheck's settings, packets per verdict, the links and paths to judge. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from agent.core.config import SprayPolicy
from agent.spraycheck.paths import FabricPath
from agent.spraycheck.statistics.declared import declared_packets_needed
from agent.spraycheck.statistics.uniform import uniform_packets_needed
from agent.spraycheck.statistics.verdicts import Requirements, count_tests
from agent.wire.detect_records import Select
from faults.quantities import parse_bit_rate, parse_rate
from scenarios.file.collective_plan import Sending
from scenarios.file.plan import Flow, Plan
from scenarios.lab.protocol import Measuring

EndLeaves = tuple[int, int]
"""The leaves of source and destination."""


def crosses(plan: Plan, sent: Flow | Sending) -> bool:
    """Return whether both ends are below different leaves."""
    return plan.fabric.leaf_of(sent.source) != plan.fabric.leaf_of(sent.destination)


def sendings_of(plan: Plan) -> Iterator[Sending]:
    """Yield what queue pairs of collectives send."""
    for number, collective in enumerate(plan.collectives):
        yield from (sent._replace(collective=number) for sent in collective.sendings(plan.scenario.transport.pmtu))


def crossing_sendings(plan: Plan) -> Iterator[Sending]:
    """Yield what queue pairs of collectives send between leaves."""
    return (sent for sent in sendings_of(plan) if crosses(plan, sent))


def asked_of(plan: Plan) -> Requirements:
    """Return the drop rate to detect, and the number of tests that share the false positive rate."""
    return Requirements(_min_rate(plan), run_tests=run_tests_of(plan))


def needed_for(plan: Plan, rate: float) -> int | None:
    """Return the packets per path for which a drop of `rate` is hardly missed; None when no flow may be as long."""
    return _needed(plan, replace(asked_of(plan), min_rate=rate))


def run_tests_of(plan: Plan) -> int:
    """Return the number of `declared` tests of all writes and queue pairs of collectives that may be announced."""
    spec = plan.fabric.spec
    writes = sum(crosses(plan, flow) for flow in plan.flows)
    queue_pairs = sum(not sent.is_barrier for sent in crossing_sendings(plan))
    return count_tests(writes + queue_pairs, spec.planes, spec.spines)


def _needed(plan: Plan, asked: Requirements) -> int | None:
    transport, spines = plan.scenario.transport, plan.fabric.spec.spines
    if plan.scenario.judged_by == "declared":
        return declared_packets_needed(spines, asked)
    return uniform_packets_needed(SprayPolicy(transport.spray).code, spines, transport.copies, asked)


def _min_rate(plan: Plan) -> float:
    return float(parse_rate(plan.scenario.detector.min_rate))


def measuring_of(plan: Plan) -> Measuring:
    """Return the settings with which SprayCheck is started."""
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
    """Return what queue pairs of collectives send that SprayCheck is to measure: all but barriers.

    Where a leaf measures one flow at a time, only those that are long enough for the requested rate: shorter ones
    would take turns from them.
    """
    sendings = [sent for sent in sendings_of(plan) if not sent.is_barrier]
    if plan.scenario.detector.select == "all":
        return sendings
    spec, needed = plan.fabric.spec, needed_for(plan, asked_of(plan).min_rate)
    return [each for each in sendings if needed is not None and each.packets >= needed * spec.planes * spec.spines]


def measured_pairs(plan: Plan) -> set[EndLeaves]:
    """Return the pairs of leaves between which measured flows go."""
    return {*_crossing(plan)}


def _crossing(plan: Plan) -> list[EndLeaves]:
    """Return the leaves of every measured flow between two leaves."""
    ends = [(flow.source, flow.destination) for flow in plan.flows]
    ends += [(sent.source, sent.destination) for sent in announced_sendings(plan)]
    pairs = ((plan.fabric.leaf_of(source), plan.fabric.leaf_of(target)) for source, target in ends)
    return [(source, target) for source, target in pairs if source != target]


def paths_of(plan: Plan, pairs: Iterable[EndLeaves]) -> Iterator[FabricPath]:
    """Yield all paths between pairs of leaves, plane by plane and spine by spine."""
    spec = plan.fabric.spec
    for plane in range(spec.planes):
        for source, target in sorted(pairs):
            yield from (FabricPath(plane, source, spine, target) for spine in range(spec.spines))


def links_to_judge(plan: Plan, chosen: Iterable[Select]) -> set[str]:
    """Return links that carry measured flows, so that they must be judged.

    Where leaves measure one flow at a time, these are the links of the `chosen` flows, and each source leaf's uplinks.
    """
    pairs = measured_pairs(plan)
    if plan.scenario.detector.select == "all":
        return {str(link) for path in paths_of(plan, pairs) for link in path.links}
    ends = {(each.plane, each.src_leaf, each.dst_leaf) for each in chosen}
    paths = (FabricPath(*end[:2], spine, end[2]) for end in ends for spine in range(plan.fabric.spec.spines))
    return {str(path.links[0]) for path in paths_of(plan, pairs)} | {str(link) for each in paths for link in each.links}


def verdicts_wanted(plan: Plan, chosen: int = 0) -> int:
    """Return the number of verdicts on paths to come, by each expectation: one per path of every measured flow.

    If leaves measure one flow at a time, `chosen` is how many they chose; each leaf of each plane chooses at least one.
    """
    spec, crossing = plan.fabric.spec, [source for source, _ in _crossing(plan)]
    if plan.scenario.detector.select == "all":
        return len(crossing) * spec.planes * spec.spines
    return max(len(set(crossing)) * spec.planes, chosen) * spec.spines
