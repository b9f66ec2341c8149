"""What the monitor says while reports come in, and when it keeps silent."""

from dataclasses import replace

import numpy as np
import pytest

from agent.spraycheck.calibration import FlowShape
from agent.spraycheck.declared import declared_packets_needed, judge_declared, judge_source
from agent.spraycheck.detector import Asked, PathVerdict, Verdict, judge, plan_test
from agent.spraycheck.expectation import Expectation
from agent.spraycheck.leaf import FlowReport, MeasuredFlow, PathCounts
from agent.spraycheck.localize import Finding
from agent.spraycheck.monitor import Monitor
from agent.wire.constants import SprayPolicyCode

ASKED = Asked(0.01, miss=0.01)
SPINES = tuple(range(8))


def report(src, dst, failed=(), epoch=1, verdict=Verdict.HEALTHY, expectation=Expectation.UNIFORM):
    flow = MeasuredFlow(0, src, dst, src, dst, (dst << 12) + src, epoch, 8 * 4096)
    verdicts = tuple(PathVerdict(i, 4096, Verdict.FAILED if i in failed else verdict, None) for i in SPINES)
    nothing = np.zeros(8, np.int64)
    counts = PathCounts(nothing + 4096, nothing, nothing, nothing, None)
    return FlowReport(flow, expectation, SPINES, (4096.0,) * 8, None, verdicts, counts)


def owed(*pairs, epoch=1):
    return [((epoch, Expectation.UNIFORM), report(src, dst).flow.path(spine)) for src, dst in pairs for spine in SPINES]


def said(accusations):
    return [(each.localization.finding, [str(link) for link in each.localization.links]) for each in accusations]


def test_the_accusation_narrows_as_reports_come():
    monitor = Monitor()
    (first,) = monitor.observe([report(3, 4, {5})], owed((3, 6), (1, 4)), 100)
    assert first.localization.finding is Finding.AMBIGUOUS
    assert [[str(link) for link in each] for each in first.localization.candidates] == [
        ["p0:leaf3>spine5", "p0:spine5>leaf4"]
    ]
    assert (first.pending, first.first_named_ns) == (16, None)
    (second,) = monitor.observe([report(1, 4)], owed((3, 6)), 200)
    assert said([second]) == [(Finding.NAMED, ["p0:leaf3>spine5"])]
    (third,) = monitor.observe([report(3, 6, {5})], [], 300)
    assert (third.pending, third.first_named_ns) == (0, 200)
    assert monitor.observe([], [], 400) == []


def test_nothing_flagged_is_said_once_and_only_when_all_is_known():
    monitor = Monitor()
    assert monitor.observe([report(1, 2)], owed((2, 3)), 1) == []
    assert said(monitor.observe([report(2, 3)], [], 2)) == [(Finding.NONE, [])]
    assert monitor.observe([], [], 3) == []


def test_insufficient_verdicts_are_counted():
    (only,) = Monitor().observe([report(1, 2, verdict=Verdict.INSUFFICIENT)], [], 1)
    assert (only.localization.finding, only.insufficient) == (Finding.NONE, 8)


def test_epochs_do_not_mix():
    monitor = Monitor()
    accusations = monitor.observe([report(3, 4, {5}, epoch=1), report(3, 6, {5}, epoch=2)], [], 1)
    assert [each.epoch for each in accusations] == [1, 2]
    assert {each.localization.finding for each in accusations} == {Finding.AMBIGUOUS}


def test_expectations_do_not_mix():
    monitor = Monitor()
    declared = [report(3, dst, {5}, expectation=Expectation.DECLARED) for dst in (4, 6)]
    accusations = monitor.observe([report(3, 4), report(3, 6), *declared], [], 1)
    told = {each.expectation: each.localization.finding for each in accusations}
    assert told == {Expectation.UNIFORM: Finding.NONE, Expectation.DECLARED: Finding.NAMED}


def test_memory_of_old_epochs_is_bounded():
    monitor = Monitor()
    for epoch in range(200):
        monitor.observe([report(1, 2, epoch=epoch)], [], epoch)
    assert len(monitor._known) == 128


def declared(src, dst, lost, source=Verdict.HEALTHY, entered=None):
    """A flow of 1 000 packets a path with `lost` by spine, as its leaf reports it."""
    base = report(src, dst)
    counts = np.full(8, 1000) - np.array([lost.get(spine, 0) for spine in SPINES])
    verdicts = judge_declared(np.full(8, 1000), counts, None, ASKED)
    said = judge_source(np.full(8, 1000), counts, None, ASKED)
    return replace(base, verdicts=verdicts, sent=(1000,) * 8, source=said, entered=entered)


def test_declared_counts_give_rates_and_the_packets_of_the_deciding_flow():
    monitor = Monitor(ASKED)
    (only,) = monitor.observe([declared(3, 4, {5: 20}), declared(1, 2, {})], [], 1)
    found = only.localization
    assert [each.likelihood for each in found.estimates] == [0.5, 0.5]
    (flow,) = found.deciding
    assert flow.packets == declared_packets_needed(8, replace(ASKED, min_rate=flow.rate))


def test_a_lossy_host_link_is_said_though_no_fabric_link_is():
    monitor = Monitor(ASKED)
    alike = dict.fromkeys(SPINES, 12)
    (only,) = monitor.observe([declared(3, 4, alike, entered=Verdict.FAILED), declared(3, 6, alike)], [], 1)
    assert only.localization.finding is Finding.NONE
    assert [str(each) for each in only.localization.common.causes] == ["p0:h3>leaf3"]


def test_uniform_counts_under_rotation_give_rates_to_the_paths_favour():
    test = plan_test(FlowShape(SprayPolicyCode.ROTATION, 8 * 4096, 8), ASKED)
    counts = np.array([4096] * 7 + [4000])
    base = replace(report(3, 4), test=test, verdicts=judge(test, counts))
    (only,) = Monitor(ASKED).observe([base, report(1, 2)], [], 1)
    assert only.localization.estimates[0].rate == pytest.approx(94 / 4096, rel=1e-3)
    assert only.localization.deciding[0].packets is not None
