"""What the monitor says while reports come in, and when it keeps silent."""

from dataclasses import replace

import numpy as np
import pytest

from agent.spraycheck.accuse.conclusions import BEHIND_ACCUSED, Ground, LinkVerdict, Naming
from agent.spraycheck.accuse.localization import Finding
from agent.spraycheck.accuse.monitor import Monitor
from agent.spraycheck.leaf.flow_reports import FlowReport, MeasuredFlow, PathCounts, declared_report, uniform_report
from agent.spraycheck.statistics.binomial import at_least
from agent.spraycheck.statistics.calibration import FlowShape
from agent.spraycheck.statistics.declared import declared_packets_needed, judge_declared, judge_source
from agent.spraycheck.statistics.uniform import judge, plan_test, uniform_packets_needed
from agent.spraycheck.statistics.verdicts import DoubtKind, Expectation, PathVerdict, Requirements, Verdict
from agent.wire.constants import SprayPolicyCode

ASKED = Requirements(0.01, miss=0.01)
SPINES = tuple(range(8))


def report(src, dst, failed=(), epoch=1, verdict=Verdict.HEALTHY, expectation=Expectation.UNIFORM):
    flow = MeasuredFlow(0, src, dst, src, dst, (dst << 12) + src, epoch, 8 * 4096)
    verdicts = tuple(PathVerdict(i, 4096, Verdict.FAILED if i in failed else verdict, None) for i in SPINES)
    nothing = np.zeros(8, np.int64)
    counts = PathCounts(nothing + 4096, nothing, nothing, nothing, None)
    return FlowReport(flow, expectation, SPINES, (4096.0,) * 8, None, verdicts, counts)


def owed(*pairs, epoch=1):
    paths = [report(src, dst).flow.path(spine) for src, dst in pairs for spine in SPINES]
    return dict.fromkeys((((epoch, Expectation.UNIFORM), path) for path in paths), 1)


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
    (third,) = monitor.observe([report(3, 6, {5})], {}, 300)
    assert (third.pending, third.first_named_ns) == (0, 200)
    assert monitor.observe([], {}, 400) == []


def test_nothing_flagged_is_said_once_and_only_when_all_is_known():
    monitor = Monitor()
    assert monitor.observe([report(1, 2)], owed((2, 3)), 1) == []
    assert said(monitor.observe([report(2, 3)], {}, 2)) == [(Finding.NONE, [])]
    assert monitor.observe([], {}, 3) == []


def test_insufficient_verdicts_are_counted():
    (only,) = Monitor().observe([report(1, 2, verdict=Verdict.INSUFFICIENT)], {}, 1)
    assert (only.localization.finding, only.insufficient) == (Finding.NONE, 8)


def test_epochs_do_not_mix():
    monitor = Monitor()
    accusations = monitor.observe([report(3, 4, {5}, epoch=1), report(3, 6, {5}, epoch=2)], {}, 1)
    assert [each.epoch for each in accusations] == [1, 2]
    assert {each.localization.finding for each in accusations} == {Finding.AMBIGUOUS}


def test_expectations_do_not_mix():
    monitor = Monitor()
    declared = [report(3, dst, {5}, expectation=Expectation.DECLARED) for dst in (4, 6)]
    accusations = monitor.observe([report(3, 4), report(3, 6), *declared], {}, 1)
    told = {each.expectation: each.localization.finding for each in accusations}
    assert told == {Expectation.UNIFORM: Finding.NONE, Expectation.DECLARED: Finding.NAMED}


def test_memory_of_old_epochs_is_bounded():
    monitor = Monitor()
    for epoch in range(200):
        monitor.observe([report(1, 2, epoch=epoch)], {}, epoch)
    assert len(monitor._known) == 128


def declared(src, dst, lost, source=Verdict.HEALTHY, entered=None):
    """A flow of 1 000 packets a path with `lost` by spine, as its leaf reports it."""
    base = report(src, dst)
    counts = np.full(8, 1000) - np.array([lost.get(spine, 0) for spine in SPINES])
    verdicts = judge_declared(np.full(8, 1000), counts, ASKED)
    said = judge_source(np.full(8, 1000), counts, ASKED)
    return replace(base, verdicts=verdicts, sent=(1000,) * 8, source=said, entered=entered)


