"""Rows of write tests as perftest's tables, as golden files."""

from pathlib import Path

import msgspec
import pytest

from results.records.perf_rows import BandwidthRow, Cost, LatencyRow, WriteRow, cost_line, write_header, write_line

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
