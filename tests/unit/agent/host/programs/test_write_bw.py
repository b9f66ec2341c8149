"""Bandwidth of writes between two hosts in memory: what arrives, what is counted, what is known before."""

import pytest

from agent.host.programs.requests import WriteBwOrder
from agent.host.programs.write_bw import buffer_bytes
from agent.io.memory import PathRule
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