def test_declared_counts_give_rates_and_the_packets_of_the_deciding_flow():
    monitor = Monitor(ASKED)
    (only,) = monitor.observe([declared(3, 4, {5: 20}), declared(1, 2, {})], {}, 1)
    found = only.localization
    assert [each.likelihood for each in found.estimates] == [0.5, 0.5]
    (flow,) = found.deciding
    assert flow.packets == declared_packets_needed(8, replace(ASKED, min_rate=flow.rate))


def test_stray_losses_are_those_that_the_monitor_was_asked_for():
    for stray, rate in ((ASKED.stray_rate, 0.02), (0.004, 0.016)):
        (only,) = Monitor(replace(ASKED, stray_rate=stray)).observe([declared(3, 4, {5: 20})], {}, 1)
        assert [each.rate for each in only.localization.estimates] == pytest.approx([rate, rate], rel=1e-2)


def test_a_lossy_host_link_is_said_though_no_fabric_link_is():
    monitor = Monitor(ASKED)
    alike = dict.fromkeys(SPINES, 12)
    (only,) = monitor.observe([declared(3, 4, alike, entered=8000 - 96), declared(3, 6, alike)], {}, 1)
    assert only.localization.finding is Finding.NONE
    assert [str(each) for each in only.localization.common.causes] == ["p0:h3>leaf3"]


def test_uplinks_that_lose_alike_are_told_from_the_hosts_link_by_the_source_leaf():
    alike = dict.fromkeys(SPINES, 12)
    flows = [declared(3, dst, alike, entered=8000) for dst in (4, 6)] + [declared(1, 4, {}), declared(1, 6, {})]
    (only,) = Monitor(ASKED).observe(flows, {}, 1)
    assert [str(each) for each in only.localization.common.causes] == ["p0:leaf3>spine*"]
    unknown = [replace(each, entered=None) for each in flows]
    (only,) = Monitor(ASKED).observe(unknown, {}, 1)
    assert [list(map(str, each)) for each in only.localization.common.candidates] == [
        ["p0:h3>leaf3", "p0:leaf3>spine*"]
    ]


def test_uniform_counts_under_rotation_give_rates_to_the_paths_favour():
    test = plan_test(FlowShape(SprayPolicyCode.ROTATION, 8 * 4096, 8), ASKED)
    counts = np.array([4096] * 7 + [4000])
    base = replace(report(3, 4), test=test, verdicts=judge(test, counts))
    (only,) = Monitor(ASKED).observe([base, report(1, 2)], {}, 1)
    assert only.localization.estimates[0].rate == pytest.approx(94 / 4096, rel=1e-3)
    assert only.localization.deciding[0].packets is not None


def small(src, dst, qpn, lost=0, policy=SprayPolicyCode.RANDOM, each=100_000):
    """A flow of too few packets a path to be judged, of which some over spine 5 are lost."""
    test = plan_test(FlowShape(policy, 8 * each, 8), ASKED)
    arrived = np.array([each - lost * (spine == 5) for spine in SPINES])
    nothing = np.zeros(8, np.int64)
    base = report(src, dst)
    return replace(
        base,
        flow=replace(base.flow, qpn=qpn, packets=8 * each),
        expected=(float(each),) * 8,
        test=test,
        verdicts=judge(test, arrived),
        counts=PathCounts(arrived, nothing, nothing, nothing, None),
    )


def last_words(monitor):
    """What is concluded of paths and links, the last time of each."""
    told = monitor.conclusions()
    paths = {str(each.path): each for said in told for each in said.paths}
    return paths, {str(each.link): each for said in told for each in said.links}


PAIRS = ((3, 4), (3, 6), (1, 4), (1, 6))


def test_small_flows_of_a_pair_are_judged_together_once_they_are_enough():
    monitor = Monitor(ASKED)
    flows = [small(*pair, 16 * pair[1] + at, 900 if pair[0] == 3 else 0) for at in range(10) for pair in PAIRS]
    assert {each.verdict for flow in flows for each in flow.verdicts} == {Verdict.INSUFFICIENT}
    accusations = [found for flow in flows for found in monitor.observe([flow], {}, 1)]
    assert said(accusations[-1:]) == [(Finding.NAMED, ["p0:leaf3>spine5"])]
    paths, links = last_words(monitor)
    assert {path: each.verdict for path, each in paths.items() if each.verdict is not Verdict.HEALTHY} == {
        f"p0:leaf3>spine5>leaf{dst}": Verdict.FAILED for dst in (4, 6)
    }
    assert {each.by for each in paths.values()} == {Ground.FLOWS}
    path = paths["p0:leaf3>spine5>leaf4"]
    assert (path.flows, path.expected, path.count) == (10, 1_000_000, 991_000)
    assert {link: each.verdict for link, each in links.items() if each.verdict is not LinkVerdict.HEALTHY} == {
        "p0:leaf3>spine5": LinkVerdict.FAILED
    }
    assert monitor.conclusions() == []


