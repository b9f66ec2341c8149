"""Latency of writes between two hosts in memory, whose paths have known delays."""

import pytest

from agent.host.programs.requests import WriteLatOrder
from agent.io.memory import PathRule
from tests.unit.agent.host.programs.job_in_memory import Lab

MEMORY = {"source": 8192, "target": 8192}
ONE_WAY_NS = 20_000
"""Delay of the shortest path of the fabric in memory; the longest of four spines takes 12 us more."""


@pytest.mark.parametrize(("until", "ways"), [("answer", 1), ("completion", 2)])
@pytest.mark.parametrize("size", [2, 1000])
def test_the_time_is_that_of_the_paths(until, ways, size):
    lab = Lab()
    with lab.job((0, 2), memory=MEMORY) as job:
        job.start(WriteLatOrder(size, iterations=50, warmup=5, until=until))
        (reports,) = lab.run(job)
        spread = reports[0].spread
        assert (reports[0].iterations, reports[0].bytes, reports[1].iterations) == (50, 50 * size, 0)
        assert ways * ONE_WAY_NS <= spread.min <= spread.median <= spread.p99 <= spread.max
        assert spread.median <= ways * (ONE_WAY_NS + 12_000 + 15_000), "three turns of the loop at most"


def test_a_lost_message_shows_in_the_tail():
    lab = Lab(PathRule(plane=0, spine=1, loss=0.3))
    with lab.job((0, 2), memory=MEMORY) as job:
        job.start(WriteLatOrder(2, iterations=200))
        (reports,) = lab.run(job)
        assert reports[0].spread.median < 50_000
        assert reports[0].spread.max > 2_000_000, "half of the timeout"


def test_time_may_decide():
    lab = Lab()
    with lab.job((0, 2), memory=MEMORY) as job:
        job.start(WriteLatOrder(2, duration_ns=10_000_000, warmup=3))
        (reports,) = lab.run(job)
        assert 10_000_000 <= reports[0].elapsed_ns < 10_200_000
        assert reports[0].iterations > 50
