"""Effects of a plan's faults: where and when they drop data, which flows meet them, which ports they shut. Pure."""

from collections.abc import Collection, Container, Iterator, Sequence
from fractions import Fraction

from faults.kinds import Fault
from faults.timing import ALWAYS, Event, Timing
from faults.uncounted_moments import swapped_by
from results.metrics import NS
from results.text import count_text
from scenarios.file.plan import AUTO, Flow, Plan, PlannedFault
from scenarios.run.judge.detector_demands import crosses
from testbed.model.node_names import DirectedLink, Role


def is_between_switches(way: DirectedLink) -> bool:
    """Return whether a link is one of those that SprayCheck can name."""
    return way.egress.node.role is not Role.HOST and way.ingress.node.role is not Role.HOST


def fabric_drops(plan: Plan) -> Iterator[tuple[DirectedLink, Fault, Fraction]]:
    """Yield every direction between switches with a fault that drops data, and its drop rate."""
    for way, fault in dropping(plan):
        if is_between_switches(way):
            yield way, fault, fault.drop_rate or Fraction(0)


def hits_all_flows(fault: Fault) -> bool:
    """Return whether a fault takes packets of all flows alike."""
    only = fault.only
    return only.qpn is None and only.ev is None and only.host is None


def loses_data(fault: Fault) -> bool:
    """Return whether a fault drops first transmissions, which leaves count."""
    return bool(fault.drop_rate and not fault.only.spares_first_sent)


def dropping(plan: Plan) -> Iterator[tuple[DirectedLink, Fault]]:
    """Yield every direction with a fault that drops data."""
    for planned in plan.faults:
        for fault in planned.worded.faults:
            if loses_data(fault):
                yield from ((way, fault) for way in planned.chosen.ways)


def may_meet(flow: Flow, timing: Timing) -> bool:
    """Return whether a flow may send while a fault is in force.

    The end of a flow without a rate is not known beforehand, nor the start of a fault that waits for a detection.
    """
    if timing.on is Event.DETECTED:
        return True
    begins, ends = timing.at_ns or 0, _end_ns(timing)
    flow_ends = None if flow.rate_bps is None else flow.at_ns + flow.payload_bytes * 8 * NS // flow.rate_bps
    return (flow_ends is None or flow_ends >= begins) and (ends is None or flow.at_ns <= ends)


def _end_ns(timing: Timing) -> int | None:
    """Return when the fault ends for the last time; None if that is not known."""
    if timing.for_ns is None or timing.until is not None:
        return None
    turns = 0 if timing.every_ns is None else timing.times
    return None if turns is None else (timing.at_ns or 0) + timing.for_ns + max(0, turns - 1) * (timing.every_ns or 0)


def timed(plan: Plan) -> list[PlannedFault]:
    """Return faults that are not in force all the time."""
    always = ALWAYS, Timing(on=Event.TRAFFIC), Timing(at_ns=0)
    return [planned for planned in plan.faults if planned.worded.timing not in always]


def timely_flows(plan: Plan) -> list[Flow]:
    """Return flows that may meet every timed fault: a flow gives evidence only of the time in which it sends."""
    timings = [planned.worded.timing for planned in timed(plan)]
    return [flow for flow in plan.flows if all(may_meet(flow, timing) for timing in timings)]


def fault_warnings(plan: Plan) -> Iterator[str]:
    """Warn of faults that SprayCheck cannot see, or cannot locate, because of where, when or what they drop."""
    yield from _host_link_warnings(plan)
    yield from _time_warnings(plan)
    yield from _spared_warnings(plan)
    yield from _uncrossed_warnings(plan)


def _time_warnings(plan: Plan) -> Iterator[str]:
    """Warn of each fault that some flows between leaves cannot meet."""
    for planned in timed(plan):
        apart = [flow for flow in plan.flows if crosses(plan, flow) and not may_meet(flow, planned.worded.timing)]
        if apart:
            first, more = apart[0], f" (and {count_text(len(apart) - 1, 'more flow')})" if len(apart) > 1 else ""
            yield (
                f"{planned.chosen.text}: h{first.source}>h{first.destination}{more} is not under way while this fault "
                "is in force, so it is no evidence on a link of this fault"
            )


_COST = (
    "takes the port out of service for some milliseconds: packets sent then are lost and not counted, so "
    "more retransmissions than drops will not fail the run"
)


def outage_warnings(plan: Plan, missing: Collection[str] = ()) -> Iterator[str]:
    """Warn of each fault that replaces a qdisc under traffic, or may: that depends on the machine.

    `missing` are mechanisms that the machine does not have.
    """
    kept = _kept(plan)
    for planned in plan.faults:
        acts = _acts_under_traffic(planned.worded.timing)
        for fault in planned.worded.faults if acts else ():
            swapping = {way: by for way in planned.chosen.ways if (by := _swapping(planned, fault, way, kept, missing))}
            if swapping:
                way, by = next(iter(swapping.items()))
                more = f" (and {len(swapping) - 1:,} more)" if len(swapping) > 1 else ""
                yield f"{way}{more} {fault}: {acts} it under traffic{_choice_text(planned, fault, by)} {_COST}"


