"""Rows of collectives as nccl-tests' table, as a golden file; bus bandwidths by its formulas."""

from pathlib import Path

from results.records.collective_rows import HEADER, CollectiveRow, Times, end_lines, row_line
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
        busbw_bytes_per_s=rate * 1.5,
        wrong=wrong,
        checked=None if wrong is None else size,
        times=TIMES,
        cost=Cost(1000, 7, 1),
    )


def test_a_table_is_the_golden_one() -> None:
    rows = [row(1024, 1234.5, 0), row(1 << 20, 23456.7, None), row(1 << 30, 9_999_999.9, 12)]
    assert "\n".join([HEADER, *map(row_line, rows), end_lines(rows)]) + "\n" == GOLDEN.read_text()
