"""Localization: verdicts to links, and evidence of its time."""

from dataclasses import replace
from functools import cache
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.spraycheck.accuse.explanations import smallest_explanations
from agent.spraycheck.accuse.localization import Evidence, Finding, localize
from agent.spraycheck.paths import FabricLink, FabricPath
from agent.spraycheck.statistics.declared import declared_packets_needed, judge_declared
from agent.spraycheck.statistics.flow_times import LossTime, Span, share_needed
from agent.spraycheck.statistics.verdicts import Requirements, Verdict

LEAVES = SPINES = 8
FAILED, HEALTHY, INSUFFICIENT = Verdict.FAILED, Verdict.HEALTHY, Verdict.INSUFFICIENT

links = st.builds(
    FabricLink, st.integers(0, 1), st.integers(0, LEAVES - 1), st.integers(0, SPINES - 1), up=st.booleans()
)


def paths_of(strides, leaves=LEAVES, planes=2):
    return [
        FabricPath(plane, leaf, spine, (leaf + stride) % leaves)
        for plane in range(planes)
        for leaf in range(leaves)
        for stride in strides
        for spine in range(SPINES)
    ]


def seen(paths, failed, unsure=()):
    """Perfect verdicts on all paths, none on those `unsure`."""
    return [
        Evidence(
            path,
            INSUFFICIENT if path in unsure else FAILED if failed.intersection(path.links) else HEALTHY,
            qpn=path.src_leaf << 12,
        )
        for path in paths
    ]


def up(leaf, spine, plane=0):
    return FabricLink(plane, leaf, spine, up=True)


def down(spine, leaf, plane=0):
    return FabricLink(plane, leaf, spine, up=False)


@given(links)
def test_one_failed_link_is_named_and_no_other(link):
    found = localize(seen(paths_of((1, 3)), {link}))
    assert (found.finding, found.links, found.candidates) == (Finding.NAMED, (link,), ())
    assert {each.verdict for each in found.evidence} == {FAILED, HEALTHY}


@given(links)
def test_with_one_stride_only_both_links_of_the_path_are_listed(link):
    found = localize(seen(paths_of((1,)), {link}))
    assert found.finding is Finding.AMBIGUOUS
    assert found.links == ()
    (pair,) = found.candidates
    assert len(pair) == 2
    assert link in pair


@given(links)
def test_the_common_link_is_named_though_nothing_is_known_to_be_healthy(link):
    """Intersection alone (L1): all that was not flagged is insufficient, and clears nobody."""
    paths = paths_of((1, 3))
    unsure = [path for path in paths if link not in path.links]
    found = localize(seen(paths, {link}, unsure))
    assert (found.finding, found.links) == (Finding.NAMED, (link,))


@given(links)
def test_insufficient_never_clears(link):
    paths = paths_of((1,))
    unsure = [path for path in paths if link not in path.links]
    assert localize(seen(paths, {link}, unsure)).candidates == localize(seen(paths, {link})).candidates
    assert localize(seen(paths, set(), paths)).finding is Finding.NONE


@pytest.mark.parametrize(
    "failed",
    [
        {up(3, 5), up(3, 6)},
        {up(3, 5), down(5, 0)},
        {up(3, 5), up(2, 1, plane=1)},
        {down(5, 4), down(5, 6)},
        {up(3, 5), down(5, 4)},
        {up(0, 0), up(1, 1), down(2, 2), down(3, 3)},
    ],
    ids=["same leaf", "same spine, no common path", "two planes", "two victims", "one path, both links", "four"],
)
def test_several_failed_links_are_all_named(failed):
    found = localize(seen(paths_of((1, 3)), failed))
    assert (found.finding, set(found.links)) == (Finding.NAMED, failed)


@settings(max_examples=60)
@given(st.sets(links, min_size=2, max_size=4))
def test_any_few_failed_links_none_healthy_is_named(failed):
    """With three strides, up to four failures: whatever is named did fail, unless two hide one another on a spine."""
    found = localize(seen(paths_of((1, 2, 3)), failed))
    assert found.finding in (Finding.NAMED, Finding.AMBIGUOUS)
    assert set(found.links) <= failed
    if found.finding is Finding.NAMED and len({(link.plane, link.spine) for link in failed}) == len(failed):
        assert set(found.links) == failed


