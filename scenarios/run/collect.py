"""Collects what one run needs from the records and counters of the lab's processes. Judges nothing."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from faults.kinds import TOLERANCE, Hit, kind_named
from faults.selector import spares_first_sent
from results.detect_log import Said
from results.files.event_log import Fields
from results.metrics import NS, per_second, seconds
from results.records.rejected import rejected_since
from results.summary import CaptureResult, FlowResult, Injected, Reordering
from scenarios.lab.protocol import Checked, FaultState
from scenarios.run.judge.checks import MachineCounts
from scenarios.workload.collectives import CollectiveOutcome
from scenarios.workload.traffic import (
    FlowProgress,
    OpenFlow,
    ReorderCounts,
    Verification,
    WorkerCounts,
    rejected_counts,
)
from testbed.model.fabric import Fabric
from testbed.model.node_names import NodeId, Role


@dataclass(frozen=True)
class Readings:
    """The counters of a lab at one moment."""

    mono_ns: int
    workers: tuple[WorkerCounts, ...]
    softnet_drops: int
    faults: tuple[FaultState, ...]
    gone: tuple[FaultState, ...] = ()
    """Faults that anyone cleared since the run began."""


@dataclass(frozen=True)
class Recorded:
    """Everything that a run has recorded, not yet judged."""

    flows: tuple[OpenFlow, ...]
    progress: tuple[FlowProgress, ...]
    verified: tuple[Verification, ...]
    collectives: CollectiveOutcome
    verdicts: tuple[Fields, ...]
    """SprayCheck's records of the run."""
    before: Readings
    after: Readings
    captures: tuple[CaptureResult, ...]
    lab_before: Checked | None
    """Comparison of the lab with its plan before this run; None for a lab that this run has built."""
    lab_after: Checked

    @cached_property
    def injected(self) -> tuple[Injected, ...]:
        """Return what every fault did during the run."""
        return injected_since(self.before.faults, self.after.faults, self.after.gone)


_PERCENT = re.compile(r"(\d+(?:\.\d+)?)%")


def of_epoch(records: Iterable[Fields], epoch: int) -> list[Fields]:
    """Return the records of one run of a lab."""
    return [record for record in records if record.get("epoch") == epoch]


def of_time(records: Iterable[Fields], since_ns: int) -> list[Fields]:
    """Return the records from a moment on, by the monotonic clock."""
    return [record for record in records if record["mono_ns"] >= since_ns]


def truth_of(records: Sequence[Fields], since_ns: int) -> list[Fields]:
    """Return the records of what was in force at a moment, and of all changes after it."""
    in_force: dict[tuple[str, str], Fields] = {}
    for record in records:
        if record["mono_ns"] < since_ns:
            in_force.pop(_identity(record), None)
            if record["event"] == "FAULT_SET":
                in_force[_identity(record)] = record
    return [*in_force.values(), *of_time(records, since_ns)]


def is_settled(said: Said, wanted: int) -> bool:
    """Return whether all `wanted` verdicts on paths have come, and the accusation that follows from them."""
    return len(said.flows) >= wanted and (not wanted or said.is_whole)


def injected_since(
    before: Sequence[FaultState], now: Sequence[FaultState], gone: Sequence[FaultState] = ()
) -> tuple[Injected, ...]:
    """Return what each fault did between two readings; faults that went meanwhile have their last counters."""
    earlier = {(fault.link, fault.kind, fault.since): fault for fault in before}
    return tuple(_injected(each, earlier.get((each.link, each.kind, each.since))) for each in (*gone, *now))


def gone_between(records: Iterable[Fields], since_ns: int) -> tuple[FaultState, ...]:
    """Return faults that were cleared after a moment, as the truth records them."""
    in_force: dict[tuple[str, str], Fields] = {}
    gone = []
    for record in records:
        key = _identity(record)
        if record["event"] == "FAULT_SET":
            in_force[key] = record
        elif key in in_force:
            was = in_force.pop(key)
            if record["mono_ns"] >= since_ns:
                gone.append(_last_state(was, record))
    return tuple(gone)


