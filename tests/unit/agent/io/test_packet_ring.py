"""The layout of rings, and runs of their rows; tests/kernel/test_packet_ring.py tests the rings on a kernel."""

import numpy as np
import pytest

from agent.io.packet_ring import RingGeometry, RowRuns


@pytest.mark.parametrize("frame_bytes", [60, 166, 400, 1500, 4242, 9018])
def test_ring_geometry_has_no_gap(frame_bytes):
    geometry = RingGeometry.holding(2048, frame_bytes, 66)
    assert geometry.slot_bytes >= frame_bytes + 66
    assert geometry.slots >= 2048
    assert geometry.block_bytes % geometry.slot_bytes == 0
    assert geometry.block_bytes % 4096 == 0
    assert geometry.total_bytes % geometry.block_bytes == 0


def test_ring_geometry_wastes_little():
    geometry = RingGeometry.holding(1024, 4242, 66)
    assert geometry.slot_bytes == 4352
    assert geometry.block_bytes <= 1 << 21
    assert geometry.slots < 1024 * 1.5


ROWS = 6


def ring_of(stride: int, lead: int) -> tuple[np.ndarray, RowRuns]:
    memory = np.arange(ROWS * stride, dtype=np.int64).astype(np.uint8)
    return memory.reshape(ROWS, stride), RowRuns(memoryview(memory), stride, lead, ROWS)


def test_runs_are_the_rows_columns_before_and_after_they_are_kept():
    rows, runs = ring_of(50, lead=8)
    for first, stop in ((2, 5), (0, 6), (5, 6), (1, 3)):
        cut = runs.of(first, stop, start=3, end=20)
        assert [bytes(run) for run in cut] == [row[11:28].tobytes() for row in rows[first:stop]]


def test_runs_show_what_was_written_since():
    rows, runs = ring_of(30, lead=0)
    before = runs.of(0, ROWS, 0, 10)
    rows[1, :10] = 77
    assert bytes(before[1]) == bytes([77] * 10)


def test_runs_are_kept_after_as_many_were_asked_for_as_there_are_rows():
    _, runs = ring_of(40, lead=0)
    assert runs.of(0, 3, 0, 9)[0] is not runs.of(0, 2, 0, 9)[0]
    kept = runs.of(0, 1, 0, 9)
    assert runs.of(0, 4, 0, 9)[0] is kept[0]


def test_of_many_lengths_the_oldest_is_cut_again():
    _, runs = ring_of(40, lead=0)
    first = runs.of(0, ROWS, 0, 1)
    for end in range(2, 10):
        runs.of(0, ROWS, 0, end)
    again = runs.of(0, ROWS, 0, 1)
    assert again[0] is not first[0]
    assert [bytes(run) for run in again] == [bytes(run) for run in first]
