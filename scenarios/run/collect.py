"""From what the lab's processes wrote down to what one run needs: records of its epoch and time, conclusions, counts.

Reads files and records; judges nothing.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from agent.spraycheck.declared import NOTHING_SENT
from faults.accounting import SHUT
from faults.model import Corrupt
from faults.traits import TOLERANCE
from results.event_log import Fields
from results.metrics import NS, per_second, seconds
from results.summary import FlowResult, Injected, Reordering
from scenarios.lab.protocol import FaultState
from scenarios.run.expect import NOT_ADDED_UP, SHORT_ALIKE, Accused, Conclusion, MachineCounts
from scenarios.workload.traffic import FlowProgress, OpenFlow, ReorderCounts, Verification, WorkerCounts
from testbed.model.fabric import Fabric
from testbed.model.ids import DirectedLink, NodeId, Role

_SOFTNET = Path("/proc/net/softnet_stat")
_SOFTNET_DROPPED = 1
"""Column of packets dropped because a core's backlog was full (net/core/net-procfs.c)."""

_PERCENT = re.compile(r"(\d+(?:\.\d+)?)%")

_Counter = tuple[str, int, int]
"""A leaf, a destination queue pair, an arrival spine: what one verdict is about."""


class _Detect(msgspec.Struct, frozen=True):
    """What is needed of a DETECT record."""

    mono_ns: int
    node: str
    qpn: int
    expectation: str
    plane: int
    spine: int
    src_leaf: int
    dst_leaf: int
    verdict: str
    src_host: int = -1
    expected: float | None = msgspec.field(name="lambda", default=None)
    reason: str | None = None

    @property
    def counter(self) -> _Counter:
        return self.node, self.qpn, self.spine

    @property
    def pair(self) -> tuple[int, int]:
        """Leaves, from and to."""
        return self.src_leaf, self.dst_leaf

    @property
    def is_weak(self) -> bool:
        """Whether it says nothing for want of packets alone."""
        return self.verdict == "insufficient" and (self.reason or "").startswith(("a drop of", "margin of"))

    @property
    def links(self) -> tuple[str, str]:
        """The two fabric links of the path."""
        spine = NodeId.spine(self.plane, self.spine)
        source, destination = NodeId.leaf(self.plane, self.src_leaf), NodeId.leaf(self.plane, self.dst_leaf)
        return str(DirectedLink(self.plane, source, spine)), str(DirectedLink(self.plane, spine, destination))

    @property
    def causes(self) -> tuple[str, str, str]:
        """What the flow's paths have in common in this plane, as LOCALIZE names it."""
        source, host = NodeId.leaf(self.plane, self.src_leaf), NodeId.host(self.src_host)
        up, down = f"p{self.plane}:{source.short}>spine*", f"p{self.plane}:spine*>leaf{self.dst_leaf}"
        return str(DirectedLink(self.plane, host, source)), up, down


class _AddedUp(msgspec.Struct, frozen=True):
    """What is needed of an ADDED_UP record."""

    node: str
    qpns: tuple[int, ...]
    spine: int
    verdict: str


class _LinkSum(msgspec.Struct, frozen=True):
    """What is needed of a LINK_SUM record."""

    link: str
    verdict: str


class _Evidence(msgspec.Struct, frozen=True):
    node: str
    qpn: int
    spine: int
    verdict: str


class _Localize(msgspec.Struct, frozen=True):
    """What is needed of a LOCALIZE record."""

    mono_ns: int
    state: str
    links: tuple[str, ...]
    candidates: tuple[tuple[str, ...], ...]
    evidence: tuple[_Evidence, ...]
    pending: int
    common: tuple[str, ...] = ()
    common_candidates: tuple[tuple[str, ...], ...] = ()

    def names(self, link: str) -> bool:
        """Whether it accuses this for certain."""
        return link in self.links or link in self.common


class _Unmeasured(msgspec.Struct, frozen=True):
    """What is needed of an UNMEASURED record."""

    node: str
    src_host: int
    dst_host: int
    reason: str

    @property
    def text(self) -> str:
        return f"h{self.src_host}>h{self.dst_host} at {self.node}: {self.reason}"


def of_epoch(records: Iterable[Fields], epoch: int) -> list[Fields]:
    """Records of one run of a lab."""
    return [record for record in records if record.get("epoch") == epoch]