def _last_state(was: Fields, cleared: Fields) -> FaultState:
    return FaultState(
        link=was["link"],
        kind=was["kind"],
        requested=was["requested"],
        in_force=was["in_force"],
        mechanism=was["mechanism"],
        by=was["by"],
        since=was["ts"],
        seen=cleared["seen"],
        dropped=cleared["dropped"],
        dropped_writes=cleared["dropped_writes"],
        hit=cleared["hit"],
        dropped_reverse=cleared["dropped_reverse"],
        overlimits=cleared["overlimits"],
        requested_text=_amount(was["fault"]),
        in_force_text=_amount(was["fault"] if _is_as_asked(was) else was["fault_in_force"]),
    )


def _is_as_asked(record: Fields) -> bool:
    """Return whether the fault in force is the requested one, each percentage up to the kernel's resolution."""
    asked, found = record["fault"], record["fault_in_force"]
    steps = zip(_PERCENT.findall(asked), _PERCENT.findall(found), strict=False)
    alike = _PERCENT.sub("%", asked) == _PERCENT.sub("%", found)
    return alike and all(abs(float(a) - float(b)) <= 100 * TOLERANCE for a, b in steps)


def _identity(record: Fields) -> tuple[str, str]:
    """Return what a FAULT_SET and its FAULT_CLEAR share, and no two faults that are in force at once."""
    return record["link"], record["fault"]


def _amount(fault: str) -> str:
    """Return the text of a fault without its kind: `1%` of `drop 1%`."""
    return fault.partition(" ")[2]


def _injected(fault: FaultState, earlier: FaultState | None) -> Injected:
    def grown(name: str) -> int:
        return (getattr(fault, name) or 0) - ((getattr(earlier, name) or 0) if earlier else 0)

    data = None if fault.dropped_writes is None else grown("dropped_writes")
    lost = grown("dropped") if data is None else data
    spoilt = grown("hit") if kind_named(fault.kind).says.hits is Hit.SPOILT else 0
    return Injected(
        fault.link,
        fault.kind,
        fault.requested,
        fault.in_force,
        fault.mechanism,
        fault.by,
        seen=grown("seen"),
        dropped=grown("dropped"),
        dropped_writes=data,
        explains=lost + spoilt + grown("dropped_reverse"),
        requested_text=fault.requested_text,
        in_force_text=fault.in_force_text,
        dropped_reverse=None if fault.dropped_reverse is None else grown("dropped_reverse"),
        hit=None if fault.hit is None else grown("hit"),
    )


def _lost_first_sent(fault: Injected) -> bool:
    """Return whether a fault dropped data that leaves count: writes, sent for the first time."""
    return bool(fault.dropped and fault.dropped_writes != 0 and not spares_first_sent(fault.requested_text))


def dropping_links(injected: Iterable[Injected], fabric: Fabric) -> set[str]:
    """Return links between switches that lost data: SprayCheck can see them, and has to name them."""
    between = {str(way) for link in fabric.links() if link.lower.role is Role.LEAF for way in link.directions}
    return {each.link for each in injected if each.link in between and _lost_first_sent(each)}


def lossy_access_links(injected: Iterable[Injected], fabric: Fabric) -> set[str]:
    """Return links from hosts up to their leaves that lost data: all paths of the host in that plane lose alike."""
    up = {str(way) for link in fabric.links() for way in link.directions if way.sender.role is Role.HOST}
    return {each.link for each in injected if each.link in up and _lost_first_sent(each)}


def possibly_dropping(injected: Iterable[Injected], fabric: Fabric) -> frozenset[str]:
    """Return links between switches that may have lost data uncounted: at a shut port, and the way back to it."""
    between = [way for link in fabric.links() if link.lower.role is Role.LEAF for way in link.directions]
    shut = {each.link for each in injected if kind_named(each.kind).shuts_ports()}
    return frozenset(str(way.reverse) for way in between if str(way) in shut) | (shut & set(map(str, between)))


