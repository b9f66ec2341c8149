"""Programs of perftest: what they send, measure and report."""

import pytest

from agent.host.control.program_requests import WriteBwOrder, WriteLatOrder
from agent.host.programs.perftest import buffer_bytes
from agent.io.memory_fabric import PathRule
from tests.unit.agent.host.programs.job_in_memory import Lab


def memory_of(size: int, qps: int) -> dict[str, int]:
    return {"source": qps * buffer_bytes(size), "target": qps * buffer_bytes(size)}


@pytest.mark.parametrize("both", [False, True], ids=["one way", "both ways"])
@pytest.mark.parametrize(("size", "qps", "messages"), [(2, 1, 40), (3000, 3, 20), (300_000, 2, 4)])
def test_messages_arrive_and_are_counted(size, qps, messages, both):
    lab = Lab()
    with lab.job((0, 2), qps=qps, memory=memory_of(size, qps)) as job:
        job.start(WriteBwOrder(size, iterations=messages, depth=16, both=both))
        (reports,) = lab.run(job)
        assert [report.iterations for report in reports] == [messages * qps, messages * qps * both]
        assert reports[0].bytes == messages * qps * size
        assert 0 < reports[0].best_ns_per_message <= reports[0].elapsed_ns / (messages * qps)
        if messages * size >= buffer_bytes(size):
            assert job.wrong_bytes(1, "target", 1) == 0
            assert (job.wrong_bytes(0, "target", 1) == 0) is both
        progress = [qp for qp in lab.ask_progress() if qp["host"] == 0]
        assert sum(qp["completed_messages"] for qp in progress) == messages * qps + 2


def test_loss_costs_time_and_nothing_else():
    lab = Lab(PathRule(loss=0.05))
    with lab.job((0, 2), qps=2, memory=memory_of(70_000, 2)) as job:
        job.start(WriteBwOrder(70_000, iterations=20, depth=4, both=True))
        (reports,) = lab.run(job)
        assert [report.iterations for report in reports] == [40, 40]
        assert job.wrong_bytes(0, "target", 1) == job.wrong_bytes(1, "target", 1) == 0


def test_time_may_decide():
    lab = Lab()
    with lab.job((0, 2), memory=memory_of(1000, 1)) as job:
        job.start(WriteBwOrder(1000, duration_ns=20_000_000, depth=8))
        (reports,) = lab.run(job)
        assert 20_000_000 <= reports[0].elapsed_ns < 22_000_000
        assert reports[0].iterations > 100


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


def test_time_may_decide_how_many_answers_are_timed():
    lab = Lab()
    with lab.job((0, 2), memory=MEMORY) as job:
        job.start(WriteLatOrder(2, duration_ns=10_000_000, warmup=3))
        (reports,) = lab.run(job)
        assert 10_000_000 <= reports[0].elapsed_ns < 10_200_000
        assert reports[0].iterations > 50