def test_two_victims_shadow_one_another_until_a_flow_touches_only_one():
    """L2, third case: the same source sees both paths short, so its own uplink explains as much."""
    shadowed = [Evidence(FabricPath(0, 3, 5, leaf), FAILED, 1) for leaf in (4, 6)]
    assert localize(shadowed).links == (up(3, 5),)
    apart = [*shadowed, Evidence(FabricPath(0, 1, 5, 4), FAILED, 2), Evidence(FabricPath(0, 2, 5, 6), FAILED, 3)]
    found = localize([*apart, Evidence(FabricPath(0, 3, 5, 7), HEALTHY, 4)])
    assert (found.finding, found.links) == (Finding.NAMED, (down(5, 4), down(5, 6)))


def test_a_flagged_path_of_healthy_links_is_unexplained_and_says_why():
    flagged = Evidence(FabricPath(0, 3, 5, 4), FAILED, 1)
    against = [Evidence(FabricPath(0, 3, 5, 6), HEALTHY, 2), Evidence(FabricPath(0, 1, 5, 4), HEALTHY, 3)]
    other = Evidence(FabricPath(0, 1, 2, 3), HEALTHY, 3)
    found = localize([flagged, *against, other])
    assert (found.finding, found.links, found.candidates) == (Finding.UNEXPLAINED, (), ())
    assert set(found.evidence) == {flagged, *against}


def test_contradiction_on_one_spine_does_not_hide_what_is_certain_on_another():
    evidence = [*seen(paths_of((1, 3)), {up(2, 1)}), Evidence(FabricPath(0, 3, 5, 4), FAILED, 99)]
    found = localize(evidence)
    assert (found.finding, found.links) == (Finding.UNEXPLAINED, (up(2, 1),))


def test_all_uplinks_of_a_spine_down_look_like_all_its_downlinks():
    found = localize(seen(paths_of((1, 3)), {up(leaf, 5) for leaf in range(LEAVES)}))
    assert found.finding is Finding.AMBIGUOUS
    assert found.links == ()
    everything = {make(5, leaf) for leaf in range(LEAVES) for make in (down, lambda spine, leaf: up(leaf, spine))}
    assert {link for each in found.candidates for link in each} == everything


def test_an_explanation_too_large_to_search_for_becomes_a_list_of_suspects():
    evidence = [Evidence(FabricPath(0, leaf, 5, 20 + i), FAILED, 1) for leaf in range(20) for i in range(20)]
    found = localize(evidence)
    assert found.finding is Finding.AMBIGUOUS
    assert [len(each) for each in found.candidates] == [40]


def test_an_accusation_by_the_smallest_explanation_waits_for_owed_verdicts():
    evidence = [Evidence(FabricPath(0, 3, 5, leaf), FAILED, 1) for leaf in (4, 6)]
    suspects = tuple(sorted((up(3, 5), down(5, 4), down(5, 6))))
    waiting = localize(evidence, pending=[FabricPath(0, 1, 5, 4)])
    assert (waiting.finding, waiting.links, waiting.candidates) == (Finding.AMBIGUOUS, (), (suspects,))
    elsewhere = localize(evidence, pending=[FabricPath(0, 1, 6, 4), FabricPath(1, 3, 5, 4)])
    assert (elsewhere.finding, elsewhere.links) == (Finding.NAMED, (up(3, 5),))


def test_an_accusation_by_elimination_does_not_wait():
    evidence = [Evidence(FabricPath(0, 3, 5, 4), FAILED, 1), Evidence(FabricPath(0, 1, 5, 4), HEALTHY, 2)]
    found = localize(evidence, pending=[FabricPath(0, 3, 5, 6)])
    assert (found.finding, found.links) == (Finding.NAMED, (up(3, 5),))


@settings(max_examples=200)
@given(st.sets(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=8))
def test_smallest_explanations_are_those_that_trying_everything_finds(pairs):
    suspects = [(up(src, 0), down(0, dst)) for src, dst in pairs]
    everything = sorted({link for path in suspects for link in path})
    for size in range(1, len(everything) + 1):
        brute = {
            frozenset(chosen)
            for chosen in combinations(everything, size)
            if all(set(chosen).intersection(path) for path in suspects)
        }
        if brute:
            break
    found = smallest_explanations(suspects)
    assert found == brute


def counted(path, lost, sent=5000, verdict=None):
    return Evidence(path, verdict or (FAILED if lost else HEALTHY), path.src_leaf, sent, lost)


def test_one_pair_alone_leaves_two_links_equally_likely_and_names_the_flow_that_decides():
    found = localize([counted(FabricPath(0, 3, 5, 4), 50), counted(FabricPath(0, 1, 6, 2), 0)])
    assert [(each.link, each.likelihood) for each in found.estimates] == [(up(3, 5), 0.5), (down(5, 4), 0.5)]
    assert [each.rate for each in found.estimates] == pytest.approx([0.01, 0.01], rel=1e-3)
    (flow,) = found.deciding
    assert flow.path.spine == 5
    assert len({up(3, 5), down(5, 4)}.intersection(flow.path.links)) == 1


