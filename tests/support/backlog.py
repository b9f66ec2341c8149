"""Packets that wait in the kernel: what was sent over a veth has arrived only once its core has handed it on.

On an idle machine that is before `send` returns; on a busy one a core leaves it to its ksoftirqd, which waits for its
turn as any thread does.
"""

import time
from pathlib import Path

SOFTNET = Path("/proc/net/softnet_stat")
BACKLOG = 11
"""Column of packets that wait at a core (net/core/net-procfs.c)."""


def until_delivered(within_s: float = 10.0) -> None:
    """Wait until every core has had nothing left to hand on; others may send meanwhile."""
    until, busy = time.monotonic() + within_s, set(range(len(waiting())))
    while busy and time.monotonic() < until:
        busy = {core for core, packets in enumerate(waiting()) if packets and core in busy}
        if busy:
            time.sleep(0.0005)


def waiting() -> list[int]:
    """Packets that wait at each core."""
    return [int(line.split()[BACKLOG], 16) for line in SOFTNET.read_text().splitlines()]
