"""Collectives between four hosts in memory: sums are right, loss costs only time, what is wrong is counted."""

import numpy as np
import pytest

from agent.host.control.program_requests import CollectiveOrder
from agent.host.programs.patterns import Pattern, elements_of, pairs_of
from agent.io.memory_fabric import PathRule
from tests.unit.agent.host.programs.job_in_memory import Lab

HOSTS = (2, 0, 3, 1)


def memory_of(pattern: Pattern, ranks: int, count: int) -> dict[str, int]:
    return {name: 4 * size for name, size in elements_of(pattern, ranks, count).items()}


def run(lab: Lab, pattern: Pattern, hosts: tuple[int, ...], count: int, *, qps: int = 1, **order) -> list:
    pairs, memory = pairs_of(pattern, len(hosts)), memory_of(pattern, len(hosts), count)
    with lab.job(hosts, pairs, qps=qps, memory=memory) as job:
        job.start(CollectiveOrder(pattern, count, **{"iterations": 3, "warmup": 1, **order}))
        (reports,) = lab.run(job)
        reports = list(reports)
        sent = {(qp["host"], qp["qpn"]): qp["packets_tx"] for qp in lab.ask_progress()}
    return [reports, sent]


@pytest.mark.parametrize("qps", [1, 3])
@pytest.mark.parametrize("count", [1, 10_007])
@pytest.mark.parametrize("pattern", Pattern)
def test_everything_is_right(pattern: Pattern, count: int, qps: int) -> None:
    reports, _ = run(Lab(), pattern, HOSTS, count, qps=qps)
    assert [report.wrong for report in reports] == [0] * 4
    receivers = 1 if pattern is Pattern.INCAST else 4
    whole = count if pattern in (Pattern.ALL_REDUCE, Pattern.SENDRECV) else count // 4 * 4
    assert sum(report.checked for report in reports) == receivers * whole
    assert all(report.iterations == 3 and report.spread.min <= report.spread.max for report in reports)


@pytest.mark.parametrize("pattern", Pattern)
def test_loss_costs_only_time(pattern: Pattern) -> None:
    quiet, _ = run(Lab(), pattern, HOSTS, 20_000, qps=2)
    lossy, _ = run(Lab(PathRule(loss=0.05)), pattern, HOSTS, 20_000, qps=2)
    assert [report.wrong for report in lossy] == [0] * 4
    assert lossy[0].elapsed_ns > quiet[0].elapsed_ns


@pytest.mark.parametrize("ranks", [2, 3])
def test_a_ring_of_few_is_a_ring(ranks: int) -> None:
    reports, _ = run(Lab(), Pattern.ALL_REDUCE, HOSTS[:ranks], 5_000, qps=2)
    assert [report.wrong for report in reports] == [0] * ranks


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("pattern", Pattern)
def test_packets_and_bytes_are_known_beforehand(pattern: Pattern, check: bool) -> None:
    lab = Lab()
    pairs, memory = pairs_of(pattern, 4), memory_of(pattern, 4, 10_007)
    with lab.job(HOSTS, pairs, qps=2, memory=memory) as job:
        told = job.start(CollectiveOrder(pattern, 10_007, iterations=2, warmup=1, check=check))
        first = totals_of(lab)
        lab.run(job)
        progress = lab.ask_progress()
        job.start(CollectiveOrder(pattern, 10_007, iterations=1))
        second = totals_of(lab)
        lab.run(job)
        ended = {qp["qpn"]: qp["posted_bytes"] for qp in lab.ask_progress()}
    sent = {qp["qpn"]: qp["packets_tx"] for qp in progress if qp["packets_tx"]}
    assert sent == told.packets
    assert first == {qp["qpn"]: qp["posted_bytes"] for qp in progress}
    assert second == ended
    barriers = 5 if check else 3
    carry_none = {qp["qpn"] for qp in progress if qp["posted_bytes"] == barriers}
    assert {qp["qpn"] for qp in progress if qp["only_barriers"]} == carry_none
    assert bool(carry_none) == (pattern is not Pattern.ALL_TO_ALL)
    assert not told.announced


def totals_of(lab: Lab) -> dict[int, int]:
    return {qp["qpn"]: qp["total_bytes"] for qp in lab.ask_progress()}


def test_a_number_that_was_changed_is_wrong() -> None:
    lab = Lab()
    with lab.job(HOSTS, pairs_of(Pattern.ALL_REDUCE, 4), memory=memory_of(Pattern.ALL_REDUCE, 4, 4_000)) as job:
        job.start(CollectiveOrder(Pattern.ALL_REDUCE, 4_000, iterations=1))
        while job.reports() is None:
            lab.turn()
            change_a_number(lab)
        assert [report.wrong for report in job.reports()] == [1] * 4


def change_a_number(lab: Lab) -> None:
    for seat in lab.worker.commands.programs.seats.values():
        seat.rank.floats("send")[123] = np.float32(7.5)


def test_a_queue_pair_that_fails_ends_the_program() -> None:
    lab = Lab()
    with lab.job(HOSTS, pairs_of(Pattern.SENDRECV, 4), memory=memory_of(Pattern.SENDRECV, 4, 10_000)) as job:
        job.start(CollectiveOrder(Pattern.SENDRECV, 10_000, iterations=1000))
        for _ in range(50):
            lab.turn()
        channels = lab.worker.commands.engine.hosts[0].channels.values()
        next(iter(channels)).qp.fail(lab.worker.fabric.now_ns)
        for _ in range(50):
            lab.turn()
        with pytest.raises(Exception, match=r"failed|flushed"):
            job.reports()
