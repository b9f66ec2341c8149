"""One leaf's detector over made-up flow records: when it judges, what it refuses to judge, what it forgets."""

import numpy as np
import pytest

from agent.spraycheck.dataplane import FLOW
from agent.spraycheck.detector import Asked, Verdict
from agent.spraycheck.leaf import LeafDetector, LeafRules, pending_paths
from agent.spraycheck.paths import FabricPath
from agent.wire.constants import SprayPolicyCode

SECOND = 10**9
RULES = LeafRules(
    plane=0,
    leaf=4,
    spines=(0, 1, 2, 3),
    asked=Asked(0.01),
    copies=1,
    settle_ns=50 * 10**6,
    erase_after_ns=60 * SECOND,
)
LAMBDA = 4096


class Counters:
    """Flow records in a list, and what was erased."""

    def __init__(self, *records):
        self.records = list(records)
        self.marks_before_ns = None

    def flows(self):
        return np.array(self.records, FLOW) if self.records else np.empty(0, FLOW)

    def erase(self, dqpn, epoch):
        self.records = [each for each in self.records if (each["dqpn"], each["epoch"]) != (dqpn, epoch)]

    def erase_marks(self, before_ns):
        self.marks_before_ns = before_ns


def flow(arrived=(LAMBDA,) * 4, late=(), **fields):
    record = np.zeros((), FLOW)
    values = {
        "seen_ns": 1 * SECOND,
        "announced_ns": 1 * SECOND,
        "dqpn": 0x1001,
        "packets": 4 * LAMBDA,
        "epoch": 7,
        "spines": 4,
        "src_leaf": 3,
        "dst_leaf": 4,
        "src_host": 3,
        "dst_host": 4,
        "policy": SprayPolicyCode.ROTATION,
    } | fields
    for name, value in values.items():
        record[name] = value
    record["arrived"][: len(arrived)] = arrived
    record["late"][: len(late)] = late
    return record


def verdicts(report):
    return [each.verdict for each in report.verdicts]


def test_a_flow_is_judged_once_after_its_last_psn_has_settled():
    counters = Counters(flow())
    detector = LeafDetector(RULES, counters)
    assert detector.poll(2 * SECOND) == []
    assert list(pending_paths(detector)) == [(7, FabricPath(0, 3, spine, 4)) for spine in range(4)]
    counters.records[0]["stopped_ns"] = 3 * SECOND
    assert detector.poll(3 * SECOND + RULES.settle_ns - 1) == []
    (report,) = detector.poll(3 * SECOND + RULES.settle_ns)
    assert verdicts(report) == [Verdict.HEALTHY] * 4
    assert (report.flow.epoch, report.flow.qpn, report.flow.packets) == (7, 0x1001, 4 * LAMBDA)
    assert list(pending_paths(detector)) == []
    assert detector.poll(4 * SECOND) == []


def test_the_short_path_is_flagged_by_its_spine():
    record = flow((LAMBDA, LAMBDA, LAMBDA - 41, LAMBDA), stopped_ns=2 * SECOND)
    rules = LeafRules(**{name: getattr(RULES, name) for name in RULES.__slots__} | {"spines": (4, 5, 6, 7)})
    record["arrived"][4:8] = record["arrived"][:4].copy()
    record["arrived"][:4] = 0
    (report,) = LeafDetector(rules, Counters(record)).poll(3 * SECOND)
    failed = [report.spines[each.path] for each in report.verdicts if each.verdict is Verdict.FAILED]
    assert failed == [6]


def test_packets_overtaken_by_the_last_psn_count_and_are_told():
    record = flow((LAMBDA, LAMBDA - 60, LAMBDA, LAMBDA), late=(0, 60), stopped_ns=2 * SECOND)
    (report,) = LeafDetector(RULES, Counters(record)).poll(3 * SECOND)
    assert verdicts(report) == [Verdict.HEALTHY] * 4
    assert report.late == (0, 60, 0, 0)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"spines": 3}, "announced over 3 spines, this leaf has 4"),
        ({"policy": 9}, "9 is not a valid SprayPolicyCode"),
        ({"packets": 0}, "nothing to test"),
        ({"packets": 4 * LAMBDA - 4}, "announced"),
    ],
)
def test_a_flow_without_a_valid_expectation_is_insufficient_with_the_reason(fields, reason):
    (report,) = LeafDetector(RULES, Counters(flow(stopped_ns=2 * SECOND, **fields))).poll(3 * SECOND)
    assert set(verdicts(report)) == {Verdict.INSUFFICIENT}
    assert reason in report.verdicts[0].reason


def test_a_flow_whose_last_psn_never_comes_is_insufficient_and_then_erased():
    counters = Counters(flow((LAMBDA, 100, LAMBDA, LAMBDA)))
    detector = LeafDetector(RULES, counters)
    assert detector.poll(61 * SECOND) == []
    (report,) = detector.poll(61 * SECOND + 1)
    assert set(verdicts(report)) == {Verdict.INSUFFICIENT}
    assert "last PSN not seen within 60 s" in report.verdicts[1].reason
    assert counters.records == []
    assert detector.poll(62 * SECOND) == []


def test_state_is_erased_after_a_minute_and_the_flow_may_come_again():
    counters = Counters(flow(stopped_ns=2 * SECOND))
    detector = LeafDetector(RULES, counters)
    assert len(detector.poll(3 * SECOND)) == 1
    detector.poll(62 * SECOND)
    assert counters.records == []
    assert counters.marks_before_ns == 2 * SECOND
    counters.records.append(flow(seen_ns=70 * SECOND, announced_ns=70 * SECOND, stopped_ns=71 * SECOND))
    assert len(detector.poll(72 * SECOND)) == 1


def test_two_epochs_of_one_qp_are_two_flows():
    first, second = flow(stopped_ns=2 * SECOND), flow(epoch=8, stopped_ns=3 * SECOND)
    reports = LeafDetector(RULES, Counters(first, second)).poll(4 * SECOND)
    assert [report.flow.epoch for report in reports] == [7, 8]


def test_marked_packets_without_an_announcement_are_waited_for_and_then_erased(caplog):
    counters = Counters(flow(announced_ns=0, epoch=0))
    detector = LeafDetector(RULES, counters)
    assert detector.poll(2 * SECOND) == []
    assert list(pending_paths(detector)) == []
    detector.poll(62 * SECOND)
    assert counters.records == []
    assert "not announced" in caplog.text
