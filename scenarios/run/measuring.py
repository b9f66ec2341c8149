"""What a scenario asks of SprayCheck: what it is started for, and how many verdicts are to come of it. Pure."""

from collections.abc import Iterable

from faults.quantities import parse_bit_rate
from results.files.event_log import Fields
from scenarios.file.model import Scenario
from scenarios.file.plan import Plan
from scenarios.lab.protocol import Measuring
from scenarios.run.asked import run_tests_of


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


def verdicts_wanted(plan: Plan, records: Iterable[Fields] = (), announced: Iterable[tuple[int, int]] = ()) -> int:
    """How many paths SprayCheck judges, by each expectation: all of every measured flow that crosses spines.

    If leaves measure one flow at a time, `records` (of the run) say which; each leaf of each plane has at least one.
    `announced` are the hosts, from and to, of queue pairs of collectives.
    """
    fabric = plan.fabric
    hosts = [*((flow.source, flow.destination) for flow in plan.flows), *announced]
    ends = [(fabric.leaf_of(source), fabric.leaf_of(destination)) for source, destination in hosts]
    crossing = [source for source, destination in ends if source != destination]
    if plan.scenario.detector.select == "all":
        return len(crossing) * fabric.spec.planes * fabric.spec.spines
    chosen = len([record for record in records if record["event"] == "SELECT"])
    return max(len(set(crossing)) * fabric.spec.planes, chosen) * fabric.spec.spines


def gets_uneven_parts(scenario: Scenario) -> bool:
    """Whether the transport leaves paths out, so that some rightly get too few packets for a sure verdict."""
    ev = scenario.transport.ev
    return scenario.judged_by == "declared" and (ev.loss_policy != "off" or not ev.profile.is_all)
