"""What a scenario asks of SprayCheck: what it is started for, and how many verdicts are to come of it. Pure."""

from scenarios.model import Scenario
from scenarios.plan import Plan
from scenarios.protocol import Measuring


def measuring_of(scenario: Scenario) -> Measuring:
    """What SprayCheck is started for."""
    detector = scenario.detector
    return Measuring(detector.min_rate, scenario.transport.copies, detector.counter_bits == 16)


def verdicts_wanted(plan: Plan) -> int:
    """How many paths SprayCheck judges, by each expectation: all of every flow that crosses spines."""
    fabric = plan.fabric
    crossing = sum(fabric.leaf_of(flow.source) != fabric.leaf_of(flow.destination) for flow in plan.flows)
    return crossing * fabric.spec.planes * fabric.spec.spines


def gets_uneven_parts(scenario: Scenario) -> bool:
    """Whether the transport takes paths out of use, so that some rightly get too few packets for a sure verdict."""
    return scenario.judged_by == "declared" and scenario.transport.ev.loss_policy != "off"
