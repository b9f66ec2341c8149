"""A process that waits ends by a signal, in whichever step of its waiting the signal comes."""

import subprocess
import sys

from agent.io.ending import Ending

INTERRUPTED = """
import signal, sys
from agent.io.ending import Ending

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
