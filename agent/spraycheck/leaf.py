"""The detector of one leaf: flow records of its data plane to verdicts, once a flow, and old state erased.

Sees only its own leaf's counters; its clock is an argument. SprayCheck D2 to D5.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agent.spraycheck.calibration import FlowShape
from agent.spraycheck.counters import LeafCounters
from agent.spraycheck.declared import SourceVerdict
from agent.spraycheck.detector import Asked, FlowTest, PathVerdict, Verdict, judge, plan_test
from agent.spraycheck.paths import FabricPath
from agent.wire.constants import SprayPolicyCode

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LeafRules:
    """What one leaf's detector goes by."""

    plane: int
    leaf: int
    spines: tuple[int, ...]
    """Usable spines, in the order of a flow's paths."""
    asked: Asked
    copies: int
    """EVs a path has."""
    settle_ns: int
    """How long after the last PSN packets overtaken by it are still waited for."""
    erase_after_ns: int
    """When a flow's state is erased, judged or not (D4)."""


@dataclass(frozen=True, slots=True)
class MeasuredFlow:
    """Which flow a report is about."""

    plane: int
    src_leaf: int
    dst_leaf: int
    src_host: int
    dst_host: int
    qpn: int
    epoch: int
    packets: int
    """N as announced."""

    def path(self, spine: int) -> FabricPath:
        """The flow's path over one spine."""
        return FabricPath(self.plane, self.src_leaf, spine, self.dst_leaf)


@dataclass(frozen=True, slots=True)
class FlowReport:
    """The verdicts of one flow; entry i of each tuple is about spine `spines[i]`."""

    flow: MeasuredFlow
    spines: tuple[int, ...]
    test: FlowTest | None
    """None when there is no expectation to test against."""
    verdicts: tuple[PathVerdict, ...]
    late: tuple[int, ...]
    """Packets, contained in the counts, that came after the last PSN."""
    sent: tuple[int, ...] | None = None
    """First transmissions that the sender declared for each path, if it did."""
    source: SourceVerdict | None = None
    """What the flow says of its paths together, if the sender declared."""
    entered: Verdict | None = None
    """What the source leaf's count of the flow says of the host's link, if it is known here."""


class LeafDetector:
    """Judges each flow of one leaf once. `poll` is called regularly, some times a second."""

    def __init__(self, rules: LeafRules, counters: LeafCounters) -> None:
        self.rules = rules
        self._counters = counters
        self._judged: set[tuple[int, int]] = set()
        self._pending: tuple[MeasuredFlow, ...] = ()

    @property
    def pending(self) -> tuple[MeasuredFlow, ...]:
        """Flows announced to this leaf that had no verdict at the last poll."""
        return self._pending

    def poll(self, now_ns: int) -> list[FlowReport]:
        """Read the counters; the reports of flows that ended since. Raises CountersError."""
        reports, pending = [], []
        for record in self._counters.flows():
            key = int(record["dqpn"]), int(record["epoch"])
            if record["announced_ns"] and key not in self._judged:
                report = self._report(record, now_ns)
                if report is None:
                    pending.append(_flow_of(record))
                else:
                    self._judged.add(key)
                    reports.append(report)
            self._expire(record, key, now_ns)
        self._counters.erase_marks(now_ns - self.rules.erase_after_ns)
        self._pending = tuple(pending)
        return reports

    def _report(self, record: np.void, now_ns: int) -> FlowReport | None:
        """The report of a flow that has ended or is given up, None while it runs."""
        if record["stopped_ns"]:
            if now_ns - int(record["stopped_ns"]) < self.rules.settle_ns:
                return None
            test = self._test_of(record)
            return self._insufficient(record, test) if isinstance(test, str) else self._judge(record, test)
        if self._expired(record, now_ns):
            return self._insufficient(record, f"last PSN not seen within {self.rules.erase_after_ns / 1e9:g} s")
        return None

    def _test_of(self, record: np.void) -> FlowTest | str:
        """The test for a flow, or why there can be none."""
        known = len(self.rules.spines)
        if record["spines"] != known:
            return f"announced over {record['spines']} spines, this leaf has {known}"
        try:
            policy = SprayPolicyCode(int(record["policy"]))
            return plan_test(FlowShape(policy, int(record["packets"]), known, self.rules.copies), self.rules.asked)
        except ValueError as error:
            return str(error)

    def _judge(self, record: np.void, test: FlowTest) -> FlowReport:
        counts, late = self._counts(record)
        return FlowReport(_flow_of(record), self.rules.spines, test, judge(test, counts), tuple(late.tolist()))

    def _insufficient(self, record: np.void, reason: str) -> FlowReport:
        counts, late = self._counts(record)
        verdicts = tuple(
            PathVerdict(path, int(count), Verdict.INSUFFICIENT, reason) for path, count in enumerate(counts)
        )
        return FlowReport(_flow_of(record), self.rules.spines, None, verdicts, tuple(late.tolist()))

    def _counts(self, record: np.void) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """All packets by path, and those of them that came late, `(k,)` each."""
        places = list(self.rules.spines)
        late = record["late"][places].astype(np.int64)
        return record["arrived"][places] + late, late

    def _expire(self, record: np.void, key: tuple[int, int], now_ns: int) -> None:
        if not self._expired(record, now_ns):
            return
        if not record["announced_ns"]:
            _log.warning("p%d-leaf%d: QP %#x was marked but not announced", self.rules.plane, self.rules.leaf, key[0])
        self._counters.erase(*key)
        self._judged.discard(key)

    def _expired(self, record: np.void, now_ns: int) -> bool:
        return now_ns - int(record["seen_ns"]) > self.rules.erase_after_ns


def pending_paths(detector: LeafDetector) -> Iterator[tuple[int, FabricPath]]:
    """Epoch and path of every verdict that this leaf still owes."""
    for flow in detector.pending:
        for spine in detector.rules.spines:
            yield flow.epoch, flow.path(spine)


def _flow_of(record: np.void) -> MeasuredFlow:
    names = ("plane", "src_leaf", "dst_leaf", "src_host", "dst_host", "dqpn", "epoch", "packets")
    return MeasuredFlow(*(int(record[name]) for name in names))
