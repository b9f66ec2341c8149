"""Sums of flows over links and between pairs of leaves."""

from collections.abc import Iterable, Mapping

import numpy as np
import pytest
from scipy.stats import binom

from agent.spraycheck.accuse.localization import Evidence, Finding, localize
from agent.spraycheck.accuse.pooled_flows import MOST_LOSE, LeafPair, PairTotals, link_sums, with_sums
from agent.spraycheck.paths import FabricPath
from agent.spraycheck.statistics.binomial import at_most
from agent.spraycheck.statistics.calibration import ROTATION_ENDS, FlowShape
from agent.spraycheck.statistics.declared import declared_miss, declared_packets_needed, judge_declared
from agent.spraycheck.statistics.uniform import plan_test, uniform_packets_needed
from agent.spraycheck.statistics.verdicts import LOST_ALIKE, Requirements, Verdict
from agent.wire.constants import SprayPolicyCode

ASKED = Requirements(0.01)
SPINES = 8
PAIRS = [(leaf, (leaf + stride) % 8) for stride in (1, 3) for leaf in range(8)]


def flow(src: int, dst: int, sent: np.ndarray, lost: np.ndarray) -> list[Evidence]:
    verdicts = judge_declared(sent, sent - lost, ASKED)
    return [
        Evidence(FabricPath(0, src, spine, dst), each.verdict, src << 4 | dst, int(sent[spine]), int(lost[spine]))
        for spine, each in enumerate(verdicts)
    ]


def retiring(rng: np.random.Generator, rate: np.ndarray, packets: int) -> tuple[np.ndarray, np.ndarray]:
    """What a sender that retires a path at its first loss puts on each, and loses there."""
    first = rng.geometric(np.maximum(rate, 1e-12))
    lost = (first <= packets).astype(np.int64)
    return np.where(lost, first, packets).astype(np.int64), lost


@pytest.mark.parametrize("up", [True, False], ids=["uplink", "downlink"])
def test_a_link_whose_flows_retire_it_at_once_is_named_all_the_same(up):
    """Each flow says `insufficient` of the path; 200 seeds, no miss and no healthy link accused."""
    named = 0
    for seed in range(200):
        rng, evidence = np.random.default_rng(seed), []
        for src, dst in PAIRS:
            rate = np.zeros(SPINES)
            if (src if up else dst) == 3:
                rate[5] = 0.01
            evidence += flow(src, dst, *retiring(rng, rate, 2000))
        assert not any(each.verdict is Verdict.FAILED for each in evidence)
        found = localize(with_sums(evidence, ASKED))
        expected = "p0:leaf3>spine5" if up else "p0:spine5>leaf3"
        assert {str(link) for link in found.links} <= {expected}
        named += [str(link) for link in found.links] == [expected]
    assert named >= 198, "of the two flows each loses a packet within 2000 with certainty, at most some 700 packets in"


def test_stray_losses_of_a_healthy_fabric_accuse_nothing():
    """One packet in a million, ten times the traffic of a long run, 300 seeds: at most what is allowed."""
    accused = 0
    for seed in range(300):
        rng, evidence = np.random.default_rng(seed), []
        for src, dst in PAIRS:
            sent = np.full(SPINES, 20_000)
            evidence += flow(src, dst, sent, rng.binomial(sent, ASKED.stray_rate))
        accused += localize(with_sums(evidence, ASKED)).finding is not Finding.NONE
    assert accused <= 1


def test_losses_on_a_hosts_link_fall_on_all_its_paths_and_accuse_none():
    accused = 0
    for seed in range(200):
        rng, evidence = np.random.default_rng(seed), []
        for src, dst in PAIRS:
            rate = np.full(SPINES, 0.01 if src == 3 else 0.0)
            evidence += flow(src, dst, *retiring(rng, rate, 300))
        accused += bool(localize(with_sums(evidence, ASKED)).links)
    assert accused <= 4, "1 % of flows may look uneven by chance, and two of them must agree"


def small_flows(
    rng: np.random.Generator, lossy: Mapping[str, float], packets: int, flows: int = 2, spines: int = SPINES
) -> list[Evidence]:
    """What flows of every pair say that put `packets` on each path; `lossy` links drop such shares, all lose strays."""
    evidence = []
    for src, dst in PAIRS * flows:
        paths = [FabricPath(0, src, spine, dst) for spine in range(spines)]
        kept = [np.prod([1 - lossy.get(str(link), 0.0) for link in path.links]) for path in paths]
        sent = np.full(spines, packets)
        evidence += flow(src, dst, sent, rng.binomial(sent, 1 - np.array(kept) * (1 - ASKED.stray_rate)))
    return evidence


