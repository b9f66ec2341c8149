"""Memory shared with another process: the same bytes, no file, gone when nobody has it."""

import os
import subprocess
import sys

import pytest

from agent.host.memory.shared import make_shared, map_shared

OTHER = """
import sys
from agent.host.memory.shared import map_shared
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
