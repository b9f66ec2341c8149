"""Detector of one leaf: judges each flow record of its data plane once per expectation, and erases old state.

Sees only its own leaf's counters; its clock is an argument. SprayCheck D2 to D5.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import ceil

import numpy as np
from numpy.typing import NDArray

from agent.spraycheck.leaf.bpf_layout import NARROW_MOST, Place
from agent.spraycheck.leaf.counters import LeafCounters
from agent.spraycheck.leaf.flow_reports import (
    ChosenFlow,
    Declaration,
    FlowReport,
    Key,
    LeafRules,
    MeasuredFlow,
    PathCounts,
    RefusedFlow,
)
from agent.spraycheck.leaf.flow_state import FlowState
from agent.spraycheck.paths import FabricPath
from agent.spraycheck.statistics.calibration import FlowShape
from agent.spraycheck.statistics.declared import judge_declared, judge_source
from agent.spraycheck.statistics.flow_times import LossTime, Span
from agent.spraycheck.statistics.uniform import FlowTest, judge, plan_test
from agent.spraycheck.statistics.verdicts import NOTHING_SENT, Doubt, DoubtKind, Expectation, PathVerdict, Verdict
from agent.wire.constants import SprayPolicyCode

_log = logging.getLogger(__name__)


NO_ROOM = {
    Place.MEASURED: "this leaf marks as many flows as it has room for",
    Place.FLOWS: "this leaf counts as many flows as it has room for",
    Place.UNANNOUNCED: "this leaf heard of the flow only when it ended: its announcements were lost on the host's link",
    Place.SUPERSEDED: "this leaf keeps as many ended flows as it has room for, and has one of the same queue pair",
}
"""Reason for which a flow is not measured, by table."""


class LeafDetector:
    """Judges each flow of one leaf once by each expectation. `poll` is called regularly, some times a second."""

    def __init__(self, rules: LeafRules, counters: LeafCounters) -> None:
        self.rules = rules
        self._counters = counters
        self._flows: dict[Key, FlowState] = {}
        """States of flows that are not yet erased."""
        self._pending: list[tuple[MeasuredFlow, FlowState]] = []
        self._chosen: set[Key] = set()
        self._refused: set[Key] = set()
        self._polled_ns: int | None = None
        self._records: NDArray[np.void] | None = None
        """Flow records at the last poll."""

    @property
    def pending(self) -> tuple[tuple[MeasuredFlow, Expectation], ...]:
        """Flows announced to this leaf that had no verdict at the last poll, each with the expectation that is due."""
        return tuple((flow, each) for flow, state in self._pending for each in state.owed or ())

    def chosen(self) -> list[ChosenFlow]:
        """Return flows that this leaf, as their source, began to measure since the last call; none if it measures all.

        Raises CountersError.
        """
        if not self.rules.one:
            return []
        qpns, marks = self._counters.marks()
        now = {(int(qpn), int(mark["epoch"])): int(mark["dst_leaf"]) for qpn, mark in zip(qpns, marks, strict=True)}
        fresh = [key for key in now if key not in self._chosen]
        self._chosen = set(now)
        return [ChosenFlow(self.rules.plane, self.rules.leaf, now[key], *key) for key in fresh]

    def refused(self) -> list[RefusedFlow]:
        """Return flows for which this leaf had no room since the last call. Raises CountersError."""
        found = self._counters.refusals()
        found = found[found["place"] != Place.UNKNOWN]
        before, self._refused = self._refused, {(int(each["dqpn"]), int(each["epoch"])) for each in found}
        fresh = (each for each in found if (int(each["dqpn"]), int(each["epoch"])) not in before)
        return [_refused_flow(self.rules, each) for each in fresh]

    def entered(self) -> dict[Key, int]:
        """Count first transmissions that have come from the hosts, for each flow that this leaf measures as its source.

        Raises CountersError.
        """
        qpns, marks = self._counters.marks()
        return {(int(qpn), int(mark["epoch"])): int(mark["entered"]) for qpn, mark in zip(qpns, marks, strict=True)}

    def declarations(self) -> list[Declaration]:
        """Return senders' declarations of flows in other planes since the last call. Raises CountersError."""
        return [
            Declaration(_flow_of(each), tuple(each["sent"][: int(each["spines"])].tolist()))
            for each in self._counters.take_elsewhere()
        ]

    def has_heard_of(self, key: Key) -> bool:
        """Report whether an announcement of the flow had come by the last poll."""
        found = self._records
        if found is None:
            return False
        same = (found["dqpn"] == key[0]) & (found["epoch"] == key[1]) & (found["announced_ns"] > 0)
        return bool(same.any())

    def has_refused(self, key: Key) -> bool:
        """Report whether the last call of `refused` listed the flow."""
        return key in self._refused

    def poll(self, now_ns: int) -> list[FlowReport]:
        """Read the counters; return the reports of flows that ended since the last poll. Raises CountersError."""
        reports = list[FlowReport]()
        records = self._records = self._counters.flows()
        keys = list(zip(records["dqpn"].tolist(), records["epoch"].tolist(), strict=True))
        states = [self._flows.setdefault(key, FlowState()) for key in keys]
        self._note_again(records, states, now_ns)
        old = now_ns - records["seen_ns"].astype(np.int64) > self.rules.erase_after_ns
        self._pending = []
        # Most flows only go on, or are of earlier runs, and there may be thousands of them.
        for place, (has_ended, is_old) in enumerate(zip(self._have_ended(records, old), old.tolist(), strict=True)):
            record, state = records[place], states[place]
            if state.is_over and not is_old:
                continue
            if record["announced_ns"] and (has_ended or state.flow is None):
                reports += self._judge(state, record, now_ns)
            if state.flow is not None and state.owed:
                self._pending.append((state.flow, state))
            if is_old:
                self._erase(record, keys[place])
        self._counters.erase_marks(now_ns - self.rules.erase_after_ns)
        return reports

    def _note_again(self, records: NDArray[np.void], states: Sequence[FlowState], now_ns: int) -> None:
        """Note the flows of which retransmissions have come since the last poll."""
        since_ns, self._polled_ns = now_ns if self._polled_ns is None else self._polled_ns, now_ns
        if self.rules.narrow or not len(records):
            return
        counts = records["again"].sum(axis=1, dtype=np.int64)
        for place in np.flatnonzero(counts).tolist():
            if not states[place].is_over:
                states[place].note_again(int(counts[place]), since_ns, now_ns)

    def _have_ended(self, records: NDArray[np.void], old: NDArray[np.bool_]) -> list[bool]:
        """Report which records have ended in some way, so that there may be something to judge or to erase."""
        ended = (records["stopped_ns"] > 0) | old
        if not self.rules.narrow:
            ended |= records["closed_ns"] > 0
        listed: list[bool] = ended.tolist()
        return listed

    def _judge(self, state: FlowState, record: np.void, now_ns: int) -> Iterator[FlowReport]:
        """Make the reports that are due of an announced flow."""
        if state.flow is None:
            state.flow, state.owed = _flow_of(record), self.rules.expectations
            self._write_test(record)
        closed = self._has_closed(state, record, now_ns)
        for expectation in state.owed or ():
            report = _REPORTS[expectation](self, state, record, closed, now_ns)
            if report is not None:
                state.owed = tuple(each for each in state.owed or () if each is not expectation)
                yield report

    def _has_stopped(self, state: FlowState, record: np.void, now_ns: int) -> bool:
        """Report whether the last PSN has come and nothing that it overtook is to come."""
        if not record["stopped_ns"]:
            return False
        still_ns = state.still_since_last_psn(self._counts(record).late, int(record["stopped_ns"]), now_ns)
        return still_ns >= self.rules.settle_ns

    def _has_closed(self, state: FlowState, record: np.void, now_ns: int) -> bool:
        """Report whether the sender has closed the flow and nothing more of it is to come."""
        if self.rules.narrow or not record["closed_ns"]:
            return False
        barriers = record["barrier"][list(self.rules.spines)] > 0
        still_ns = state.still_since_closed(self._counts(record).arrived, barriers, now_ns)
        return still_ns >= (self.rules.settle_ns if barriers.all() else self.rules.quiet_ns)

    def _uniform(self, state: FlowState, record: np.void, closed: bool, now_ns: int) -> FlowReport | None:
        """Make the report by equal shares once the flow has ended or is given up; None while it runs."""
        if (closed or self._has_stopped(state, record, now_ns)) and (
            used := self._used(record, closed, now_ns)
        ) is not None:
            test = self._test_of(record, int(np.count_nonzero(~used)))
            if isinstance(test, str):
                return self._insufficient(state, record, Expectation.UNIFORM, test)
            counts = self._counts(record)
            expected = tuple(np.where(used, test.shape.expected, 0.0).tolist())
            verdicts = _over_used(test, counts.arrived, used)
            return self._report(state, record, Expectation.UNIFORM, expected, verdicts, counts, test)
        if self._expired(record, now_ns):
            reason = f"last PSN not seen within {self.rules.erase_after_ns / 1e9:g} s"
            return self._insufficient(state, record, Expectation.UNIFORM, reason)
        return None

    def _used(self, record: np.void, closed: bool, now_ns: int) -> NDArray[np.bool_] | None:
        """Find the paths on which the sender put anything (L4), `(k,)`; None while that is not known.

        Where something arrived it did. A path that brought nothing is out of use or loses all: the declaration shows
        which. If none comes while the state is kept, or none can, the path counts as used.
        """
        used: NDArray[np.bool_] = self._counts(record).arrived > 0
        if used.all() or self.rules.narrow or record["spines"] != len(self.rules.spines):
            return np.ones_like(used)
        if closed:
            used |= record["sent"][list(self.rules.spines)] > 0
            return used if used.any() else np.ones_like(used)
        return np.ones_like(used) if self._expired(record, now_ns) else None

    def _declared(self, state: FlowState, record: np.void, closed: bool, now_ns: int) -> FlowReport | None:
        """Make the report by the sender's declaration; None while that or the last packets are to come."""
        known = len(self.rules.spines)
        if record["spines"] != known:
            return self._insufficient(state, record, Expectation.DECLARED, self._other_spines(record))
        if closed:
            counts, sent = self._counts(record), record["sent"][list(self.rules.spines)].astype(np.int64)
            judged = sent, counts.arrived, self.rules.required
            verdicts, source = judge_declared(*judged), judge_source(*judged)
            report = self._report(state, record, Expectation.DECLARED, tuple(map(float, sent)), verdicts, counts)
            return replace(report, sent=tuple(sent.tolist()), source=source)
        if self._expired(record, now_ns):
            reason = f"the sender did not close the flow within {self.rules.erase_after_ns / 1e9:g} s"
            return self._insufficient(state, record, Expectation.DECLARED, reason)
        return None

    def _write_test(self, record: np.void) -> None:
        """Write the threshold below which the data plane flags counts (D2), if there is a test."""
        test = self._test_of(record)
        if isinstance(test, FlowTest) and test.threshold > 0:
            key = int(record["dqpn"]), int(record["epoch"]), int(record["last_psn"])
            self._counters.set_test(*key, ceil(test.threshold))

    def _test_of(self, record: np.void, vacant: int = 0) -> FlowTest | str:
        """Return the test for a flow of which some paths are out of use, or the reason why there is none."""
        known = len(self.rules.spines)
        if record["spines"] != known:
            return self._other_spines(record)
        try:
            policy = SprayPolicyCode(int(record["policy"]))
            shape = FlowShape(policy, int(record["packets"]), known - vacant, self.rules.copies, vacant=vacant)
            test = plan_test(shape, self.rules.required)
        except ValueError as error:
            return str(error)
        most = test.shape.expected + test.calibration.end_effect_pkts
        if self.rules.narrow and most >= NARROW_MOST:
            return f"{most:,.0f} packets per path do not fit 16-bit counters, which stay at {NARROW_MOST:,}"
        return test

    def _other_spines(self, record: np.void) -> str:
        return f"announced over {record['spines']} spines, this leaf has {len(self.rules.spines)}"

    def _report(
        self,
        state: FlowState,
        record: np.void,
        expectation: Expectation,
        expected: tuple[float, ...],
        verdicts: tuple[PathVerdict, ...],
        counts: PathCounts,
        test: FlowTest | None = None,
    ) -> FlowReport:
        span = _span_of(record)
        lossy = None if state.again_seen is None else LossTime.of(state.again_seen, state.again, span)
        parts = self.rules.spines, expected, test, verdicts, counts
        return FlowReport(_flow_of(record), expectation, *parts, span=span, lossy=lossy)

    def _insufficient(self, state: FlowState, record: np.void, expectation: Expectation, reason: str) -> FlowReport:
        counts, doubt = self._counts(record), Doubt(DoubtKind.NOT_COUNTED, reason)
        verdicts = tuple(
            PathVerdict(path, int(count), Verdict.INSUFFICIENT, doubt) for path, count in enumerate(counts.arrived)
        )
        expected = (int(record["packets"]) / len(self.rules.spines),) * len(self.rules.spines)
        return self._report(state, record, expectation, expected, verdicts, counts)

    def _counts(self, record: np.void) -> PathCounts:
        places = list(self.rules.spines)
        bits = np.unpackbits(record["flagged"].view(np.uint8), bitorder="little")[places].astype(np.bool_)
        flagged = bits if record["compared"] else None
        arrived = record["arrived"][places].astype(np.int64)
        if self.rules.narrow:
            nothing = np.zeros(len(places), np.int64)
            return PathCounts(arrived, nothing, nothing, nothing, flagged)
        late, trimmed, again = (record[name][places].astype(np.int64) for name in ("late", "trimmed", "again"))
        return PathCounts(arrived + late, late, trimmed, again, flagged)

    def _erase(self, record: np.void, key: Key) -> None:
        """Forget a flow (D4)."""
        if not record["announced_ns"]:
            _log.warning("p%d-leaf%d: QP %#x was marked but not announced", self.rules.plane, self.rules.leaf, key[0])
        self._counters.erase(*key)
        self._flows.pop(key, None)

    def _expired(self, record: np.void, now_ns: int) -> bool:
        return now_ns - int(record["seen_ns"]) > self.rules.erase_after_ns