def told(evidence: list[Evidence], required: Requirements = ASKED) -> dict[str, Verdict]:
    """The verdicts on links, after the localisation as the monitor does it."""
    found = localize(with_sums(evidence, required))
    accused = {*found.links}.union(*found.candidates)
    return {str(each.link): each.verdict for each in link_sums(evidence, required, accused)}


def over_one_uplink(required: Requirements, sent: int, lost: Iterable[int]) -> list[Verdict]:
    """Verdicts on a link of a leaf of four, on which the others lose nothing, one for each number of packets lost."""
    paths = [FabricPath(0, 0, spine, 1) for spine in range(4)]
    rest = [Evidence(path, Verdict.INSUFFICIENT, 1, sent) for path in paths[1:]]
    verdicts = []
    for each in lost:
        sums = link_sums([Evidence(paths[0], Verdict.INSUFFICIENT, 1, sent, each), *rest], required)
        verdicts += [found.verdict for found in sums if (found.link.spine, found.link.up) == (0, True)]
    return verdicts


@pytest.mark.parametrize(("rate", "beta"), [(0.01, 0.05), (0.05, 0.01), (0.002, 0.1)])
def test_a_link_that_drops_the_asked_rate_is_cleared_as_seldom_as_stated(rate, beta):
    """At the fewest packets that clear a link at all, where misses are the most frequent; 20 000 seeds."""
    required, seeds = Requirements(rate, miss=beta), 20_000
    enough = declared_packets_needed(4, required)
    lost = np.random.default_rng(3).binomial(enough, rate, seeds)
    verdict_at = over_one_uplink(required, enough, range(int(lost.max()) + 1))
    cleared = sum(verdict_at[each] is Verdict.HEALTHY for each in lost)
    stated = at_most(verdict_at.index(Verdict.INSUFFICIENT) - 1, enough, rate)
    assert stated <= declared_miss(enough, 4 * enough, required) <= beta
    low, high = binom.ppf([1e-4, 1 - 1e-4], seeds, stated)
    assert low <= cleared <= high
    assert cleared <= binom.ppf(1 - 1e-4, seeds, beta)


def test_senders_that_stop_where_they_lose_do_not_clear_a_link_more_often():
    """Flows of 60 packets that leave the link at their first loss, one after another until enough was sent over it."""
    required, seeds, cleared = Requirements(0.01, miss=0.05), 4000, 0
    enough = declared_packets_needed(4, required)
    verdict_at: dict[tuple[int, int], Verdict] = {}
    for seed in range(seeds):
        rng, sent, lost = np.random.default_rng(seed), 0, 0
        while sent < enough:
            until = int(rng.geometric(0.01))
            sent, lost = sent + min(until, 60), lost + (until <= 60)
        if (sent, lost) not in verdict_at:
            (verdict_at[sent, lost],) = over_one_uplink(required, sent, [lost])
        cleared += verdict_at[sent, lost] is Verdict.HEALTHY
    assert 0 < cleared <= binom.ppf(1 - 1e-4, seeds, required.miss)


def test_a_healthy_link_is_cleared_from_as_many_packets_on_as_the_power_says():
    enough = declared_packets_needed(4, ASKED)
    assert over_one_uplink(ASKED, enough, [0]) == [Verdict.HEALTHY]
    assert over_one_uplink(ASKED, enough - 1, [0]) == [Verdict.INSUFFICIENT]
    assert over_one_uplink(ASKED, 100 * enough, [0]) == [Verdict.HEALTHY]


def test_a_healthy_fabric_of_small_flows_is_cleared_whole():
    """Four flows of 400 packets a path over each link, each of which says nothing; 200 seeds."""
    open_runs = 0
    for seed in range(200):
        evidence = small_flows(np.random.default_rng(seed), {}, 400)
        assert {each.verdict for each in evidence} == {Verdict.INSUFFICIENT}
        verdicts = told(evidence)
        assert len(verdicts) == 2 * 8 * SPINES
        open_runs += set(verdicts.values()) != {Verdict.HEALTHY}
    assert open_runs == 0, "only three strays on one link would keep it from being cleared"
    fewer = told(small_flows(np.random.default_rng(1), {}, 300))
    assert set(fewer.values()) == {Verdict.INSUFFICIENT}


