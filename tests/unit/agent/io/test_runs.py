"""Runs of a ring's rows: cut once for each length, views of whatever the ring holds."""

import numpy as np

from agent.io.runs import RowRuns


def ring_of(rows: int, stride: int, lead: int) -> tuple[np.ndarray, RowRuns]:
    memory = np.arange(rows * stride, dtype=np.int64).astype(np.uint8)
    return memory.reshape(rows, stride), RowRuns(memoryview(memory), stride, lead, rows)


def test_runs_are_the_rows_columns():
    rows, runs = ring_of(6, 50, lead=8)
    cut = runs.of(2, 5, start=3, end=20)
    assert [bytes(run) for run in cut] == [row[11:28].tobytes() for row in rows[2:5]]


def test_runs_show_what_was_written_since():
    rows, runs = ring_of(4, 30, lead=0)
    before = runs.of(0, 4, 0, 10)
    rows[1, :10] = 77
    assert bytes(before[1]) == bytes([77] * 10)
    assert runs.of(1, 2, 0, 10)[0] is before[1]


def test_of_many_lengths_the_oldest_is_cut_again():
    _, runs = ring_of(3, 40, lead=0)
    first = runs.of(0, 3, 0, 1)
    for end in range(2, 10):
        runs.of(0, 3, 0, end)
    again = runs.of(0, 3, 0, 1)
    assert again[0] is not first[0]
    assert [bytes(run) for run in again] == [bytes(run) for run in first]
