"""Whether flows too small for a verdict of their own are enough together, as the leaves' monitor adds them up. Pure."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from agent.core.config import SprayPolicy
from agent.spraycheck.calibration import FlowShape
from agent.spraycheck.detector import Asked, plan_test
from agent.wire.constants import SprayPolicyCode
from faults.quantities import parse_rate
from scenarios.file.plan import Plan
from scenarios.run.asked import asked_of, needed_for
from scenarios.run.link_loads import adds_up_links, least_load

LeafPair = tuple[int, int]
"""Leaves, from and to."""


def add_up(plan: Plan) -> bool:
    """Whether every measured write is judged, alone or in a sum, by the expectation that decides."""
    return _clear_links(plan) if plan.scenario.judged_by == "declared" else not left_over(plan)


@dataclass(frozen=True)
class Sums:
    """What becomes of writes that are too small alone, if they end in the plan's order."""

    judged: tuple[int, ...]
    """Packets a path of every sum that is large enough."""
    left: Mapping[LeafPair, FlowShape]
    """Those that are judged neither alone nor in a sum, together, by their leaves."""


def left_over(plan: Plan) -> frozenset[LeafPair]:
    """Pairs of leaves of which some writes, if they end in the plan's order, are judged neither alone nor in a sum."""
    return frozenset(sums_of(plan).left)


def sums_of(plan: Plan) -> Sums:
    """The sums over the writes between each pair of leaves."""
    asked, judged = _asked(plan), list[int]()
    waiting: dict[LeafPair, FlowShape] = defaultdict(_nothing)
    for flow in plan.flows:
        pair = plan.fabric.leaf_of(flow.source), plan.fabric.leaf_of(flow.destination)
        if pair[0] == pair[1]:
            continue
        if is_weak(plan, flow.payload_bytes):
            shape = _shape_of(plan, flow.payload_bytes)
            before = waiting[pair]
            grown = replace(shape, packets=before.packets + shape.packets, flows=before.flows + 1)
            waiting[pair] = grown
            if not _is_weak(grown, asked):
                judged.append(grown.packets // plan.fabric.spec.spines)
                del waiting[pair]
    return Sums(tuple(judged), dict(waiting))


def _clear_links(plan: Plan) -> bool:
    """Whether each link that must clear a small write gets as many packets as a verdict by declaration takes."""
    needed = needed_for(plan, asked_of(plan).min_rate)
    if needed is None or not adds_up_links(plan):
        return False
    least = least_load(plan)
    return least is None or least.packets >= needed


def is_weak(plan: Plan, payload_bytes: int) -> bool:
    """Whether a write of so many bytes says nothing alone."""
    return _is_weak(_shape_of(plan, payload_bytes), _asked(plan))


@lru_cache(1 << 12)  # a plan has few kinds of flows, and may have millions of each
def _is_weak(shape: FlowShape, asked: Asked) -> bool:
    return plan_test(shape, asked).weakness is not None


def _asked(plan: Plan) -> Asked:
    return _asked_for(plan.scenario.detector.min_rate)


@lru_cache
def _asked_for(min_rate: str) -> Asked:
    return Asked(float(parse_rate(min_rate)))


def _shape_of(plan: Plan, payload_bytes: int) -> FlowShape:
    transport, spec = plan.scenario.transport, plan.fabric.spec
    packets = max(1, payload_bytes // transport.pmtu // spec.planes)
    return FlowShape(SprayPolicy(transport.spray).code, packets, spec.spines, transport.copies)


def _nothing() -> FlowShape:
    return FlowShape(SprayPolicyCode.ROTATION, 0, 1, flows=0)
