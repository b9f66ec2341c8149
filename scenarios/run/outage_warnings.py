"""Which faults of a plan take a port out of service while traffic runs, by coming or going. Pure."""

from collections.abc import Collection, Container, Iterator

from faults.kinds import Fault
from faults.outages import swapped_by
from faults.timeline.timing import ALWAYS, Event, Timing
from scenarios.file.plan import Plan, PlannedFault
from scenarios.lab.start.readiness import AUTO
from testbed.model.ids import DirectedLink, Role

_COST = (
    "takes the port out of service for some milliseconds: what is sent then is lost and not counted, so more "
    "retransmissions than drops will be no fault of the run"
)


def outage_warnings(plan: Plan, missing: Collection[str] = ()) -> Iterator[str]:
    """One sentence a fault of an order that swaps a qdisc under traffic, or may, as this depends on the machine.

    `missing` are mechanisms that it does not have.
    """
    kept = _kept(plan)
    for order in plan.faults:
        acts = _acts_under_traffic(order.worded.timing)
        for fault in order.worded.faults if acts else ():
            swapping = {way: by for way in order.chosen.ways if (by := _swapping(order, fault, way, kept, missing))}
            if swapping:
                way, by = next(iter(swapping.items()))
                more = f" (and {len(swapping) - 1:,} more)" if len(swapping) > 1 else ""
                yield f"{way}{more} {fault}: {acts} it under traffic{_if_text(order, fault, by)} {_COST}"


def _acts_under_traffic(timing: Timing) -> str:
    """What of a fault happens after the first packet: a run orders its faults, and tells of traffic, before that."""
    sets = bool(timing.at_ns or timing.every_ns) or timing.on is Event.DETECTED
    clears = timing.for_ns is not None or timing.until is not None
    return " and ".join(act for act, is_done in (("setting", sets), ("clearing", clears)) if is_done)


def _possible(order: PlannedFault, fault: Fault) -> tuple[str, ...]:
    return tuple(map(str, fault.makers)) if order.mechanism == AUTO else (order.mechanism,)


def _swapping(
    order: PlannedFault,
    fault: Fault,
    way: DirectedLink,
    kept: Container[tuple[DirectedLink, str | None]],
    missing: Collection[str],
) -> tuple[str, ...]:
    """Mechanisms of which the machine may take one that swaps a qdisc of the port."""
    needs = {by: swapped_by(by, way.sender.role is Role.HOST) for by in _possible(order, fault)}
    return tuple(by for by, swapped in needs.items() if swapped and (way, swapped) not in kept and by not in missing)


def _if_text(order: PlannedFault, fault: Fault, swapping: tuple[str, ...]) -> str:
    """Empty where every mechanism that may be taken swaps one."""
    others = [by for by in _possible(order, fault) if by not in swapping]
    return f" by {' or '.join(swapping)} (`mechanism: {others[0]}` avoids it)" if others else ""


def _kept(plan: Plan) -> frozenset[tuple[DirectedLink, str | None]]:
    """What is there throughout at which ports, whichever mechanism is taken, for a fault that stands all the time."""
    standing = [order for order in plan.faults if order.worded.timing == ALWAYS]
    return frozenset(
        (way, next(iter(needs)))
        for order in standing
        for fault in order.worded.faults
        for way in order.chosen.ways
        if len(needs := _needs(order, fault, way)) == 1
    )


def _needs(order: PlannedFault, fault: Fault, way: DirectedLink) -> frozenset[str | None]:
    """What of the port is swapped for a fault, for each mechanism that may be taken."""
    on_host = way.sender.role is Role.HOST
    return frozenset(swapped_by(by, on_host) for by in _possible(order, fault))
