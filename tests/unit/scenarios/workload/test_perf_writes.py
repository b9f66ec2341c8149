"""Tests of writes on a worker in memory: how many messages, what a row says, what is left behind."""

from contextlib import ExitStack

import pytest

from results.records.perf_rows import BandwidthRow, LatencyRow
from scenarios.workload.perf_writes import SIZES, VOLUME_BYTES, WriteTest, write_rows
from tests.support.queue_pairs import qp_settings
from tests.unit.agent.host.programs.job_in_memory import Lab

CONFIG = qp_settings(pmtu=256, window_pkts=128, ack_timeout_ns=5_000_000)


def order(test: str, *sizes: int, iterations: int | None = None, duration_s: float | None = None, **more) -> WriteTest:
    return WriteTest(test, (0, 3), sizes, iterations, duration_s, more.pop("qps", 1), CONFIG, **more)


def rows_of(test: WriteTest) -> list:
    lab = Lab()

    def idle() -> None:
        for _ in range(200):
            lab.turn()

    with ExitStack() as undo:
        rows = list(write_rows([lab], test, undo, idle))
        assert not lab.worker.commands.programs.seats
        assert all(not host.channels for host in lab.worker.commands.engine.hosts.values())
    return rows


@pytest.mark.parametrize("both", [False, True], ids=["one way", "both ways"])
def test_bandwidth_is_bytes_by_time(both: bool) -> None:
    small, large = rows_of(order("write-bw", 512, 300_000, iterations=5, both=both, qps=2))
    assert isinstance(large, BandwidthRow)
    ways = 2 if both else 1
    assert (small.iterations, large.iterations) == (10 * ways, 10 * ways)
    assert large.average_bytes_per_s == pytest.approx(large.messages_per_s * 300_000)
    assert large.average_bytes_per_s * large.seconds == pytest.approx(10 * ways * 300_000, rel=0.2)
    assert large.peak_bytes_per_s >= large.average_bytes_per_s
    assert (small.wrong, large.wrong) == (None, 0), "the small messages do not fill their memory"
    assert large.cost.packets >= 10 * ways * -(-300_000 // 256)
    assert large.hosts == ("h0", "h3")


def test_latency_has_the_order_of_its_percentiles() -> None:
    (row,) = rows_of(order("write-lat", 2, iterations=100, warmup=10))
    assert isinstance(row, LatencyRow)
    assert (row.iterations, row.bytes) == (100, 2)
    assert 20 <= row.min_us <= row.typical_us <= row.p99_us <= row.p999_us <= row.max_us < 100


def test_the_number_of_messages_is_perftests_unless_the_volume_is_too_much() -> None:
    every = order("write-bw", *SIZES)
    assert [every.iterations_of(size) for size in (2, 65536, 8388608)] == [5000, 4096, 32]
    assert all(every.iterations_of(size) * size <= VOLUME_BYTES for size in SIZES)
    assert order("write-bw", 65536).iterations_of(65536) == 5000
    assert order("write-lat", 2).iterations_of(2) == 1000
    assert order("write-bw", *SIZES, iterations=7).iterations_of(8388608) == 7
    assert order("write-bw", 2, duration_s=1.0).iterations_of(2) is None
