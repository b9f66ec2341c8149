"""A process that lives and was told to stop, as by `kill -STOP`."""

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

from scenarios.lab.processes import ProcessId, identify, is_stopped


@contextmanager
def stopped_process() -> Iterator[ProcessId]:
    """Stopped from the beginning of the body; gone after it."""
    with subprocess.Popen(("sleep", "60")) as child:
        try:
            child.send_signal(signal.SIGSTOP)
            found = identify(child.pid)
            assert found is not None
            while not is_stopped(found):
                time.sleep(0.001)
            yield found
        finally:
            child.kill()