def _acts_under_traffic(timing: Timing) -> str:
    """Return what is done after the first packet: a run sets faults without a time before that."""
    sets = bool(timing.at_ns or timing.every_ns) or timing.on is Event.DETECTED
    clears = timing.for_ns is not None or timing.until is not None
    return " and ".join(act for act, is_done in (("setting", sets), ("clearing", clears)) if is_done)


def _possible(planned: PlannedFault, fault: Fault) -> tuple[str, ...]:
    return tuple(map(str, fault.makers)) if planned.mechanism == AUTO else (planned.mechanism,)


def _swapping(
    planned: PlannedFault,
    fault: Fault,
    way: DirectedLink,
    kept: Container[tuple[DirectedLink, str | None]],
    missing: Collection[str],
) -> tuple[str, ...]:
    """Return the mechanisms that replace a qdisc of the port and that the machine may use."""
    needs = {by: swapped_by(by, way.sender.role is Role.HOST) for by in _possible(planned, fault)}
    return tuple(by for by, swapped in needs.items() if swapped and (way, swapped) not in kept and by not in missing)


def _choice_text(planned: PlannedFault, fault: Fault, swapping: tuple[str, ...]) -> str:
    """Name the mechanisms that replace a qdisc and one that does not; empty if all do."""
    others = [by for by in _possible(planned, fault) if by not in swapping]
    return f" by {' or '.join(swapping)} (`mechanism: {others[0]}` avoids it)" if others else ""


def _kept(plan: Plan) -> frozenset[tuple[DirectedLink, str | None]]:
    """Return qdiscs, with their ports, that a fault keeps there all the time, by whichever mechanism."""
    standing = [planned for planned in plan.faults if planned.worded.timing == ALWAYS]
    return frozenset(
        (way, next(iter(needs)))
        for planned in standing
        for fault in planned.worded.faults
        for way in planned.chosen.ways
        if len(needs := _needs(planned, fault, way)) == 1
    )


def _needs(planned: PlannedFault, fault: Fault, way: DirectedLink) -> frozenset[str | None]:
    """Return the qdiscs of the port that a fault replaces, by each mechanism that the machine may use."""
    on_host = way.sender.role is Role.HOST
    return frozenset(swapped_by(by, on_host) for by in _possible(planned, fault))


def _host_link_warnings(plan: Plan) -> Iterator[str]:
    links = {str(way): None for way, fault in dropping(plan) if not is_between_switches(way)}
    if links:
        yield (
            f"{', '.join(links)}: paths of flows that lose on a host's link may be `insufficient`; SprayCheck names "
            "such a link by `declared` only, and only on the way up to the leaf"
        )


def _spared_warnings(plan: Plan) -> Iterator[str]:
    """Warn of faults that drop no first transmissions, since leaves count no others."""
    spared = [
        planned for planned in plan.faults if any(fault.only.spares_first_sent for fault in planned.worded.faults)
    ]
    for planned in spared:
        yield f"{planned.chosen.text}: this fault drops no first transmissions, and SprayCheck counts no other packets"


def _uncrossed_warnings(plan: Plan) -> Iterator[str]:
    """Warn of faults on links over which no flow sends data."""
    if not plan.flows or plan.collectives:
        return
    ends = [(flow.source, flow.destination) for flow in plan.flows]
    crossing = [pair for pair in ends if plan.fabric.leaf_of(pair[0]) != plan.fabric.leaf_of(pair[1])]
    for planned in plan.faults:
        idle = [way for way in planned.chosen.ways if not _carries(plan, way, ends, crossing)]
        if len(idle) == len(planned.chosen.ways):
            yield f"{planned.chosen.text}: no flow sends data over it, only acknowledgements at most"


def _carries(
    plan: Plan, way: DirectedLink, ends: Sequence[tuple[int, int]], crossing: Sequence[tuple[int, int]]
) -> bool:
    """Return whether data crosses a direction; `crossing` are those of `ends` that are below different leaves."""
    leaf_of, sender, receiver = plan.fabric.leaf_of, way.sender, way.receiver
    if sender.role is Role.HOST:
        return any(source == sender.index for source, _ in ends)
    if receiver.role is Role.HOST:
        return any(target == receiver.index for _, target in ends)
    if sender.role is Role.LEAF:
        return any(leaf_of(source) == sender.index for source, _ in crossing)
    return any(leaf_of(target) == receiver.index for _, target in crossing)
