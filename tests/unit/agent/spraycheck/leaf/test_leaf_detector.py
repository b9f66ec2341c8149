"""One leaf's detector over made-up flow records: when it judges, what it refuses to judge, what it forgets."""

from collections import Counter as Count
from dataclasses import replace

import numpy as np
import pytest

from agent.spraycheck.leaf.bpf_layout import FLOW, MARK, NARROW_MOST, REFUSAL, Counting, Place
from agent.spraycheck.leaf.flow_reports import ChosenFlow, LeafRules
from agent.spraycheck.leaf.leaf_detector import NO_ROOM, LeafDetector, pending_paths
from agent.spraycheck.paths import FabricPath
from agent.spraycheck.statistics.flow_times import LossTime, Span
from agent.spraycheck.statistics.verdicts import NOTHING_SENT, Expectation, Requirements, Verdict
from agent.wire.constants import SprayPolicyCode

SECOND = 10**9
RULES = LeafRules(
    plane=0,
    leaf=4,
    spines=(0, 1, 2, 3),
    required=Requirements(0.01),
    copies=1,
    settle_ns=50 * 10**6,
    quiet_ns=SECOND,
    erase_after_ns=60 * SECOND,
)
LAMBDA = 4096
UNIFORM, DECLARED = Expectation


class Counters:
    """Flow records in a list, and what was erased."""

    def __init__(self, *records):
        self.records = list(records)
        self.marks_before_ns = None
        self.tests = {}
        self.refused = {}

    def flows(self):
        layout = self.records[0].dtype if self.records else FLOW
        return np.array(self.records, layout)

    def set_test(self, dqpn, epoch, last_psn, threshold):
        self.tests[dqpn, epoch, last_psn] = threshold

    def erase(self, dqpn, epoch):
        self.records = [each for each in self.records if (each["dqpn"], each["epoch"]) != (dqpn, epoch)]

    def erase_marks(self, before_ns):
        self.marks_before_ns = before_ns

    def refusals(self):
        return np.array([(0, qpn, 0, 9, 7, 3, 4, 5, 6, 0, place) for qpn, place in self.refused.items()], REFUSAL)


def flow(arrived=(LAMBDA,) * 4, late=(), layout=FLOW, **fields):
    record = np.zeros((), layout)
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
        if isinstance(value, tuple):
            record[name][: len(value)] = value
        else:
            record[name] = value
    record["arrived"][: len(arrived)] = arrived
    if late:
        record["late"][: len(late)] = late
    return record


def verdicts(report):
    return [each.verdict for each in report.verdicts]


def test_a_flow_is_judged_once_after_its_last_psn_has_settled():
    counters = Counters(flow())
    detector = LeafDetector(RULES, counters)
    assert detector.poll(2 * SECOND) == []
    owed = [((7, each), FabricPath(0, 3, spine, 4)) for each in (UNIFORM, DECLARED) for spine in range(4)]
    assert pending_paths(detector) == Count(owed)
    counters.records[0]["stopped_ns"] = 3 * SECOND
    assert detector.poll(3 * SECOND + RULES.settle_ns - 1) == []
    (report,) = detector.poll(3 * SECOND + RULES.settle_ns)
    assert verdicts(report) == [Verdict.HEALTHY] * 4
    assert (report.flow.epoch, report.flow.qpn, report.flow.packets) == (7, 0x1001, 4 * LAMBDA)
    assert pending_paths(detector) == Count(owed[4:]), "the sender has not closed it"
    assert detector.poll(4 * SECOND) == []


def test_verdicts_owed_are_counted_by_path_while_flows_of_a_pair_go_on_and_end():
    counters = Counters(flow(), flow(dqpn=0x1002), flow(dqpn=0x1003, src_leaf=1))
    detector = LeafDetector(RULES, counters)
    path, other = FabricPath(0, 3, 2, 4), FabricPath(0, 1, 2, 4)
    for now in (2, 3):
        detector.poll(now * SECOND)
        owed = pending_paths(detector)
        assert (owed[(7, UNIFORM), path], owed[(7, DECLARED), path], owed[(7, UNIFORM), other]) == (2, 2, 1)
    counters.records[1]["stopped_ns"] = 3 * SECOND
    assert len(detector.poll(4 * SECOND)) == 1
    owed = pending_paths(detector)
    assert (owed[(7, UNIFORM), path], owed[(7, DECLARED), path], owed[(7, UNIFORM), other]) == (1, 2, 1)
    counters.records.pop(0)
    detector.poll(5 * SECOND)
    assert (7, UNIFORM) not in {matter for matter, at in pending_paths(detector) if at == path}