def of_time(records: Iterable[Fields], since_ns: int) -> list[Fields]:
    """Records from a moment on, by the monotonic clock."""
    return [record for record in records if record["mono_ns"] >= since_ns]


def truth_of(records: Sequence[Fields], since_ns: int) -> list[Fields]:
    """What was in force at a moment and what was changed after it."""
    in_force: dict[tuple[str, str], Fields] = {}
    for record in records:
        if record["mono_ns"] < since_ns:
            in_force.pop(_identity(record), None)
            if record["event"] == "FAULT_SET":
                in_force[_identity(record)] = record
    return [*in_force.values(), *of_time(records, since_ns)]


def conclusion_of(
    records: Sequence[Fields],
    first_packet_ns: int | None,
    wanted: int,
    expectation: str,
    asked: str = "",
    needed: int | None = None,
    left_over: Collection[tuple[int, int]] = (),
) -> Conclusion:
    """What SprayCheck said in the end by one expectation, from its records of one epoch.

    `wanted` is how many paths it had to judge, `asked` how many packets it would need, in words, and `needed` in
    number; None when no flow can have as many. `left_over` are pairs of leaves, from and to, of which small flows are
    not all judged in sums even where no path is out of use.
    """
    mine = list(_by(expectation, records))
    localizes = [msgspec.convert(record, _Localize) for record in mine if record["event"] == "LOCALIZE"]
    last = localizes[-1] if localizes else None
    alone = [msgspec.convert(record, _Detect) for record in mine if record["event"] == "DETECT"]
    detects = _with_sums(alone, [msgspec.convert(each, _AddedUp) for each in mine if each["event"] == "ADDED_UP"])
    links = [msgspec.convert(each, _LinkSum) for each in mine if each["event"] == "LINK_SUM"]
    detects = _with_link_sums(detects, links, last.links if last else ())
    adds_up = expectation == "uniform"  # only then are small flows added up (S6), and not those that lack a path
    lacking = {detect.counter[:2] for detect in detects if adds_up and detect.reason == NOTHING_SENT}
    reasons = [
        _why(detect, asked, needed, detect.counter[:2] in lacking and detect.pair not in left_over)
        for detect in detects
        if detect.verdict == "insufficient"
    ]
    return Conclusion(
        state=last.state if last else "silent",
        accused=tuple(_accused(link, detects, localizes, first_packet_ns) for link in (last.links if last else ())),
        common=tuple(_common(cause, detects, localizes, first_packet_ns) for cause in (last.common if last else ())),
        candidates=last.candidates if last else (),
        common_candidates=last.common_candidates if last else (),
        verdicts=dict(Counter(detect.verdict for detect in detects)),
        verdicts_wanted=wanted,
        insufficient=dict(Counter(reasons).most_common()),
        expectation=expectation,
        added_up=sum(each.verdict != before.verdict for each, before in zip(detects, alone, strict=True)),
        unmeasured=dict(Counter(each.text for each in _unmeasured(records)).most_common()),
    )


def _unmeasured(records: Iterable[Fields]) -> list[_Unmeasured]:
    return [msgspec.convert(record, _Unmeasured) for record in records if record["event"] == "UNMEASURED"]


def _with_sums(detects: list[_Detect], sums: Sequence[_AddedUp]) -> list[_Detect]:
    """Verdicts, those that say nothing alone as what the sum of their pair's flows says."""
    told: dict[_Counter, str] = {(each.node, qpn, each.spine): each.verdict for each in sums for qpn in each.qpns}
    return [
        msgspec.structs.replace(each, verdict=told[each.counter])
        if each.verdict == "insufficient" and each.counter in told
        else each
        for each in detects
    ]


def _with_link_sums(detects: list[_Detect], sums: Iterable[_LinkSum], named: Sequence[str]) -> list[_Detect]:
    """Verdicts, those of too few packets as what all flows over the path's links say: one failed, or both cleared."""
    told = {each.link: each.verdict for each in sums}  # the last word on each
    return [
        msgspec.structs.replace(each, verdict=_by_links(each, told, named)) if each.is_weak else each
        for each in detects
    ]


def _by_links(detect: _Detect, told: Mapping[str, str], named: Sequence[str]) -> str:
    if any(told.get(link) == "failed" and link in named for link in detect.links):
        return "failed"
    return "healthy" if all(told.get(link) == "healthy" for link in detect.links) else detect.verdict


