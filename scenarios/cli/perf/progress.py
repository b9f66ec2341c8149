"""Shows the progress of a test of writes on stderr: nothing for a short one, an occasional line for a long one."""

import time

from results.summary import size_text
from scenarios.cli.output import Output
from scenarios.workload.perf_writes import WriteTest

EVERY_S = 2.0
"""Least time between lines, as for progress of runs."""


class Progress:
    """Progress of one test, row by row."""

    def __init__(self, output: Output, test: WriteTest) -> None:
        self._output = output
        self._test = test
        self._size = 0
        self._first = (0.0, 0)
        """Time when the row was first read, and the bytes that were acknowledged by then."""
        self._last_s = 0.0

    def moved_to(self, size: int, acked_bytes: int) -> None:
        """Report the acknowledged share of the row of `size`, and the estimated time left at the rate so far."""
        now_s = time.monotonic()
        if size != self._size:
            self._size, self._first, self._last_s = size, (now_s, acked_bytes), now_s
        volume = self._test.volume_of(size)
        if volume is None or now_s - self._last_s < EVERY_S:
            return
        self._last_s = now_s
        first_s, first_bytes = self._first
        left = ""
        if acked_bytes > first_bytes:
            rest_s = (volume - acked_bytes) * (now_s - first_s) / (acked_bytes - first_bytes)
            left = f", about {_time_text(max(0.0, rest_s))} left"
        share = min(1.0, acked_bytes / volume)
        self._output.say(f"{self._test.test} of {size_text(size)}: {share:.0%} of {size_text(volume)}{left}")


def _time_text(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:,.0f} h"
