"""Turns the crank of the hosts one process drives: take in, serve timers, send out, report.

Never waits and never reads a clock.
"""

from collections.abc import Iterator, Sequence

from agent.io.runtime import HostRuntime, QpEvent


class Engine:
    """The hosts of one process."""

    def __init__(self, hosts: Sequence[HostRuntime]) -> None:
        self.hosts = {runtime.host: runtime for runtime in hosts}

    def step(self, now_ns: int) -> int:
        """Move everything once; frames moved, 0 when there was nothing to do."""
        hosts = self.hosts.values()
        received = sum(runtime.receive(now_ns) for runtime in hosts)
        return received + sum(runtime.transmit(now_ns) for runtime in hosts)

    def next_deadline_ns(self) -> int | None:
        """When a timer is due next; None when none runs."""
        due = [runtime.next_deadline_ns() for runtime in self.hosts.values()]
        return min((value for value in due if value is not None), default=None)

    def drain_events(self) -> Iterator[QpEvent]:
        """What the queue pairs reported since last asked."""
        for runtime in self.hosts.values():
            yield from runtime.drain_events()