def test_the_short_path_is_flagged_by_its_spine():
    record = flow((LAMBDA, LAMBDA, LAMBDA - 41, LAMBDA), stopped_ns=2 * SECOND)
    rules = replace(RULES, spines=(4, 5, 6, 7))
    record["arrived"][4:8] = record["arrived"][:4].copy()
    record["arrived"][:4] = 0
    (report,) = LeafDetector(rules, Counters(record)).poll(3 * SECOND)
    failed = [report.spines[each.path] for each in report.verdicts if each.verdict is Verdict.FAILED]
    assert failed == [6]


def test_packets_of_a_slow_path_are_waited_for_as_long_as_they_arrive():
    counters = Counters(flow((LAMBDA, LAMBDA - 60, LAMBDA, LAMBDA), stopped_ns=2 * SECOND))
    detector, now_ns = LeafDetector(RULES, counters), 2 * SECOND
    for arrived in (20, 40, 60):
        counters.records[0]["late"][1] = arrived
        now_ns += 40 * 10**6
        assert detector.poll(now_ns) == []
    assert detector.poll(now_ns + RULES.settle_ns - 1) == []
    (report,) = detector.poll(now_ns + RULES.settle_ns)
    assert {each.verdict for each in report.verdicts} == {Verdict.HEALTHY}


def test_packets_overtaken_by_the_last_psn_count_and_are_told():
    record = flow((LAMBDA, LAMBDA - 60, LAMBDA, LAMBDA), late=(0, 60), stopped_ns=2 * SECOND)
    (report,) = settled(LeafDetector(RULES, Counters(record)))
    assert verdicts(report) == [Verdict.HEALTHY] * 4
    assert report.counts.late.tolist() == [0, 60, 0, 0]


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
    report = LeafDetector(RULES, Counters(flow(stopped_ns=2 * SECOND, **fields))).poll(3 * SECOND)[0]
    assert report.expectation is UNIFORM
    assert set(verdicts(report)) == {Verdict.INSUFFICIENT}
    assert reason in report.verdicts[0].doubt.text


def test_a_flow_whose_last_psn_never_comes_is_insufficient_and_then_erased():
    counters = Counters(flow((LAMBDA, 100, LAMBDA, LAMBDA)))
    detector = LeafDetector(RULES, counters)
    assert detector.poll(61 * SECOND) == []
    report, declared = detector.poll(61 * SECOND + 1)
    assert set(verdicts(report)) == set(verdicts(declared)) == {Verdict.INSUFFICIENT}
    assert "last PSN not seen within 60 s" in report.verdicts[1].doubt.text
    assert "did not close the flow within 60 s" in declared.verdicts[1].doubt.text
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


def test_a_report_tells_when_the_flow_was_under_way_and_when_it_lost_packets():
    counters = Counters(flow())
    detector = LeafDetector(RULES, counters)
    lost_by_s = {2: 0, 3: 0, 4: 20, 5: 40, 6: 40, 9: 40}
    for at_s, again in lost_by_s.items():
        counters.records[0]["again"][1] = again
        assert detector.poll(at_s * SECOND) == []
    counters.records[0]["stopped_ns"] = 10 * SECOND
    (report,) = detector.poll(11 * SECOND)
    assert report.span == Span(1 * SECOND, 10 * SECOND)
    assert report.lossy == LossTime.of(Span(3 * SECOND, 5 * SECOND), 40, report.span)
    assert report.lossy.window.from_ns > 2.5 * SECOND
    (healthy,) = LeafDetector(RULES, Counters(flow(stopped_ns=2 * SECOND))).poll(3 * SECOND)
    assert (healthy.span, healthy.lossy) == (Span(SECOND, 2 * SECOND), None)


def test_two_epochs_of_one_qp_are_two_flows():
    first, second = flow(stopped_ns=2 * SECOND), flow(epoch=8, stopped_ns=3 * SECOND)
    reports = LeafDetector(RULES, Counters(first, second)).poll(4 * SECOND)
    assert [report.flow.epoch for report in reports] == [7, 8]