@pytest.mark.slow
@pytest.mark.parametrize("lossy", [("p0:leaf3>spine5",), ("p0:leaf3>spine5", "p0:spine5>leaf4")])
def test_lossy_links_are_not_cleared_and_those_they_share_paths_with_are(lossy):
    """Paths over an accused link are no word on the links behind it, whatever they lost; 100 seeds."""
    wrong, beside = 0, 0
    for seed in range(100):
        verdicts = told(small_flows(np.random.default_rng(seed), dict.fromkeys(lossy, 0.01), 750))
        wrong += sum(verdicts.get(link) is Verdict.HEALTHY for link in lossy)
        beside += verdicts.get("p0:spine5>leaf6") is Verdict.HEALTHY
    assert wrong <= binom.ppf(1 - 1e-4, 100 * len(lossy), ASKED.miss)
    assert beside >= 95, "the two other flows over it are 1 500 packets without a loss"


def test_a_lossy_hosts_link_keeps_the_uplinks_of_its_leaf_from_being_cleared():
    for seed in range(100):
        rng, evidence = np.random.default_rng(seed), []
        for src, dst in PAIRS * 2:
            sent = np.full(SPINES, 400)
            evidence += flow(src, dst, sent, rng.binomial(sent, 0.05 if src == 3 else 0.0))
        verdicts = {str(each.link): each for each in link_sums(evidence, ASKED)}
        uplinks = [verdicts[f"p0:leaf3>spine{spine}"] for spine in range(SPINES)]
        assert {(each.verdict, each.doubt) for each in uplinks} <= {
            (Verdict.INSUFFICIENT, LOST_ALIKE),
            (Verdict.INSUFFICIENT, MOST_LOSE),
        }
        assert verdicts["p0:leaf1>spine0"].verdict is Verdict.HEALTHY


def test_a_link_over_which_nothing_went_has_no_sum():
    used = [Evidence(FabricPath(0, 0, spine, 1), Verdict.INSUFFICIENT, 1, 10 * spine) for spine in range(3)]
    assert {(str(each.link), each.flows, each.sent) for each in link_sums(used, ASKED)} == {
        ("p0:leaf0>spine1", 1, 10), ("p0:leaf0>spine2", 1, 20), ("p0:spine1>leaf1", 1, 10), ("p0:spine2>leaf1", 1, 20),
    }  # fmt: skip
    assert link_sums([], ASKED) == []


def both_flows(spine_lost: tuple[int, int], packets: int, required: Requirements) -> list[Evidence]:
    """Two flows of a pair of leaves over four spines, with losses on the first."""
    evidence = []
    for qpn, lost in enumerate(spine_lost):
        sent, arrived = np.full(4, packets), np.array([packets - lost, packets, packets, packets])
        evidence += [
            Evidence(FabricPath(0, 0, spine, 1), each.verdict, qpn, packets, packets - each.count)
            for spine, each in enumerate(judge_declared(sent, arrived, required))
        ]
    return evidence


