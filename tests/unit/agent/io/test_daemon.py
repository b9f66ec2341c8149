"""A process ends by a signal whenever it comes, and accepts clients once its socket exists."""

import os
import socket
import subprocess
import sys

import pytest

from agent.io.daemon import Ending, listen_at

INTERRUPTED = """
import signal, sys
from agent.io.daemon import Ending

class Interrupting:
    def __init__(self, at):
        self.left = at

    def __call__(self, frame, event, argument):
        if event == "line":
            self.left -= 1
            if self.left == 0:
                signal.raise_signal(signal.SIGTERM)
        return self

for at in range(1, 200):
    with Ending() as ending:
        ending.on_signals()
        trace = Interrupting(at)
        sys.settrace(trace)
        ending.wait(0)
        sys.settrace(None)
        if trace.left > 0:
            break
        assert ending.wait(60)
print(at - 1)
"""


def test_a_signal_at_any_line_of_waiting_ends_it():
    command = (sys.executable, "-c", INTERRUPTED)
    steps = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert int(steps) >= 2


def test_it_is_readable_once_set_and_may_be_set_often():
    with Ending() as ending:
        assert (ending.wait(0), ending.is_set()) == (False, False)
        for _ in range(10_000):
            ending.set()
        assert (ending.wait(60), ending.is_set()) == (True, True)
    ending.set()


def test_the_file_is_there_only_once_one_can_connect(tmp_path):
    path, there = tmp_path / "x.sock", []

    class Watched(socket.socket):
        def bind(self, address):
            super().bind(address)
            there.append(path.exists())

        def listen(self, *waiting):
            there.append(path.exists())
            super().listen(*waiting)

    with Watched(socket.AF_UNIX, socket.SOCK_STREAM) as listener, socket.socket(socket.AF_UNIX) as client:
        listen_at(path, listener, 1)
        client.connect(os.fspath(path))
    assert there == [False, False]
    assert [each.name for each in tmp_path.iterdir()] == ["x.sock"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_nothing_stays_where_it_fails(tmp_path):
    (tmp_path / "x.sock").mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener, pytest.raises(OSError, match="directory"):
        listen_at(tmp_path / "x.sock", listener, 1)
    assert [each.name for each in tmp_path.iterdir()] == ["x.sock"]
