"""Registered memory: private memory returns to the kernel, shared memory is mapped, contents are compared."""

import os
import subprocess
import sys

import numpy as np
import pytest

from agent.host.memory import (
    Comparison,
    compare_with_stream,
    fill_complement,
    fill_stream,
    make_private,
    make_shared,
    map_shared,
)


@pytest.mark.parametrize("size", [1, 5000, (4 << 20) + 1])
def test_it_is_zeros_that_can_be_written(size):
    data = make_private(size)
    assert data.shape == (size,)
    assert not data.any()
    data[-1] = 7
    assert data[-1] == 7


PIECES = """
import sys
from pathlib import Path
from agent.host.memory import make_private

def resident_bytes():  # proc(5), statm: pages
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

size, count = map(int, sys.argv[1:])
before = resident_bytes()
for _ in range(2):
    pieces = [make_private(size) for _ in range(count)]
    for piece in pieces:
        piece[:] = 1
    held = resident_bytes() - before
    del pieces, piece
    print(held / (size * count), (resident_bytes() - before) / (size * count))
"""
"""In a process of its own: memory of earlier tests may go back at any time."""


@pytest.mark.parametrize(("size", "count"), [(64 << 20, 2), (8 << 20, 16), (256 << 10, 512)], ids=str)
def test_many_pieces_go_back_at_once_whatever_their_size(size, count):
    words = (sys.executable, "-c", PIECES, str(size), str(count))
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    shares = [tuple(map(float, line.split())) for line in done.stdout.splitlines()]
    assert len(shares) == 2
    assert all(held > 0.9 and left < 0.1 for held, left in shares), shares


OTHER = """
import sys
from agent.host.memory import map_shared
data = map_shared(*map(int, sys.argv[1:]))
assert data[:3].tolist() == [1, 2, 3]
data[-1] = 77
"""


def test_another_process_sees_and_writes_the_same_bytes():
    memory = make_shared(5000)
    memory.data[:3] = 1, 2, 3
    subprocess.run([sys.executable, "-c", OTHER, str(os.getpid()), str(memory.fd), "5000"], check=True)
    assert memory.data[-1] == 77
    memory.close()
    assert memory.data[0] == 1


def test_what_is_mapped_outlives_the_descriptor_and_no_file_has_a_name():
    memory = make_shared(100)
    seen = map_shared(os.getpid(), memory.fd, 100)
    assert os.readlink(f"/proc/self/fd/{memory.fd}").startswith("/memfd:spraylab-region")
    memory.close()
    seen[7] = 9
    assert memory.data[7] == 9
    with pytest.raises(OSError, match="No such file"):
        map_shared(os.getpid(), memory.fd, 100)


def test_a_number_that_means_something_else_by_now_is_refused():
    memory = make_shared(100)
    with pytest.raises(FileNotFoundError, match="not what it was said to be"):
        map_shared(os.getpid(), memory.fd, 101)
    memory.close()


@pytest.mark.parametrize("size", [1, 3, 8, 1000, (1 << 20) + 5])
def test_a_stream_is_that_of_its_generator_whatever_the_chunks(size):
    data = np.zeros(size, np.uint8)
    fill_stream(data, 42)
    assert data.tobytes() == np.random.Generator(np.random.PCG64(42)).bytes(size)
    assert compare_with_stream(data, 42) == Comparison(size, 0, None)


def test_no_byte_of_a_complement_is_right():
    data = np.zeros(3 << 20, np.uint8)
    fill_complement(data, 7)
    assert compare_with_stream(data, 7) == Comparison(len(data), len(data), 0)


def test_a_single_wrong_byte_is_found():
    data = np.zeros(3 << 20, np.uint8)
    fill_stream(data, 7)
    data[2_222_222] ^= 1
    data[3_000_000] ^= 0x80
    assert compare_with_stream(data, 7) == Comparison(len(data), 2, 2_222_222)


def test_another_seed_is_another_stream():
    data = np.zeros(4096, np.uint8)
    fill_stream(data, 1)
    assert compare_with_stream(data, 2).wrong > 4000
