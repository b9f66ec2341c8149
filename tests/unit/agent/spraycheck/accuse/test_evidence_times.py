"""Links named over many seeds, while flows end at different times and faults come and go; by chance."""

from functools import cache

import numpy as np
import pytest

from agent.spraycheck.accuse.localize import Evidence, localize
from agent.spraycheck.paths import FabricLink, FabricPath
from agent.spraycheck.statistics.declared import declared_packets_needed, judge_declared
from agent.spraycheck.statistics.time_spans import LossTime, Span, share_needed
from agent.spraycheck.statistics.uniform import Asked

LEAVES = SPINES = 8
SENT, SECOND = 4096, 10**9
ASKED = Asked(0.01)
LINK = FabricLink(0, 3, 5, up=True)


@cache
def needed():
    return declared_packets_needed(SPINES, ASKED)


def flow(rng, source, target, span_s, fault_s):
    """Evidence of one flow that sends evenly: one path loses 2 % of what it carries while the fault is in force."""
    sent, lost, times = np.full(SPINES, SENT), np.zeros(SPINES, np.int64), np.empty(0)
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
    pairs = [(source, (source + stride) % LEAVES) for source in range(LEAVES) for stride in (1, 3)]
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