def test_under_rotation_sums_clear_what_small_flows_leave_open():
    monitor = Monitor(ASKED)
    flows = [small(3, 4, at, lost=1, policy=SprayPolicyCode.ROTATION, each=700) for at in range(10)]
    assert {each.verdict for flow in flows for each in flow.verdicts} == {Verdict.INSUFFICIENT}
    monitor.observe(flows, {}, 1)
    paths, links = last_words(monitor)
    assert {(each.verdict, each.by) for each in paths.values()} == {(Verdict.HEALTHY, Ground.FLOWS)}
    assert {each.verdict for each in links.values()} == {LinkVerdict.HEALTHY}


def test_flows_whose_ends_blur_more_than_a_loss_takes_do_not_spoil_the_sums_of_others():
    """A flow of 128 packets a path adds 1.3 losses of 1 %, and 4 packets of ends."""
    monitor, rotation = Monitor(ASKED), SprayPolicyCode.ROTATION
    flows = [small(3, 4, at, policy=rotation, each=700) for at in range(10)]
    tiny = [small(3, 4, 100 + at, policy=rotation, each=128) for at in range(200)]
    monitor.observe([flow for parts in zip(flows, *[iter(tiny)] * 20, strict=True) for flow in parts], {}, 1)
    paths, _ = last_words(monitor)
    assert {(each.verdict, each.flows) for each in paths.values()} == {(Verdict.HEALTHY, 210)}


def test_flows_that_were_not_shared_as_announced_are_not_added_up():
    monitor = Monitor(ASKED)
    odd = [small(3, 4, at, lost=-9) for at in range(20)]
    assert all("packets counted, 800,000 announced" in each.doubt.text for flow in odd for each in flow.verdicts)
    monitor.observe(odd, {}, 1)
    paths, links = last_words(monitor)
    assert {each.verdict for each in paths.values()} == {Verdict.INSUFFICIENT}
    assert {(each.verdict, each.doubt.kind) for each in links.values()} == {(LinkVerdict.UNDECIDED, DoubtKind.SURPLUS)}


def few(src, dst, qpn, lost=None, packets=250):
    """A flow that declares too few packets a path to be judged, of which some are lost, by spine."""
    sent = np.full(8, packets)
    arrived = sent - np.array([(lost or {}).get(spine, 0) for spine in SPINES])
    base = report(src, dst, expectation=Expectation.DECLARED)
    flow = replace(base.flow, qpn=qpn, packets=8 * packets)
    said = judge_source(sent, arrived, ASKED)
    base = replace(base, flow=flow, expected=(float(packets),) * 8)
    return replace(base, verdicts=judge_declared(sent, arrived, ASKED), sent=(packets,) * 8, source=said)


def sums_of(monitor):
    _, links = last_words(monitor)
    return {link: (each.verdict, each.flows, each.sent, each.lost) for link, each in links.items()}


def test_links_are_cleared_by_all_flows_over_them_once_no_verdict_is_owed():
    monitor = Monitor(ASKED)
    flows = [few(*pair, at) for at in range(2) for pair in PAIRS]
    owed_still = {((1, Expectation.DECLARED), flows[0].flow.path(spine)): 1 for spine in SPINES}
    monitor.observe(flows[:-1], owed_still, 1)
    assert "p0:leaf3>spine0" not in sums_of(monitor)
    monitor.observe(flows[-1:], {}, 2)
    told = sums_of(monitor)
    assert told["p0:leaf3>spine0"] == (LinkVerdict.HEALTHY, 4, 1000, 0)
    assert set(told.values()) == {(LinkVerdict.HEALTHY, 4, 1000, 0)}
    monitor.observe([], {}, 3)
    assert monitor.conclusions() == []
    monitor.observe([few(3, 4, 9)], {}, 4)
    assert sums_of(monitor)["p0:leaf3>spine0"] == (LinkVerdict.HEALTHY, 5, 1250, 0), "what comes later is added, too"