def shut_ports(injected: Iterable[Injected], fabric: Fabric) -> frozenset[tuple[int, int]]:
    """Return ports of hosts, as (host, plane), that a fault had shut for a while: it refused their sends on purpose."""
    shut = {each.link for each in injected if kind_named(each.kind).shuts_ports()}
    ways = (way for link in fabric.links() for way in link.directions if str(way) in shut)
    return frozenset((way.sender.index, way.plane) for way in ways if way.sender.role is Role.HOST)


def flow_results(
    flows: Sequence[OpenFlow],
    progress: Sequence[FlowProgress],
    verified: Sequence[Verification],
    workers: Sequence[WorkerCounts],
) -> tuple[FlowResult, ...]:
    """Return one result per flow."""
    rows = {(row.host, row.qpn): row for worker in workers for row in worker.reordering}
    orders = [rows.get((item.destination.host, item.destination.qpn)) for item in flows]
    first_ns = min((row.started_ns for row in progress if row.started_ns is not None), default=0)
    return tuple(_flow_result(first_ns, *parts) for parts in zip(flows, progress, verified, orders, strict=True))


def _flow_result(
    first_ns: int, item: OpenFlow, progress: FlowProgress, verified: Verification, order: ReorderCounts | None
) -> FlowResult:
    started, finished = progress.started_ns, progress.finished_ns
    duration_ns = None if started is None or finished is None else finished - started
    return FlowResult(
        source=str(NodeId.host(item.flow.source)),
        destination=str(NodeId.host(item.flow.destination)),
        qpn=item.destination.qpn,
        state=progress.state,
        payload_bytes=item.flow.payload_bytes,
        acked_bytes=progress.acked_bytes,
        packets=progress.packets_tx,
        retransmissions=progress.packets_rtx,
        timeouts=progress.timeouts,
        seconds=seconds(duration_ns),
        goodput_bps=per_second(progress.acked_bytes * 8, duration_ns),
        bytes_verified=verified.bytes,
        bytes_wrong=verified.wrong,
        workload=item.flow.workload,
        is_barrier=item.is_barrier,
        asked_bps=item.flow.rate_bps,
        at_s=item.flow.at_ns / NS,
        began_s=None if started is None else round((started - first_ns) / NS, 6),
        source_qpn=item.source.qpn,
        reordering=None if order is None else Reordering(order.in_order, order.late, order.most),
        duplicates=0 if order is None else order.duplicates,
    )


def machine_counts(
    before: Sequence[WorkerCounts],
    after: Sequence[WorkerCounts],
    softnet_before: int,
    softnet_after: int,
    shut: frozenset[tuple[int, int]] = frozenset(),
    samples: Iterable[Fields] = (),
) -> MachineCounts:
    """Return what this machine lost and how long engines waited, between two readings.

    `shut` are ports (host, plane) at which sends were refused on purpose, `samples` what was noted in between.
    """

    def grown(total: int, earlier: int) -> int:
        return max(0, total - earlier)

    def ports(counts: Sequence[WorkerCounts], name: str) -> int:
        return sum(getattr(port, name) for worker in counts for port in worker.ports)

    def refused(counts: Sequence[WorkerCounts]) -> int:
        rows = (port for worker in counts for port in worker.ports)
        return sum(port.tx_errors for port in rows if (port.host, port.plane) not in shut)

    worst = [share for sample in samples if (share := sample.get("sched_wait_worst")) is not None]
    return MachineCounts(
        ring_drops=grown(ports(after, "rx_drops"), ports(before, "rx_drops")),
        softnet_drops=grown(softnet_after, softnet_before),
        tx_errors=grown(refused(after), refused(before)),
        engine_ns=grown(sum(w.cpu_ns for w in after), sum(w.cpu_ns for w in before)),
        wait_ns=grown(sum(w.sched_wait_ns for w in after), sum(w.sched_wait_ns for w in before)),
        wait_worst=max(worst, default=None),
        events_cut=grown(sum(w.events_cut for w in after), sum(w.events_cut for w in before)),
        rejected=rejected_since(rejected_counts(before), rejected_counts(after)),
    )