def test_a_named_link_has_its_rate():
    found = localize([counted(FabricPath(0, 3, 5, 4), 50), counted(FabricPath(0, 1, 5, 4), 0)])
    (only,) = found.estimates
    assert (only.link, only.likelihood, found.deciding) == (up(3, 5), 1.0, ())
    assert only.rate == pytest.approx(0.01, rel=1e-3)


def test_counts_refute_the_smallest_explanation():
    """Two victims of 1 % and 10 % seen by one source: its uplink would be one link, but cannot lose both shares."""
    found = localize([counted(FabricPath(0, 3, 5, 4), 50), counted(FabricPath(0, 3, 5, 6), 500)])
    assert (found.finding, found.links) == (Finding.AMBIGUOUS, ())
    likelihood = {each.link: each.likelihood for each in found.estimates}
    assert likelihood[down(5, 4)] + likelihood[down(5, 6)] > 1
    assert likelihood[up(3, 5)] < 1
    alike = localize([counted(FabricPath(0, 3, 5, 4), 50), counted(FabricPath(0, 3, 5, 6), 55)])
    assert (alike.finding, alike.links) == (Finding.NAMED, (up(3, 5),))


def test_the_deciding_flow_decides():
    """Send what is asked for until nothing is open: two victims of one spine that one source sees (L2)."""
    lost = {down(5, 4): 50, down(5, 6): 500}
    paths = [FabricPath(0, 3, 5, 4), FabricPath(0, 3, 5, 6), FabricPath(0, 1, 6, 2)]
    asked_for = 0
    while (found := localize([counted(path, sum(map(lost.get, path.links, (0, 0)))) for path in paths])).deciding:
        paths.append(found.deciding[0].path)
        asked_for += 1
    assert 1 <= asked_for <= 4
    assert (found.finding, set(found.links)) == (Finding.NAMED, set(lost))


@settings(max_examples=40)
@given(st.sets(links, min_size=1, max_size=3), st.integers(0, 2**32 - 1))
def test_counts_of_few_failed_links_accuse_no_healthy_one(failed, seed):
    rng = np.random.default_rng(seed)
    evidence = []
    for path in paths_of((1, 3)):
        lost = int(rng.binomial(5000, 0.02 * len(failed.intersection(path.links))))
        evidence.append(counted(path, lost))
    found = localize(evidence)
    assert set(found.links) <= failed
    for each in found.estimates:
        if each.link in found.links and each.rate is not None:
            assert 0.005 < each.rate < 0.05


def test_names():
    assert str(up(3, 5)) == "p0:leaf3>spine5"
    assert str(down(5, 3, plane=1)) == "p1:spine5>leaf3"
    assert str(FabricPath(0, 3, 5, 4)) == "p0:leaf3>spine5>leaf4"


S = 10**9


def timed(path, begin_s, end_s, fault=None, on=None):
    """Evidence of a flow of some seconds, of one fault of a link for some seconds, judged without error."""
    span, lossy = Span(int(begin_s * S), int(end_s * S)), None
    if fault is not None and on in path.links and fault[0] < end_s and begin_s < fault[1]:
        lost = Span(int(max(begin_s, fault[0]) * S), int(min(end_s, fault[1]) * S))
        lossy = LossTime(lost, lost)
    return Evidence(path, FAILED if lossy else HEALTHY, path.src_leaf << 12, span=span, lossy=lossy)


def test_a_flow_that_was_over_before_the_fault_clears_nothing_and_is_told():
    """Stride 1 ends after 2 s, the fault is there from 3 to 5 s, on the path of stride 3."""
    short, long = paths_of((1,), leaves=4, planes=1), paths_of((3,), leaves=4, planes=1)
    evidence = [timed(path, 0, 2, (3, 5), up(0, 5)) for path in short]
    evidence += [timed(path, 0, 9, (3, 5), up(0, 5)) for path in long]
    found = localize(evidence)
    assert (found.finding, found.links) == (Finding.AMBIGUOUS, ())
    assert found.candidates == ((up(0, 5), down(5, 3)),)
    assert {str(each.path) for each in found.untimely} == {"p0:leaf0>spine5>leaf1", "p0:leaf2>spine5>leaf3"}
    assert not any(each.verdict is HEALTHY for each in found.evidence)


