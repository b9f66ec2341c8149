"""Describes what a run of a scenario would do, for `spraylab validate`: lines for people, or a document."""

from collections.abc import Iterator, Sequence

from agent.host.programs.patterns import ELEMENT_BYTES
from faults.quantities import render_rate
from results.text import count_text, share_text
from results.summary import size_text
from scenarios.file.collective_plan import PlannedCollective
from scenarios.file.plan import Plan
from scenarios.lab.start.requirements import missing_here, no_room_for_plan
from scenarios.run.judge.detector_demands import sendings_of
from scenarios.run.judge.plan_warnings import cautions_on, power_of, too_few_for, warnings_of


def plan_document(plan: Plan) -> dict[str, object]:
    """The plan of a run, as fields."""
    power = power_of(plan)
    return {
        "nodes": len(plan.fabric.nodes()),
        "links": plan.fabric.link_count,
        "flows": [
            {"source": f"h{flow.source}", "destination": f"h{flow.destination}", "payload_bytes": flow.payload_bytes}
            for flow in plan.flows
        ],
        "collectives": [
            {
                "type": each.pattern.value,
                "group": each.group and each.group.value,
                "hosts": [[f"h{host}" for host in hosts] for hosts in each.groups],
                "bytes": each.count * ELEMENT_BYTES,
                "iterations": each.iterations,
                "qps": each.qps,
            }
            for each in plan.collectives
        ],
        "faults": [{"link": link, "fault": fault} for link, fault in plan.fault_texts],
        "captures": [str(link) for link in plan.captures],
        "memory_bytes": plan.region_bytes,
        "packets_a_path": power.packets_a_path,
        "packets_needed": {power.min_rate: power.needed}
        | {render_rate(rate): needed for rate, needed in power.for_faults},
        "warnings": [*no_room_for_plan(plan), *warnings_of(plan, missing_here())],
    }


def plan_lines(plan: Plan, failures: Sequence[str]) -> Iterator[str]:
    """Yield the plan for people; lines come as they are computed."""
    scenario, fabric = plan.scenario, plan.fabric
    yield f"{scenario.name}: valid" + (", but a run of it fails" if failures else "")
    yield f"  fabric    {scenario.topology}: {len(fabric.nodes())} nodes, {count_text(fabric.link_count, 'link')}"
    yield f"  traffic   {_traffic_text(plan)}, PMTU {scenario.transport.pmtu}"
    yield from (f"  rounds    {_collective_text(each)}" for each in plan.collectives)
    yield from (f"  fault     {line}" for line in plan.fault_lines)
    yield from (f"  capture   {link}" for link in plan.captures)
    yield f"  expected  {_expected_text(plan)}"
    yield from (f"  warning   {text}" for text in no_room_for_plan(plan))
    yield f"  detector  {_power_text(plan)}"
    yield from (f"  fails     {text}" for text in failures)
    yield from (f"  warning   {text}" for text in cautions_on(plan, missing_here()))


def _traffic_text(plan: Plan) -> str:
    """Describe what writes and collectives send over the whole run, each if there are any; barriers are not counted."""
    told = list[str]()
    if plan.flows or not plan.collectives:
        written = sum(flow.payload_bytes for flow in plan.flows)
        told.append(f"{count_text(len(plan.flows), 'flow')}, {size_text(written)}")
    if sent := [each.bytes for each in sendings_of(plan) if not each.is_barrier]:
        told.append(f"{count_text(len(sent), 'queue pair')} of collectives, {size_text(sum(sent))}")
    return "; ".join(told)


def _collective_text(each: PlannedCollective) -> str:
    groups = " ".join("[" + " ".join(f"h{host}" for host in hosts) + "]" for hosts in each.groups)
    size = f"{size_text(each.count * ELEMENT_BYTES)} per host"
    return f"{each.name} among {groups}, {size}, {count_text(each.iterations, 'round')} and one that is checked"


def _expected_text(plan: Plan) -> str:
    if plan.scenario.expect.detection == "recorded":
        return "no link from SprayCheck: detection is recorded and decides nothing"
    if plan.detected is None:
        return "the links that drop"
    return ", ".join(map(str, plan.detected)) or "no link"


def _power_text(plan: Plan) -> str:
    power = power_of(plan)
    needs = [(power.min_rate, power.needed), *((share_text(float(rate)), n) for rate, n in power.for_faults)]
    told = [f"{rate} needs {'more than a flow can have' if n is None else f'{n:,}'}" for rate, n in needs]
    has = f"{count_text(power.packets_a_path, 'packet')} per path"
    has += "; to find a drop of " + ", of ".join(told)
    missed = list(too_few_for(plan)) if plan.scenario.expect.detection == "recorded" else []
    return f"{has}: a drop of {' or '.join(missed)} would not be shown" if missed else has