def test_marked_packets_without_an_announcement_are_waited_for_and_then_erased(caplog):
    counters = Counters(flow(announced_ns=0, epoch=0))
    detector = LeafDetector(RULES, counters)
    assert detector.poll(2 * SECOND) == []
    assert not pending_paths(detector)
    detector.poll(62 * SECOND)
    assert counters.records == []
    assert "not announced" in caplog.text


CLOSED = {"closed_ns": 2 * SECOND, "barrier": (1, 1, 1, 1)}


def declared_of(reports):
    (found,) = [each for each in reports if each.expectation is DECLARED]
    return found


def settled(detector, at_ns=2 * SECOND):
    """Reports once nothing has changed from one poll to the next for longer than settle_ns."""
    assert [each for each in detector.poll(at_ns) if each.expectation is DECLARED] == []
    return detector.poll(at_ns + RULES.settle_ns)


def test_a_closed_flow_is_judged_by_what_was_sent_also_when_paths_got_unequal_parts():
    sent = (9000, 1500, 0, 5000)
    record = flow((9000, 1470, 0, 5000), sent=sent, **CLOSED)
    reports = settled(LeafDetector(RULES, Counters(record)))
    assert verdicts(declared_of(reports))[:2] == [Verdict.HEALTHY, Verdict.FAILED]
    assert verdicts(declared_of(reports))[2] is Verdict.INSUFFICIENT
    assert declared_of(reports).expected == sent
    (uniform,) = [each for each in reports if each.expectation is UNIFORM]
    assert set(verdicts(uniform)) == {Verdict.INSUFFICIENT}, "the last PSN went to another plane, N/k is wrong"


def test_trimmed_packets_have_arrived_and_retransmissions_are_told_apart():
    record = flow((LAMBDA,) * 4, trimmed=(0, 400), again=(3,), sent=(LAMBDA,) * 4, **CLOSED)
    report = declared_of(settled(LeafDetector(RULES, Counters(record))))
    assert verdicts(report) == [Verdict.HEALTHY] * 4
    assert (report.counts.trimmed.tolist(), report.counts.again.tolist()) == ([0, 400, 0, 0], [3, 0, 0, 0])


def test_a_path_without_its_barrier_is_waited_for_until_it_is_quiet():
    counters = Counters(flow((LAMBDA, 100, LAMBDA, LAMBDA), sent=(LAMBDA,) * 4, closed_ns=SECOND, barrier=(1, 0, 1, 1)))
    detector = LeafDetector(RULES, counters)
    assert detector.poll(2 * SECOND) == []
    counters.records[0]["arrived"][1] = LAMBDA - 700  # a slow queue still brings some
    assert detector.poll(2 * SECOND + RULES.quiet_ns - 1) == []
    assert detector.poll(2 * SECOND + 2 * RULES.quiet_ns - 2) == []
    report = declared_of(detector.poll(2 * SECOND + 2 * RULES.quiet_ns))
    assert verdicts(report)[1] is Verdict.FAILED


def test_counts_that_still_grow_behind_all_barriers_are_waited_for():
    counters = Counters(flow((LAMBDA - 1, LAMBDA, LAMBDA, LAMBDA), sent=(LAMBDA,) * 4, **CLOSED))
    detector = LeafDetector(RULES, counters)
    assert detector.poll(2 * SECOND) == []
    counters.records[0]["late"][0] = 1
    assert detector.poll(3 * SECOND) == []
    assert verdicts(declared_of(detector.poll(4 * SECOND))) == [Verdict.HEALTHY] * 4


def test_the_threshold_is_written_back_once_and_what_the_data_plane_flagged_is_told():
    counters = Counters(flow(last_psn=77))
    detector = LeafDetector(RULES, counters)
    detector.poll(2 * SECOND)
    assert counters.tests == {(0x1001, 7, 77): 4090}, "t = 4096 - 0.1 * 64, and a count below it is flagged"
    counters.tests.clear()
    record = counters.records[0]
    record["stopped_ns"], record["compared"], record["arrived"][2], record["flagged"][0] = 3 * SECOND, 1, 4089, 0b100
    (report,) = detector.poll(4 * SECOND)
    assert counters.tests == {}
    assert report.counts.flagged.tolist() == [False, False, True, False]
    assert verdicts(report)[2] is not Verdict.HEALTHY


NARROW = Counting(4, narrow=True).flow


