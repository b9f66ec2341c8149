import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agent.core.psn import HALF_SPACE, offset_of, offsets_of, psn_of, psns_of, read_run, ring_size, write_run

PSN = st.integers(0, (1 << 24) - 1)
OFFSET = st.integers(0, 1 << 40)


@given(PSN, OFFSET, st.lists(st.integers(-HALF_SPACE, HALF_SPACE - 1), min_size=1, max_size=50))
def test_offsets_within_half_a_space_of_the_reference_survive_the_wire(start, reference, distances):
    offsets = np.array(distances, np.int64) + reference
    assert np.array_equal(offsets_of(psns_of(offsets, start), start, reference), offsets)


@given(PSN, OFFSET)
def test_scalar_and_vector_agree(start, offset):
    assert psns_of(np.array([offset]), start).tolist() == [psn_of(offset, start)]


@given(PSN, PSN, OFFSET)
def test_scalar_and_vector_agree_on_the_way_back(psn, start, reference):
    assert offsets_of(np.array([psn], np.uint32), start, reference).tolist() == [offset_of(psn, start, reference)]


def test_half_a_space_ahead_counts_as_behind():
    psns = np.array([HALF_SPACE - 1, HALF_SPACE], np.uint32)
    assert offsets_of(psns, 0, 0).tolist() == [HALF_SPACE - 1, -HALF_SPACE]


def test_offsets_go_on_where_the_wire_wraps():
    start = (1 << 24) - 2
    assert psns_of(np.arange(4), start).tolist() == [start, start + 1, 0, 1]
    assert offsets_of(np.array([0, 1], np.uint32), start, 0).tolist() == [2, 3]


@given(st.integers(0, 10**9), st.integers(0, 64))
def test_a_run_is_read_and_written_across_the_end(start, count):
    ring = np.zeros(64, np.int64)
    values = np.arange(count) + 1
    write_run(ring, start, start + count, values)
    assert np.array_equal(ring[(np.arange(count) + start) % 64], values)
    assert np.array_equal(read_run(ring, start, start + count), values)
    assert np.count_nonzero(ring) == count
    write_run(ring, start, start + count, 0)
    assert not ring.any()


def test_sizes_are_powers_of_two_that_hold_the_window():
    assert [ring_size(w) for w in (1, 64, 65, 128, 2048, 2049)] == [64, 64, 128, 128, 2048, 4096]