_REPORTS = {Expectation.UNIFORM: LeafDetector._uniform, Expectation.DECLARED: LeafDetector._declared}


def _over_used(test: FlowTest, arrived: NDArray[np.int64], used: NDArray[np.bool_]) -> tuple[PathVerdict, ...]:
    """Judge all paths, `(k,)` counts, by a test of those that were used."""
    places = np.flatnonzero(used).tolist()
    judged = {place: replace(each, path=place) for place, each in zip(places, judge(test, arrived[used]), strict=True)}
    idle = (PathVerdict(path, 0, Verdict.INSUFFICIENT, NOTHING_SENT) for path in range(len(used)))
    return tuple(judged.get(each.path, each) for each in idle)


def pending_paths(detector: LeafDetector) -> Counter[tuple[tuple[int, Expectation], FabricPath]]:
    """Count the verdicts that this leaf still owes on a path, by epoch and expectation."""
    sources = Counter((flow.epoch, expectation, flow.src_leaf) for flow, expectation in detector.pending)
    rules, owed = detector.rules, Counter[tuple[tuple[int, Expectation], FabricPath]]()
    for (epoch, expectation, src_leaf), flows in sources.items():
        for spine in rules.spines:
            owed[(epoch, expectation), FabricPath(rules.plane, src_leaf, spine, rules.leaf)] = flows
    return owed


def _span_of(record: np.void) -> Span:
    """Return the time from the first sign of a flow to its last packet, or else to its closing announcement."""
    names = ("stopped_ns", "closed_ns") if "closed_ns" in (record.dtype.names or ()) else ("stopped_ns",)
    ends = [at_ns for name in names if (at_ns := int(record[name]))]
    began_ns = int(record["seen_ns"])
    return Span(began_ns, max([began_ns, *ends[:1]]))


def _flow_of(record: np.void) -> MeasuredFlow:
    names = ("plane", "src_leaf", "dst_leaf", "src_host", "dst_host", "dqpn", "epoch", "packets")
    return MeasuredFlow(*(int(record[name]) for name in names))


def _refused_flow(rules: LeafRules, refusal: np.void) -> RefusedFlow:
    names = ("src_leaf", "dst_leaf", "src_host", "dst_host", "dqpn", "epoch")
    numbers = {name: int(refusal[name]) for name in names}
    qpn, reason = numbers.pop("dqpn"), NO_ROOM[Place(int(refusal["place"]))]
    return RefusedFlow(plane=rules.plane, leaf=rules.leaf, qpn=qpn, reason=reason, **numbers)
