"""Rows of collectives as nccl-tests' table, as a golden file; bus bandwidths by its formulas."""

from pathlib import Path

import pytest

from results.records.collective_rows import HEADER, CollectiveRow, Times, bus_factor, end_lines, row_line
from results.records.perf_rows import Cost

GOLDEN = Path(__file__).parents[2] / "golden/perf/all-reduce.txt"
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
        busbw_bytes_per_s=rate * bus_factor("all-reduce", 4),
        wrong=wrong,
        checked=None if wrong is None else size,
        times=TIMES,
        cost=Cost(1000, 7, 1),
    )


def test_a_table_is_the_golden_one() -> None:
    rows = [row(1024, 1234.5, 0), row(1 << 20, 23456.7, None), row(1 << 30, 9_999_999.9, 12)]
    assert "\n".join([HEADER, *map(row_line, rows), end_lines(rows)]) + "\n" == GOLDEN.read_text()


@pytest.mark.parametrize(
    ("pattern", "ranks", "factor"),
    [
        ("all-reduce", 2, 1.0),
        ("all-reduce", 8, 1.75),
        ("all-to-all", 4, 0.75),
        ("sendrecv", 9, 1.0),
        ("incast", 5, 0.8),
    ],
)
def test_bus_bandwidth_has_nccl_tests_factors(pattern: str, ranks: int, factor: float) -> None:
    assert bus_factor(pattern, ranks) == pytest.approx(factor)