def test_a_path_is_cleared_by_all_its_flows_as_seldom_as_stated_where_it_drops():
    """Of two flows, each too small alone; exact over all numbers of losses of each, weighed by how likely they are."""
    required = Requirements(0.01, miss=0.05)
    half = -(-declared_packets_needed(4, required) // 2)
    chance = binom.pmf(np.arange(16), half, 0.01)
    assert {each.verdict for each in both_flows((0, 0), half, required)} == {Verdict.INSUFFICIENT}
    cleared = 0.0
    for lost in np.ndindex(16, 16):
        first, _, _, _, second, *_ = with_sums(both_flows(lost, half, required), required)
        assert (first.verdict is Verdict.HEALTHY) == (second.verdict is Verdict.HEALTHY)
        cleared += chance[lost[0]] * chance[lost[1]] * (first.verdict is Verdict.HEALTHY)
    assert 0 < cleared <= required.miss


def test_a_path_that_one_flow_alone_fails_is_not_cleared_by_the_others():
    required = Requirements(0.01)
    few = [
        Evidence(FabricPath(0, 0, spine, 1), Verdict.INSUFFICIENT, qpn, 900) for qpn in range(9) for spine in range(4)
    ]
    short = Evidence(FabricPath(0, 0, 0, 1), Verdict.FAILED, 9, 900, 3)
    verdicts = {each.path.spine: each.verdict for each in with_sums([short, *few], required)}
    assert verdicts == {0: Verdict.INSUFFICIENT, 1: Verdict.HEALTHY, 2: Verdict.HEALTHY, 3: Verdict.HEALTHY}


ROTATION, RANDOM = SprayPolicyCode.ROTATION, SprayPolicyCode.RANDOM
PAIR = LeafPair(0, 3, 4)
PAIR_ASKED = Requirements(0.01)


def test_flows_too_small_alone_are_judged_together():
    totals = PairTotals[int](PAIR_ASKED)
    shape = FlowShape(ROTATION, 8 * 600, 8)
    counts = np.array([600] * 7 + [594])
    found = [totals.add(PAIR, shape, counts, turn) for turn in range(20)]
    judged = [each for each in found if each is not None]
    assert found[:3] == [None] * 3
    assert len(judged) == 1
    assert [each.verdict for each in judged[0].verdicts] == [Verdict.HEALTHY] * 7 + [Verdict.FAILED]
    assert judged[0].members == tuple(range(judged[0].test.shape.flows))
    assert judged[0].test.shape.expected >= uniform_packets_needed(ROTATION, 8, 1, PAIR_ASKED)


def test_every_flow_brings_its_own_ends():
    shape = FlowShape(ROTATION, 8 * 10_000, 8, flows=10)
    assert plan_test(shape, PAIR_ASKED).calibration.end_effect_pkts == 10 * ROTATION_ENDS


def test_pairs_planes_and_policies_are_kept_apart_and_a_judged_sum_begins_anew():
    totals = PairTotals[str](PAIR_ASKED)
    shape, counts = FlowShape(ROTATION, 8 * 1700, 8), np.full(8, 1700)
    assert plan_test(shape, PAIR_ASKED).weakness is not None
    others = (LeafPair(1, 3, 4), LeafPair(0, 4, 3), LeafPair(0, 3, 5))
    assert all(totals.add(pair, shape, counts, "first") is None for pair in (PAIR, *others))
    assert totals.add(PAIR, FlowShape(RANDOM, 8 * 1700, 8), counts, "random") is None
    total = totals.add(PAIR, shape, counts, "second")
    assert total is not None
    assert (total.test.shape.packets, total.members) == (2 * 8 * 1700, ("first", "second"))
    assert totals.add(PAIR, shape, counts, "third") is None
    assert totals.add(others[0], shape, counts, "fourth") is not None


def test_a_flow_may_not_be_longer_than_its_psns():
    with pytest.raises(ValueError, match="more than a flow can number"):
        PairTotals[int](PAIR_ASKED).add(PAIR, FlowShape(ROTATION, (1 << 24) + 8, 8), np.full(8, 1 << 21), 0)


def test_sums_of_random_flows_keep_the_false_alarms_of_one():
    """1,500 sums, each tested once at 5 %; 10 % is what takes some 4,000 packets a path."""
    rng = np.random.default_rng(1)
    required = Requirements(0.1, false_alarm=0.05)
    totals, alarms, sums = PairTotals[None](required), 0, 0
    while sums < 1500:
        total = totals.add(PAIR, FlowShape(RANDOM, 8000, 8), rng.multinomial(8000, np.full(8, 1 / 8)), None)
        if total is not None:
            sums += 1
            alarms += any(each.verdict is Verdict.FAILED for each in total.verdicts)
    assert alarms <= binom.ppf(1 - 1e-4, 1500, 0.05)


@pytest.mark.parametrize("policy", [ROTATION, RANDOM])
def test_sums_miss_no_more_than_allowed(policy):
    """A path that drops the required rate is found by the first sum, over 1,000 seeds; nothing healthy is accused."""
    rng = np.random.default_rng(2)
    required, missed, wrong, runs = Requirements(0.1, miss=0.01), 0, 0, 1000
    packets = 4000 if policy is RANDOM else 500
    for _ in range(runs):
        totals = PairTotals[None](required)
        while True:
            if policy is RANDOM:
                sent = rng.multinomial(packets, np.full(8, 1 / 8))
            else:
                ends = rng.permutation([1, -1, 1, -1, 0, 0, 0, 0])
                sent = packets // 8 + ends
            arrived = np.concatenate((rng.binomial(sent[:1], 0.9), sent[1:]))
            total = totals.add(PAIR, FlowShape(policy, int(sent.sum()), 8), arrived, None)
            if total is not None:
                break
        verdicts = [each.verdict for each in total.verdicts]
        missed += verdicts[0] is not Verdict.FAILED
        wrong += Verdict.FAILED in verdicts[1:]
    assert missed <= binom.ppf(1 - 1e-4, runs, required.miss)
    assert wrong <= binom.ppf(1 - 1e-4, runs, required.false_alarm)
