"""Converts faults for the owner's replies: values of the injector and the schedule to those of the protocol. Pure."""

import time

import msgspec

from faults.inject import FaultStatus
from faults.kinds import Fault
from faults.records import FaultClear
from faults.schedule import Next
from results.files.event_log import timestamp
from scenarios.lab.protocol import FaultPlanned, FaultState
from testbed.model.node_config import Difference
from testbed.model.node_names import DirectedLink


def standing(status: FaultStatus, by: str) -> FaultState:
    """Return a fault as the kernel holds it now."""
    return FaultState(
        link=status.link,
        kind=status.fault.kind,
        requested=_rate(status.fault),
        in_force=None if status.in_force is None else _rate(status.in_force),
        mechanism=status.mechanism,
        by=by,
        since=status.since.text,
        seen=status.tally.seen,
        dropped=status.tally.dropped,
        dropped_writes=status.tally.dropped_writes,
        fault=status.name,
        hit=status.tally.hit,
        dropped_reverse=status.tally.dropped_reverse,
        overlimits=status.tally.overlimits,
        seed=status.seed,
        requested_text=status.fault.amount,
        in_force_text=_in_force_text(status),
    )


def cleared(state: FaultState, record: FaultClear) -> FaultState:
    """Return a fault as it last was."""
    return msgspec.structs.replace(
        state,
        in_force=None,
        in_force_text="removed",
        seen=record.seen,
        dropped=record.dropped,
        dropped_writes=record.dropped_writes,
        hit=record.hit,
        dropped_reverse=record.dropped_reverse,
        overlimits=record.overlimits,
    )


def never_set(link: str, fault: Fault, by: str) -> FaultState:
    """Return a fault whose timeline was removed while it waited."""
    return FaultState(
        link=link,
        kind=fault.kind,
        requested=_rate(fault),
        in_force=None,
        mechanism="",
        by=by,
        since="",
        seen=0,
        dropped=0,
        dropped_writes=None,
        fault=fault.name,
        requested_text=fault.amount,
        in_force_text="removed",
    )


def planned(link: str, fault: Fault, following: Next, now_ns: int, by: str) -> FaultPlanned:
    """Return a timeline's next step, `now_ns` by the clock of its schedule."""
    in_s, at = None, None
    if following.at_ns is not None:
        left_ns = max(0, following.at_ns - now_ns)
        in_s, at = left_ns / 1e9, timestamp(time.time_ns() + left_ns)
    return FaultPlanned(
        link=link,
        kind=fault.kind,
        fault=fault.name,
        requested_text=fault.amount,
        act=following.act.value,
        in_s=in_s,
        at=at,
        event=following.event.value if following.event else None,
        by=by,
    )


def still_there(status: FaultStatus) -> bool:
    """Return whether the kernel holds a fault as it was set, up to the resolution of its numbers."""
    return status.in_force is not None and status.fault.agrees(status.in_force)


def removed(status: FaultStatus, way: DirectedLink) -> Difference:
    """Describe a fault that somebody else has removed or changed."""
    port, fault = way.egress, f"{status.fault.word} {status.fault.amount}".rstrip()
    found = "nothing" if status.in_force is None else status.in_force.amount
    words = f"was set to {fault} for {status.link}, and the kernel holds {found}"
    return Difference(str(port.node), port.interface, "fault", fault, found, words, (status.link,))


def _rate(fault: Fault) -> float | None:
    rate = fault.drop_rate
    return None if rate is None else float(rate)


def _in_force_text(status: FaultStatus) -> str:
    """Return the requested words, if the kernel holds that up to the resolution of its numbers."""
    if status.in_force is None:
        return "nothing"
    return (status.fault if still_there(status) else status.in_force).amount
