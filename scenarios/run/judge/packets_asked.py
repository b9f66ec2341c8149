"""What a plan asks of the leaves' detectors, and how many packets an answer takes. Pure."""

from dataclasses import replace

from agent.core.config import SprayPolicy
from agent.spraycheck.statistics.declared import declared_packets_needed
from agent.spraycheck.statistics.test_count import count_tests
from agent.spraycheck.statistics.uniform import Asked, uniform_packets_needed
from faults.quantities import parse_rate
from scenarios.file.plan import Plan
from scenarios.run.judge.leaf_crossings import crosses, crossing_sendings


def asked_of(plan: Plan) -> Asked:
    """The drop rate not to be missed, and among how many tests false alarms are divided."""
    return Asked(_min_rate(plan), run_tests=run_tests_of(plan))


def needed_for(plan: Plan, rate: float) -> int | None:
    """Packets a path from which on a drop of `rate` is hardly missed; None when no flow may be as long."""
    return _needed(plan, replace(asked_of(plan), min_rate=rate))


def run_tests_of(plan: Plan) -> int:
    """Tests by declaration of all flows that may be announced: writes between leaves, queue pairs of collectives."""
    spec = plan.fabric.spec
    writes = sum(crosses(plan, flow) for flow in plan.flows)
    queue_pairs = sum(not sent.is_barrier for sent in crossing_sendings(plan))
    return count_tests(writes + queue_pairs, spec.planes, spec.spines)


def _needed(plan: Plan, asked: Asked) -> int | None:
    transport, spines = plan.scenario.transport, plan.fabric.spec.spines
    if plan.scenario.judged_by == "declared":
        return declared_packets_needed(spines, asked)
    return uniform_packets_needed(SprayPolicy(transport.spray).code, spines, transport.copies, asked)


def _min_rate(plan: Plan) -> float:
    return float(parse_rate(plan.scenario.detector.min_rate))
