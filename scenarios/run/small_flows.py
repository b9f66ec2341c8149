"""Whether flows too small for a verdict of their own are enough together, as the leaves' monitor adds them up. Pure."""

from collections import defaultdict
from dataclasses import replace

from agent.spraycheck.calibration import FlowShape
from agent.spraycheck.detector import Asked, plan_test
from agent.wire.constants import SprayPolicyCode
from faults.quantities import parse_rate
from scenarios.file.plan import Plan

POLICIES = {"rotation": SprayPolicyCode.ROTATION, "random": SprayPolicyCode.RANDOM}


def add_up(plan: Plan) -> bool:
    """Whether every measured write is judged by equal shares, alone or in a sum, if they end in the plan's order."""
    asked = _asked(plan)
    waiting: dict[tuple[int, int], FlowShape] = defaultdict(_nothing)
    for flow in plan.flows:
        pair = plan.fabric.leaf_of(flow.source), plan.fabric.leaf_of(flow.destination)
        if pair[0] == pair[1]:
            continue
        if is_weak(plan, flow.payload_bytes):
            shape = _shape_of(plan, flow.payload_bytes)
            before = waiting[pair]
            grown = replace(shape, packets=before.packets + shape.packets, flows=before.flows + 1)
            waiting[pair] = grown if plan_test(grown, asked).weakness is not None else _nothing()
    return all(not shape.packets for shape in waiting.values())


def is_weak(plan: Plan, payload_bytes: int) -> bool:
    """Whether a write of so many bytes says nothing alone."""
    return plan_test(_shape_of(plan, payload_bytes), _asked(plan)).weakness is not None


def _asked(plan: Plan) -> Asked:
    return Asked(float(parse_rate(plan.scenario.detector.min_rate)))


def _shape_of(plan: Plan, payload_bytes: int) -> FlowShape:
    transport, spec = plan.scenario.transport, plan.fabric.spec
    packets = max(1, payload_bytes // transport.pmtu // spec.planes)
    return FlowShape(POLICIES[transport.spray], packets, spec.spines, transport.copies)


def _nothing() -> FlowShape:
    return FlowShape(SprayPolicyCode.ROTATION, 0, 1, flows=0)