def test_sixteen_bits_hold_what_fits_and_say_so_where_it_does_not():
    rules = replace(RULES, narrow=True)
    record = flow((LAMBDA, LAMBDA, LAMBDA - 60, LAMBDA), layout=NARROW, stopped_ns=2 * SECOND)
    (report,) = LeafDetector(rules, Counters(record)).poll(3 * SECOND)
    assert verdicts(report)[2] is Verdict.FAILED
    counters = Counters(flow((NARROW_MOST,) * 4, layout=NARROW, packets=4 * NARROW_MOST, stopped_ns=2 * SECOND))
    (report,) = LeafDetector(rules, counters).poll(3 * SECOND)
    assert set(verdicts(report)) == {Verdict.INSUFFICIENT}
    assert "do not fit 16-bit counters" in report.verdicts[0].doubt.text
    assert counters.tests == {}


def test_a_leaf_that_measures_one_flow_at_a_time_tells_each_choice_once():
    counters = Counters()
    qpns, marks = np.array([0x4001, 0x5001], np.uint32), np.zeros(2, MARK)
    marks["epoch"], marks["dst_leaf"] = [7, 8], [1, 2]
    counters.marks = lambda: (qpns, marks)
    detector = LeafDetector(replace(RULES, one=True), counters)
    assert detector.chosen() == [ChosenFlow(0, 4, 1, 0x4001, 7), ChosenFlow(0, 4, 2, 0x5001, 8)]
    assert detector.chosen() == []
    marks["epoch"][0] = 9
    assert detector.chosen() == [ChosenFlow(0, 4, 1, 0x4001, 9)]
    assert LeafDetector(RULES, counters).chosen() == [], "where all are measured it goes without saying"


def test_paths_out_of_use_shrink_k_for_the_flow():
    """L4: one of four spines is denied; the others bring a third each, and one of them lost 1 %."""
    share = 4 * LAMBDA // 3
    short = share - share // 100
    record = flow((share + 1, 0, share, short), stopped_ns=2 * SECOND, closed_ns=2 * SECOND,
                  sent=(share + 1, 0, share, share), barrier=(1, 1, 1, 1))  # fmt: skip
    detector = LeafDetector(RULES, Counters(record))
    found = [each for turn in range(3) for each in detector.poll((3 + turn) * SECOND)]
    (uniform,) = (each for each in found if each.expectation is UNIFORM)
    assert verdicts(uniform) == [Verdict.HEALTHY, Verdict.INSUFFICIENT, Verdict.HEALTHY, Verdict.FAILED]
    assert uniform.verdicts[1].doubt is NOTHING_SENT
    assert uniform.test.shape.paths == 3
    assert uniform.expected == (uniform.test.shape.expected, 0.0, *[uniform.test.shape.expected] * 2)


def test_a_path_that_brings_nothing_is_judged_when_it_is_known_whether_it_was_used():
    record = flow((LAMBDA, 0, LAMBDA, LAMBDA), stopped_ns=2 * SECOND)
    counters = Counters(record)
    detector = LeafDetector(RULES, counters)
    assert detector.poll(3 * SECOND) == []
    assert {expectation for _, expectation in detector.pending} == {UNIFORM, DECLARED}
    record["closed_ns"] = 3 * SECOND
    record["sent"][:4] = LAMBDA
    record["barrier"][:4] = (1, 0, 1, 1)
    found = [each for turn in range(4) for each in detector.poll((4 + turn) * SECOND)]
    assert {each.expectation: verdicts(each)[1] for each in found} == {
        UNIFORM: Verdict.FAILED,
        DECLARED: Verdict.FAILED,
    }
    late = LeafDetector(RULES, Counters(flow((LAMBDA, 0, LAMBDA, LAMBDA), stopped_ns=2 * SECOND)))
    (given_up, _) = late.poll(100 * SECOND)
    assert verdicts(given_up)[1] is Verdict.FAILED, "nobody declared anything for as long as state is kept"


def test_flows_without_room_are_told_once_and_those_of_which_nothing_is_known_later():
    counters = Counters()
    leaf = LeafDetector(RULES, counters)
    assert leaf.refused() == []
    counters.refused = {0x4001: Place.MEASURED, 0x4002: Place.UNKNOWN}
    (told,) = leaf.refused()
    assert (told.leaf, told.qpn, told.epoch, told.src_leaf, told.dst_host) == (RULES.leaf, 0x4001, 7, 3, 6)
    assert told.reason == NO_ROOM[Place.MEASURED]
    counters.refused[0x4002] = Place.FLOWS
    assert [each.qpn for each in leaf.refused()] == [0x4002]
    assert leaf.refused() == []
