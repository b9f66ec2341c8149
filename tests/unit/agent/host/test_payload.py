"""Streams, complements and the comparison that decides whether data is right."""

import numpy as np
import pytest

from agent.host.memory.payload import Verdict, compare, fill_complement, fill_stream


@pytest.mark.parametrize("size", [1, 3, 8, 1000, (1 << 20) + 5])
def test_a_stream_is_that_of_its_generator_whatever_the_chunks(size):
    data = np.zeros(size, np.uint8)
    fill_stream(data, 42)
    assert data.tobytes() == np.random.Generator(np.random.PCG64(42)).bytes(size)
    assert compare(data, 42) == Verdict(size, 0, None)


def test_no_byte_of_a_complement_is_right():
    data = np.zeros(3 << 20, np.uint8)
    fill_complement(data, 7)
    assert compare(data, 7) == Verdict(len(data), len(data), 0)


def test_a_single_wrong_byte_is_found():
    data = np.zeros(3 << 20, np.uint8)
    fill_stream(data, 7)
    data[2_222_222] ^= 1
    data[3_000_000] ^= 0x80
    assert compare(data, 7) == Verdict(len(data), 2, 2_222_222)


def test_another_seed_is_another_stream():
    data = np.zeros(4096, np.uint8)
    fill_stream(data, 1)
    assert compare(data, 2).wrong > 4000
