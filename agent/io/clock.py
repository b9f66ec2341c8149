"""The one monotonic clock of the agent; callers pass its time to everything below."""

import time

monotonic_ns = time.monotonic_ns
"""Nanoseconds since an arbitrary start, never going back (CLOCK_MONOTONIC)."""