def _by(expectation: str, records: Iterable[Fields]) -> Iterator[Fields]:
    """The records of one expectation."""
    return (record for record in records if record.get("expectation") == expectation)


def _why(detect: _Detect, asked: str, needed: int | None, lacking: bool) -> str:
    """Why a verdict says nothing, alike for all paths of which the same holds; `lacking`: its flow lacks a path."""
    reason = detect.reason or "no reason given"
    if reason.startswith("short, but not more than"):
        return SHORT_ALIKE
    if detect.is_weak and lacking:
        return NOT_ADDED_UP
    if asked and detect.expected is not None and detect.is_weak:
        has = f"{detect.expected:,.0f} packets a path"
        return f"{has}, {asked}" if needed is None or detect.expected < needed else f"{has}, yet {reason}"
    return reason


def unmeasured_count(records: Iterable[Fields]) -> int:
    """Of how many flows, in how many planes of each, no verdict will come, since leaves had no room for them."""
    return len(_unmeasured(records))


def is_settled(records: Sequence[Fields], wanted: int, expectation: str) -> bool:
    """Whether all paths are judged by an expectation and the accusation that follows from it is said."""
    said = [record for record in _by(expectation, records) if record["event"] == "LOCALIZE"]
    judged = verdict_count(records, expectation)
    return judged >= wanted and (not wanted or (bool(said) and said[-1]["pending"] == 0))


def verdict_count(records: Iterable[Fields], expectation: str) -> int:
    """How many paths have been judged by an expectation."""
    return sum(record["event"] == "DETECT" for record in _by(expectation, records))


def _accused(
    link: str, detects: Sequence[_Detect], localizes: Sequence[_Localize], first_packet_ns: int | None
) -> Accused:
    """A link, and the verdicts that the accusation rests on."""
    short = {item.counter: item for item in detects if link in item.links}
    evidence = [(item.node, item.qpn, item.spine) for item in localizes[-1].evidence if item.verdict == "failed"]
    return _told(link, [short[counter] for counter in evidence if counter in short], localizes, first_packet_ns)


def _common(
    cause: str, detects: Sequence[_Detect], localizes: Sequence[_Localize], first_packet_ns: int | None
) -> Accused:
    """What all paths of flows have in common, and the verdicts on all these paths."""
    return _told(cause, [item for item in detects if cause in item.causes], localizes, first_packet_ns)


def _told(
    name: str, grounds: Sequence[_Detect], localizes: Sequence[_Localize], first_packet_ns: int | None
) -> Accused:
    """Since when something was named without a break, which leaves say so, and after how many packets."""
    named_ns = localizes[-1].mono_ns
    for record in reversed(localizes):
        if not record.names(name):
            break
        named_ns = record.mono_ns
    after = None if first_packet_ns is None else (named_ns - first_packet_ns) / NS
    before = [item for item in grounds if item.mono_ns <= named_ns]
    packets = sum(round(item.expected or 0) for item in before)
    return Accused(name, tuple(sorted({item.node for item in grounds})), after, named_ns, packets, len(before))


def injected_since(
    before: Sequence[FaultState], now: Sequence[FaultState], gone: Sequence[FaultState] = ()
) -> tuple[Injected, ...]:
    """What each fault did between two readings; those that went in between are told with their last counters."""
    earlier = {(fault.link, fault.kind, fault.since): fault for fault in before}
    return tuple(_injected(each, earlier.get((each.link, each.kind, each.since))) for each in (*gone, *now))


def gone_between(records: Iterable[Fields], since_ns: int) -> tuple[FaultState, ...]:
    """Faults that were cleared after a moment, as the truth has them."""
    told: dict[tuple[str, str], Fields] = {}
    gone = []
    for record in records:
        key = _identity(record)
        if record["event"] == "FAULT_SET":
            told[key] = record
        elif key in told:
            was = told.pop(key)
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
    """Whether what is in force is what was asked for, word for word, each percentage up to the step of the kernel's."""
    asked, found = record["fault"], record["fault_in_force"]
    steps = zip(_PERCENT.findall(asked), _PERCENT.findall(found), strict=False)
    alike = _PERCENT.sub("%", asked) == _PERCENT.sub("%", found)
    return alike and all(abs(float(a) - float(b)) <= 100 * TOLERANCE for a, b in steps)


