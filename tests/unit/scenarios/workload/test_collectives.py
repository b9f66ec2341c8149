"""Tests of collectives on a worker in memory: what a row says, and what is left behind."""

from contextlib import ExitStack

import pytest

from agent.host.programs.patterns import Pattern
from agent.io.memory_fabric import PathRule
from scenarios.file.collective_plan import Group
from scenarios.workload.collectives import CollectiveTest, collective_rows, queue_pairs_to_a_host
from tests.support.queue_pairs import qp_settings
from tests.unit.agent.host.programs.job_in_memory import Lab

CONFIG = qp_settings(pmtu=256, window_pkts=64, ack_timeout_ns=5_000_000)


def rows_of(pattern: Pattern, groups: tuple[tuple[int, ...], ...], *rules: PathRule, **more) -> list:
    lab = Lab(*rules)

    def idle() -> None:
        for _ in range(200):
            lab.turn()

    test = CollectiveTest(pattern, groups, (1000, 20_000), 3, 1, True, qps=2, config=CONFIG, **more)
    with ExitStack() as undo:
        rows = list(collective_rows([lab], test, undo, idle))
    assert not lab.worker.commands.programs.seats
    assert all(not host.channels for host in lab.worker.commands.engine.hosts.values())
    return rows


@pytest.mark.parametrize(
    ("pattern", "count", "bus"),
    [
        (Pattern.ALL_REDUCE, 5000, 1.5),
        (Pattern.ALL_TO_ALL, 1250, 0.75),
        (Pattern.SENDRECV, 5000, 1.0),
        (Pattern.INCAST, 1250, 0.75),
    ],
)
def test_a_row_says_what_nccl_tests_would(pattern: Pattern, count: int, bus: float) -> None:
    _, row = rows_of(pattern, ((3, 1, 0, 2),), PathRule(loss=0.01))
    assert (row.test, row.size_bytes, row.count, row.wrong, row.iterations) == (pattern.value, 20_000, count, 0, 3)
    assert row.hosts == (("h3", "h1", "h0", "h2"),)
    assert row.algbw_bytes_per_s == pytest.approx(20_000 / row.time_us * 1e6)
    assert row.busbw_bytes_per_s == pytest.approx(row.algbw_bytes_per_s * bus)
    assert 0 < row.times.min_us <= row.times.median_us <= row.times.max_us
    assert row.checked == (5000 if pattern is Pattern.INCAST else 20_000)
    assert (row.root, row.redop) == (0 if pattern is Pattern.INCAST else -1, "sum" if bus == 1.5 else "none")


def test_groups_go_at_the_same_time() -> None:
    _, row = rows_of(Pattern.ALL_REDUCE, ((0, 1), (2, 3)), group=Group.TP)
    assert (row.group, row.hosts, row.wrong, row.checked) == ("tp", (("h0", "h1"), ("h2", "h3")), 0, 4 * 5000)


@pytest.mark.parametrize(
    ("pattern", "ranks", "queue_pairs"),
    [(Pattern.ALL_TO_ALL, 8, 14), (Pattern.INCAST, 8, 14), (Pattern.SENDRECV, 8, 14), (Pattern.ALL_REDUCE, 2, 2)],
)
def test_windows_count_all_queue_pairs_of_the_busiest_host(pattern: Pattern, ranks: int, queue_pairs: int) -> None:
    assert queue_pairs_to_a_host(pattern, ranks, 2) == queue_pairs, "rank 0 has one to everybody, for barriers"
