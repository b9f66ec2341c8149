"""Rows of performance tests as perftest's and nccl-tests' tables, as golden files."""

from pathlib import Path

import msgspec
import pytest

from results.records.perf_rows import (
    HEADER,
    BandwidthRow,
    CollectiveRow,
    Cost,
    LatencyRow,
    Times,
    WriteRow,
    cost_line,
    end_lines,
    row_line,
    write_header,
    write_line,
)

GOLDEN = Path(__file__).parents[2] / "golden/perf"
HOSTS = ("h0", "h3")


def bandwidth(size: int, iterations: int, seconds: float, peak: float | None) -> BandwidthRow:
    rate = iterations / seconds
    cost = Cost(iterations * -(-size // 4096), 3, 0)
    return BandwidthRow(HOSTS, size, iterations, 2, False, peak, rate * size, rate, seconds, 0, cost)


def latency(size: int, typical_us: float) -> LatencyRow:
    times = [typical_us * share for share in (0.9, 12.5, 1.0, 1.1, 0.25, 1.6, 12.5)]
    return LatencyRow(HOSTS, size, 1000, "answer", *times, Cost(2204, 0, 0))


TABLES: dict[str, list[WriteRow]] = {
    "write-bw": [
        bandwidth(2, 10_000, 0.31, 123_456.7),
        bandwidth(65536, 5000, 1.25, None),
        bandwidth(8388608, 64, 2.0, 2.9e8),
    ],
    "write-lat": [latency(2, 161.2345), latency(8388608, 65_432.1)],
}


@pytest.mark.parametrize("test", TABLES)
def test_a_table_is_the_golden_one(test: str) -> None:
    rows = TABLES[test]
    text = "\n".join([write_header(test), *map(write_line, rows), cost_line(rows)]) + "\n"
    assert text == (GOLDEN / f"{test}.txt").read_text()


def test_a_row_says_which_test_it_is_from() -> None:
    told = msgspec.json.decode(msgspec.json.encode(latency(2, 150.0)))
    assert (told["test"], told["hosts"], told["bytes"], told["typical_us"]) == ("write-lat", ["h0", "h3"], 2, 150.0)


TIMES = Times(1.0, 2.0, 2.5, 9.0, 9.5)


def row(size: int, time_us: float, wrong: int | None) -> CollectiveRow:
    rate = size / time_us * 1e6
    return CollectiveRow(
        test="all-reduce",
        group=None,
        hosts=(("h0", "h1", "h2", "h3"),),
        qps=1,
        size_bytes=size,
        count=size // 4,
        type="float",
        redop="sum",
        root=-1,
        iterations=20,
        time_us=time_us,
        algbw_bytes_per_s=rate,
        busbw_bytes_per_s=rate * 1.5,
        wrong=wrong,
        checked=None if wrong is None else size,
        times=TIMES,
        cost=Cost(1000, 7, 1),
    )


def test_a_table_of_collectives_is_the_golden_one() -> None:
    rows = [row(1024, 1234.5, 0), row(1 << 20, 23456.7, None), row(1 << 30, 9_999_999.9, 12)]
    assert "\n".join([HEADER, *map(row_line, rows), end_lines(rows)]) + "\n" == (GOLDEN / "all-reduce.txt").read_text()