def _identity(record: Fields) -> tuple[str, str]:
    """What a FAULT_SET and its FAULT_CLEAR have in common, and no two faults that stand at once."""
    return record["link"], record["fault"]


def _amount(fault: str) -> str:
    """A fault in words without its kind: `1%` of `drop 1%`."""
    return fault.partition(" ")[2]


def _injected(fault: FaultState, earlier: FaultState | None) -> Injected:
    def grown(name: str) -> int:
        return (getattr(fault, name) or 0) - ((getattr(earlier, name) or 0) if earlier else 0)

    data = None if fault.dropped_writes is None else grown("dropped_writes")
    lost = grown("dropped") if data is None else data
    spoilt = grown("hit") if fault.kind == Corrupt.kind else 0
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


def dropping_links(injected: Iterable[Injected], fabric: Fabric) -> set[str]:
    """Links between switches that lost data: those that SprayCheck can see, and has to name."""
    between = {str(way) for link in fabric.links() if link.lower.role is Role.LEAF for way in link.directions}
    return {each.link for each in injected if each.link in between and each.dropped and each.dropped_writes != 0}


def lossy_access_links(injected: Iterable[Injected], fabric: Fabric) -> set[str]:
    """Links from hosts up to their leaves that lost data: all paths of the host in that plane lose alike."""
    up = {str(way) for link in fabric.links() for way in link.directions if way.sender.role is Role.HOST}
    return {each.link for each in injected if each.link in up and each.dropped and each.dropped_writes != 0}


def possibly_dropping(injected: Iterable[Injected], fabric: Fabric) -> frozenset[str]:
    """Links between switches that may have lost data uncounted: at a port that was shut, and the way back to it."""
    between = [way for link in fabric.links() if link.lower.role is Role.LEAF for way in link.directions]
    shut = {each.link for each in injected if each.kind in SHUT}
    return frozenset(str(way.reverse) for way in between if str(way) in shut) | (shut & set(map(str, between)))


def shut_ports(injected: Iterable[Injected], fabric: Fabric) -> frozenset[tuple[int, int]]:
    """Ports of hosts, as (host, plane), that a fault had shut for a while: their sends were refused on purpose."""
    shut = {each.link for each in injected if each.kind in SHUT}
    ways = (way for link in fabric.links() for way in link.directions if str(way) in shut)
    return frozenset((way.sender.index, way.plane) for way in ways if way.sender.role is Role.HOST)


def flow_results(
    flows: Sequence[OpenFlow],
    progress: Sequence[FlowProgress],
    verified: Sequence[Verification],
    workers: Sequence[WorkerCounts],
) -> tuple[FlowResult, ...]:
    """One result a flow."""
    told = {(row.host, row.qpn): row for worker in workers for row in worker.reordering}
    orders = [told.get((item.destination.host, item.destination.qpn)) for item in flows]
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
        payload_bytes=item.flow.payload_bytes or progress.posted_bytes,
        acked_bytes=progress.acked_bytes,
        packets=progress.packets_tx,
        retransmissions=progress.packets_rtx,
        timeouts=progress.timeouts,
        seconds=seconds(duration_ns),
        goodput_bps=per_second(progress.acked_bytes * 8, duration_ns),
        bytes_verified=verified.bytes,
        bytes_wrong=verified.wrong,
        workload=item.flow.workload,
        asked_bps=item.flow.rate_bps,
        at_s=item.flow.at_ns / NS,
        began_s=None if started is None else round((started - first_ns) / NS, 6),
        reordering=None if order is None else Reordering(order.in_order, order.late, order.most),
    )


def machine_counts(
    before: Sequence[WorkerCounts],
    after: Sequence[WorkerCounts],
    softnet_before: int,
    softnet_after: int,
    shut: frozenset[tuple[int, int]] = frozenset(),
    samples: Iterable[Fields] = (),
) -> MachineCounts:
    """What this machine lost and how long engines waited, between two readings.

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
    )


def softnet_drops() -> int:
    """Packets that any core's backlog refused since boot."""
    lines = _SOFTNET.read_text().splitlines()
    return sum(int(line.split()[_SOFTNET_DROPPED], 16) for line in lines)
