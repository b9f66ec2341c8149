"""Flows that lost one packet of few each: named where they share a link, not because of chance or a host's link."""

import numpy as np
import pytest

from agent.spraycheck.declared import judge_declared
from agent.spraycheck.detector import Asked, Verdict
from agent.spraycheck.localize import Evidence, Finding, localize
from agent.spraycheck.paths import FabricPath
from agent.spraycheck.together import seen_together

ASKED = Asked(0.01)
SPINES = 8
PAIRS = [(leaf, (leaf + stride) % 8) for stride in (1, 3) for leaf in range(8)]


def flow(src: int, dst: int, sent: np.ndarray, lost: np.ndarray) -> list[Evidence]:
    verdicts = judge_declared(sent, sent - lost, None, ASKED)
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
        found = localize(seen_together(evidence, ASKED))
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
        accused += localize(seen_together(evidence, ASKED)).finding is not Finding.NONE
    assert accused <= 1


def test_losses_on_a_hosts_link_fall_on_all_its_paths_and_accuse_none():
    accused = 0
    for seed in range(200):
        rng, evidence = np.random.default_rng(seed), []
        for src, dst in PAIRS:
            rate = np.full(SPINES, 0.01 if src == 3 else 0.0)
            evidence += flow(src, dst, *retiring(rng, rate, 300))
        accused += bool(localize(seen_together(evidence, ASKED)).links)
    assert accused <= 4, "1 % of flows may look uneven by chance, and two of them must agree"