def test_a_flow_that_was_there_clears_also_when_it_ended_earlier():
    flagged = timed(FabricPath(0, 0, 5, 3), 0, 10, (0, 10), up(0, 5))
    for begin, end in ((0, 6), (4, 6), (0, 20), (5, 11)):
        found = localize([flagged, timed(FabricPath(0, 2, 5, 3), begin, end)])
        assert (found.links, found.untimely) == ((up(0, 5),), ()), (begin, end)
    for begin, end in ((0, 21), (11, 12), (9.9, 20)):
        found = localize([flagged, timed(FabricPath(0, 2, 5, 3), begin, end)])
        assert (found.links, len(found.untimely)) == ((), 1), (begin, end)


def test_a_long_flow_with_packets_enough_in_the_time_of_a_loss_clears():
    flagged = timed(FabricPath(0, 0, 5, 3), 50, 60, (50, 60), up(0, 5))
    long = replace(timed(FabricPath(0, 2, 5, 3), 0, 100), needs=0.1)
    assert localize([flagged, long]).links == (up(0, 5),)
    assert localize([flagged, replace(long, needs=0.11)]).links == ()


times = st.tuples(st.floats(0, 20), st.floats(0.1, 20)).map(lambda t: (t[0], t[0] + t[1]))


@settings(max_examples=200)
@given(links.filter(lambda link: link.plane == 0), times, st.lists(times, min_size=16, max_size=16))
def test_whenever_flows_and_one_fault_are_no_healthy_link_is_named(link, fault, flows):
    pairs = [(leaf, (leaf + stride) % LEAVES) for leaf in range(LEAVES) for stride in (1, 3)]
    paths = [FabricPath(0, source, link.spine, target) for source, target in pairs]
    found = localize([timed(path, *at, fault, link) for path, at in zip(paths, flows, strict=True)])
    assert set(found.links) <= {link}
    assert found.finding is not Finding.UNEXPLAINED
    if any(each.verdict is FAILED for each in found.evidence):
        assert link in {*found.links}.union(*found.candidates)


ENDS = PATHS = 8
SENT, SECOND = 4096, 10**9
ASKED = Requirements(0.01)
LINK = FabricLink(0, 3, 5, up=True)


@cache
def needed():
    return declared_packets_needed(PATHS, ASKED)


def flow(rng, source, target, span_s, fault_s):
    """Evidence of one flow that sends evenly: one path loses 2 % of what it carries while the fault is in force."""
    sent, lost, times = np.full(PATHS, SENT), np.zeros(PATHS, np.int64), np.empty(0)
    if source == LINK.leaf:
        at = rng.uniform(*span_s, SENT)
        times = at[(at >= fault_s[0]) & (at <= fault_s[1]) & (rng.random(SENT) < 0.02)]
        lost[LINK.spine] = len(times)
    span, lossy = Span(int(span_s[0] * SECOND), int(span_s[1] * SECOND)), None
    if len(times):
        poll = SECOND // 10
        seen = Span(int(times.min() * SECOND) // poll * poll, (int(times.max() * SECOND) // poll + 1) * poll)
        lossy = LossTime.of(seen, len(times), span)
    needs = share_needed(needed(), SENT)
    return [
        Evidence(
            FabricPath(0, source, each.path, target),
            each.verdict,
            source,
            SENT,
            int(lost[each.path]),
            span,
            lossy,
            needs,
        )
        for each in judge_declared(sent, sent - lost, ASKED)
    ]


def run(seed, shortest_s, fault_s):
    """Strides 1 and 3; flows begin together and last `shortest_s` to 10 s."""
    rng = np.random.default_rng(seed)
    pairs = [(source, (source + stride) % ENDS) for source in range(ENDS) for stride in (1, 3)]
    return localize([item for pair in pairs for item in flow(rng, *pair, (0, rng.uniform(shortest_s, 10)), fault_s)])


@pytest.mark.parametrize(("shortest_s", "least"), [(5, 100), (1, 95)])
def test_a_fault_that_stays_is_named_though_flows_end_at_different_times(shortest_s, least):
    found = [run(seed, shortest_s, (0, 10)).links for seed in range(100)]
    assert all(set(links) <= {LINK} for links in found)
    assert sum(links == (LINK,) for links in found) >= least


def test_a_fault_that_comes_late_is_never_blamed_on_another_link():
    """From 5 s on: half of the flows are over by then."""
    found = [run(seed, 1, (5, 10)) for seed in range(100)]
    assert all(set(each.links) <= {LINK} for each in found)
    # The leaf may see a loss or two of a flow and flag nothing.
    told = [LINK in {*each.links}.union(*each.candidates) for each in found if each.evidence]
    assert all(told)
    assert sum(each.links == (LINK,) for each in found) > 30
    assert not any(each.finding.value == "unexplained" for each in found)