def test_a_path_too_weak_alone_is_healthy_by_its_two_links():
    monitor = Monitor(ASKED)
    monitor.observe([few(*pair, at) for at in range(2) for pair in PAIRS], {}, 2)
    paths, _ = last_words(monitor)
    assert {(each.verdict, each.by, each.flows) for each in paths.values()} == {(Verdict.HEALTHY, Ground.LINKS, 2)}
    monitor = Monitor(ASKED)
    monitor.observe([few(3, 4, 1), few(3, 6, 2)], {}, 2)
    paths, links = last_words(monitor)
    assert {(each.verdict, each.doubt.kind) for each in (*paths.values(), *links.values())} == {
        (Verdict.INSUFFICIENT, DoubtKind.FEW_PACKETS), (LinkVerdict.UNDECIDED, DoubtKind.FEW_PACKETS)
    }  # fmt: skip


def test_a_named_links_losses_are_not_held_against_the_links_behind_it():
    monitor = Monitor(ASKED)
    flows = [few(*pair, at, {5: 1} if pair[0] == 3 else {}) for at in range(4) for pair in PAIRS]
    (only,) = monitor.observe(flows, {}, 1)
    assert said([only]) == [(Finding.NAMED, ["p0:leaf3>spine5"])]
    told = sums_of(monitor)
    assert told["p0:leaf3>spine5"] == (LinkVerdict.FAILED, 8, 2000, 8)
    assert told["p0:spine5>leaf4"] == (LinkVerdict.HEALTHY, 4, 1000, 0)
    assert {verdict for link, (verdict, *_) in told.items() if link != "p0:leaf3>spine5"} == {LinkVerdict.HEALTHY}


def test_a_named_link_tells_since_when_and_by_what_it_was_named_without_a_break():
    monitor = Monitor()
    monitor.observe([report(1, 4), report(3, 4, {5})], owed((3, 6)), 100)
    _, links = last_words(monitor)
    assert {link: each.naming for link, each in links.items() if each.verdict is LinkVerdict.FAILED} == {
        "p0:leaf3>spine5": Naming(100, ("p0-leaf4",), 4096, 1)
    }
    monitor.observe([report(3, 6, {5})], {}, 300)
    _, links = last_words(monitor)
    assert links["p0:leaf3>spine5"].naming == Naming(100, ("p0-leaf4", "p0-leaf6"), 4096, 1)


def test_a_link_of_several_suspects_is_undecided_and_tells_the_others():
    monitor = Monitor()
    monitor.observe([report(3, 4, {5})], {}, 1)
    _, links = last_words(monitor)
    up, down = links["p0:leaf3>spine5"], links["p0:spine5>leaf4"]
    assert {(each.verdict, each.doubt.kind) for each in (up, down)} == {(LinkVerdict.UNDECIDED, DoubtKind.SUSPECT)}
    assert (up.alternatives, down.alternatives) == ((down.link,), (up.link,))
    assert links["p0:leaf3>spine0"].verdict is LinkVerdict.HEALTHY


def test_links_of_a_path_that_fails_while_both_seem_healthy_are_undecided():
    monitor = Monitor()
    monitor.observe([report(3, 4, {5}), report(3, 6), report(1, 4)], {}, 1)
    _, links = last_words(monitor)
    assert {link: each.doubt.kind for link, each in links.items() if each.doubt} == dict.fromkeys(
        ("p0:leaf3>spine5", "p0:spine5>leaf4"), DoubtKind.CONTRADICTED
    )


def test_links_that_only_failed_paths_cross_are_undecided_with_a_reason():
    monitor = Monitor()
    monitor.observe([report(3, 4, {5}), report(3, 6, {5})], {}, 1)
    _, links = last_words(monitor)
    assert links["p0:leaf3>spine5"].verdict is LinkVerdict.FAILED
    behind = [links[f"p0:spine5>leaf{leaf}"] for leaf in (4, 6)]
    assert {(each.verdict, each.doubt) for each in behind} == {(LinkVerdict.UNDECIDED, BEHIND_ACCUSED)}


