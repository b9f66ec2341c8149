"""Columns: rows taken together, shared memory left alone."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.wire.array.columns import even_views, gather_rows, rows_at, scatter_rows, windows
from tests.unit.agent.wire.wire_frames import SOURCE_MEMORY, write_batch

NAMES = ("psn", "opcode", "flags", "ev_index", "msn", "rqmsn", "va", "rkey", "dmalen", "imm", "source_offset")


def batch_of(count: int):
    return write_batch([dict.fromkeys((*NAMES, "payload_bytes"), i) for i in range(count)], SOURCE_MEMORY)


@pytest.mark.parametrize("rows", [np.array([3, 1]), slice(1, 3), np.array([False, True, False, True])])
def test_take_selects_every_row_column(rows):
    batch = batch_of(4)
    taken = batch.take(rows)
    expected = np.arange(4)[rows]
    assert all((getattr(taken, name) == expected).all() for name in NAMES)
    assert len(taken) == 2


@pytest.mark.parametrize("source_bytes", [4, 64])
def test_take_shares_memory_whatever_its_length(source_bytes):
    """Four rows, and a source of four bytes: its length must not make it a row column."""
    batch = replace(batch_of(4), source=SOURCE_MEMORY[:source_bytes])
    taken = batch.take(np.array([0]))
    assert taken.source is batch.source
    assert taken.tx_timestamp == batch.tx_timestamp


def test_windows_gather_and_scatter():
    memory = np.arange(10, dtype=np.uint8)
    assert windows(memory, 3)[[0, 7]].tolist() == [[0, 1, 2], [7, 8, 9]]
    windows(memory, 2)[[1, 5]] = 0
    assert memory.tolist() == [0, 0, 0, 3, 4, 0, 0, 7, 8, 9]


@pytest.mark.parametrize(
    "offsets", [[0, 700, 1400], [5, 605, 1205], [0, 600, 1300], [900, 300], [3], [0, 0], []], ids=str
)
@pytest.mark.parametrize("width", [0, 10, 600])
def test_rows_at_reads_any_places(offsets, width):
    memory = np.arange(2100, dtype=np.int64).astype(np.uint8)
    rows = rows_at(memory, np.array(offsets, np.int64), width)
    assert [row.tobytes() for row in rows] == [memory[start : start + width].tobytes() for start in offsets]


def test_evenly_spaced_rows_are_a_view():
    memory = np.zeros(5000, np.uint8)
    rows = rows_at(memory, np.array([100, 1100, 2100]), 600)
    rows[:] = 7
    assert memory.sum() == 3 * 600 * 7
    rows_at(memory, np.array([100, 1100, 2101]), 600)[:] = 9
    assert memory.sum() == 3 * 600 * 7


STRETCHES = st.lists(st.tuples(st.integers(1, 5), st.sampled_from([600, 700, 1200])), min_size=1, max_size=12)


@given(STRETCHES, st.sampled_from([5, 600]))
def test_rows_in_stretches_are_copied_like_single_ones(stretches, width):
    """Packets of a message in one plane: evenly spaced, now and then a step of another length."""
    steps = np.concatenate([np.full(count, step) for count, step in stretches])
    offsets = np.cumsum(steps) - 600
    source = np.random.default_rng(1).integers(0, 256, int(offsets[-1]) + width, dtype=np.uint8)
    rows = np.zeros((len(offsets), width), np.uint8)
    gather_rows(source, offsets, rows)
    assert [row.tobytes() for row in rows] == [source[o : o + width].tobytes() for o in offsets.tolist()]
    target = np.zeros_like(source)
    scatter_rows(rows, target, offsets)
    written = np.zeros(len(source), np.bool_)
    for offset in offsets.tolist():
        written[offset : offset + width] = True
    assert (target == np.where(written, source, 0)).all()


def test_many_stretches_are_no_views():
    even, odd = np.arange(20) * 1000, np.arange(20) ** 2 * 1000
    memory = np.zeros(400_000, np.uint8)
    assert [len(view) for _, view in even_views(memory, even, 600)] == [20]
    assert even_views(memory, odd, 600) is None
    assert even_views(memory, even, 60) is None
    assert even_views(memory, even[::-1], 600) is None
