"""Which flows may be under way while a fault is in force, as far as a plan tells. Pure."""

from collections.abc import Iterator

from faults.timeline.timing import ALWAYS, Event, Timing
from results.metrics import NS
from results.numbers_text import count_text
from scenarios.file.plan import Flow, Plan, PlannedFault
from scenarios.run.judge.leaf_crossings import crosses


def may_meet(flow: Flow, timing: Timing) -> bool:
    """Whether a flow may be under way at some time of a fault.

    When one ends that keeps to no rate is not known beforehand, nor when a fault begins that waits for a detector.
    """
    if timing.on is Event.DETECTED:
        return True
    begins, ends = timing.at_ns or 0, _end_ns(timing)
    flow_ends = None if flow.rate_bps is None else flow.at_ns + flow.payload_bytes * 8 * NS // flow.rate_bps
    return (flow_ends is None or flow_ends >= begins) and (ends is None or flow.at_ns <= ends)


def _end_ns(timing: Timing) -> int | None:
    """When the fault is in force for the last time; None for no known end."""
    if timing.for_ns is None or timing.until is not None:
        return None
    turns = 0 if timing.every_ns is None else timing.times
    return None if turns is None else (timing.at_ns or 0) + timing.for_ns + max(0, turns - 1) * (timing.every_ns or 0)


def timed(plan: Plan) -> list[PlannedFault]:
    """Orders that are not in force all the time."""
    always = ALWAYS, Timing(on=Event.TRAFFIC), Timing(at_ns=0)
    return [order for order in plan.faults if order.worded.timing not in always]


def timely_flows(plan: Plan) -> list[Flow]:
    """Those that may tell of every timed fault: evidence is of its own time only."""
    timings = [order.worded.timing for order in timed(plan)]
    return [flow for flow in plan.flows if all(may_meet(flow, timing) for timing in timings)]


def under_way_warnings(plan: Plan) -> Iterator[str]:
    """One sentence an order that some flows between leaves cannot meet."""
    for order in timed(plan):
        apart = [flow for flow in plan.flows if crosses(plan, flow) and not may_meet(flow, order.worded.timing)]
        if apart:
            first, more = apart[0], f" (and {count_text(len(apart) - 1, 'more flow')})" if len(apart) > 1 else ""
            yield (
                f"{order.chosen.text}: h{first.source}>h{first.destination}{more} is not under way while this fault is "
                "in force, so it neither accuses nor clears a link of it"
            )