def test_what_a_hosts_link_loses_is_held_against_no_link_of_the_fabric():
    """The other flow over the links down to leaf 4 clears them; those up from the host's leaf carry nothing else."""
    monitor, alike = Monitor(ASKED), dict.fromkeys(SPINES, 12)
    lossy = [replace(declared(3, dst, alike, entered=8000 - 96), expectation=Expectation.DECLARED) for dst in (4, 6)]
    whole = [replace(declared(1, dst, {}), expectation=Expectation.DECLARED) for dst in (4, 6)]
    monitor.observe([*lossy, *whole], {}, 1)
    _, links = last_words(monitor)
    assert links["p0:h3>leaf3"].verdict is LinkVerdict.FAILED
    assert links["p0:spine5>leaf4"].verdict is LinkVerdict.HEALTHY
    assert links["p0:leaf3>spine5"].verdict is LinkVerdict.UNDECIDED
    assert [str(each) for each in links["p0:leaf3>spine5"].alternatives] == ["p0:h3>leaf3"]


def test_paths_that_brought_more_than_was_declared_are_in_no_sum():
    monitor = Monitor(ASKED)
    monitor.observe([few(3, 4, at, {5: -1}) for at in range(4)], {}, 1)
    _, links = last_words(monitor)
    undecided = {link for link, each in links.items() if each.verdict is LinkVerdict.UNDECIDED}
    assert undecided == {"p0:leaf3>spine5", "p0:spine5>leaf4"}
    assert {links[link].doubt.kind for link in undecided} == {DoubtKind.SURPLUS}


def link_is_called_healthy(expectation, seed, required, packets):
    """Whether the link up from leaf 3 to spine 5, which drops the required rate, is; four leaf pairs, two over it."""
    rng, monitor, reports = np.random.default_rng(seed), Monitor(required), []
    for src, dst in PAIRS:
        sent = np.full(8, packets)
        rates = np.where((np.arange(8) == 5) & (src == 3), required.min_rate, required.stray_rate)
        arrived, flow = sent - rng.binomial(sent, rates), replace(report(src, dst).flow, packets=8 * packets)
        if expectation is Expectation.DECLARED:
            reports.append(declared_report(flow, sent, arrived, required))
        else:
            shape = FlowShape(SprayPolicyCode.ROTATION, 8 * packets, 8)
            reports.append(uniform_report(flow, shape, arrived, required))
    monitor.observe(reports, {}, 1)
    _, links = last_words(monitor)
    return links["p0:leaf3>spine5"].verdict is LinkVerdict.HEALTHY


@pytest.mark.parametrize("expectation", list(Expectation))
def test_a_link_that_drops_the_asked_rate_is_called_healthy_no_more_often_than_stated(expectation):
    """At most 2β by declaration, mβ by equal shares, of m = 2 flows; with as few packets as decide at all."""
    required, runs = Requirements(0.05, miss=0.05), 400
    needs = {
        Expectation.DECLARED: -(-declared_packets_needed(8, required) // 2),
        Expectation.UNIFORM: uniform_packets_needed(SprayPolicyCode.ROTATION, 8, 1, required),
    }
    wrong = sum(link_is_called_healthy(expectation, seed, required, needs[expectation]) for seed in range(runs))
    assert at_least(wrong, runs, 2 * required.miss) > 1e-6, f"{wrong} of {runs}"


@pytest.mark.parametrize("expectation", list(Expectation))
def test_links_of_healthy_runs_are_all_healthy(expectation):
    """Stray packets only: nothing is flagged, and every link has as many packets as a verdict takes."""
    required = Requirements(0.01)
    for seed in range(20):
        rng, monitor = np.random.default_rng(seed), Monitor(required)
        reports = []
        for src, dst in PAIRS:
            flow, sent = replace(report(src, dst).flow, packets=8 * 2000), np.full(8, 2000)
            arrived = sent - rng.binomial(sent, required.stray_rate)
            shape = FlowShape(SprayPolicyCode.ROTATION, 8 * 2000, 8)
            by = {
                Expectation.DECLARED: lambda f, s, a: declared_report(f, s, a, required),
                Expectation.UNIFORM: lambda f, s, a, shape=shape: uniform_report(f, shape, a, required),
            }
            reports.append(by[expectation](flow, sent, arrived))
        monitor.observe(reports, {}, 1)
        _, links = last_words(monitor)
        assert {each.verdict for each in links.values()} == {LinkVerdict.HEALTHY}
