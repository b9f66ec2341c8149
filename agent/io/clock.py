"""The one monotonic clock of the agent; everything below it is told the time."""

import time

monotonic_ns = time.monotonic_ns
"""Nanoseconds since an arbitrary start, never going back (CLOCK_MONOTONIC)."""
