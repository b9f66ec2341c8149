import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agent.core.ring import read_run, ring_size, write_run


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
