"""Turns the crank of the hosts one process drives: take in, serve timers, send out, report.

Never waits and never reads a clock.
"""

from collections.abc import Iterator, Sequence

from agent.io.runtime import HostRuntime, QpEvent

TURN_FRAMES = 1024
"""Data frames sent in one turn, whoever sends them. Forwarding happens inside send(), about 5 us a frame: this bounds
how late an arrival or a timer is served, at about 6 ms however many hosts there are. Not fewer, because a turn has a
price of its own, whatever it moves. Our choice, measured."""


class Engine:
    """The hosts of one process."""

    def __init__(self, hosts: Sequence[HostRuntime]) -> None:
        self.hosts = {runtime.host: runtime for runtime in hosts}
        self._turn = 0

    def step(self, now_ns: int) -> int:
        """Take in what waits, answer it, send on; frames moved, 0 when there was nothing to do."""
        return self.receive(now_ns) + self.send(now_ns)

    def receive(self, now_ns: int) -> int:
        """Take in what waits; frames taken. To be followed by `send`, which answers it."""
        taken = 0
        for runtime in self.hosts.values():
            taken += runtime.receive(now_ns)
        return taken

    def send(self, now_ns: int) -> int:
        """Answer what has arrived, serve timers, send on; frames sent."""
        sent = 0
        for runtime in self.hosts.values():
            sent += runtime.serve(now_ns)
        return sent + self._transmit(now_ns)

    def next_deadline_ns(self) -> int | None:
        """When a timer is due next; None when none runs."""
        due = [runtime.next_deadline_ns() for runtime in self.hosts.values()]
        return min((value for value in due if value is not None), default=None)

    def drain_events(self) -> Iterator[QpEvent]:
        """What the queue pairs reported since last asked."""
        for runtime in self.hosts.values():
            yield from runtime.drain_events()

    def _transmit(self, now_ns: int) -> int:
        """A batch of each queue pair in turn that has some to send, until the turn is full or all are dry.

        The next step goes on with the one after the last.
        """
        waiting = [
            (runtime, channel)
            for runtime in self.hosts.values()
            for channel in runtime.channels.values()
            if channel.qp.has_backlog
        ]
        limit = batch_limit(len(waiting))
        sent, dry = 0, 0
        while sent < TURN_FRAMES and dry < len(waiting):
            runtime, channel = waiting[self._turn % len(waiting)]
            self._turn += 1
            batch = runtime.transmit(channel, limit, now_ns)
            sent += batch
            dry = 0 if batch == limit else dry + 1  # one that sent less has no more to send, or no room
        return sent


def batch_limit(senders: int) -> int:
    """Data frames a queue pair may send at a time when so many have some: a turn if it is alone, else half of one.

    A batch has a price of its own; quarters cost 4 % of the goodput (measured: make bench).
    """
    return TURN_FRAMES if senders < 2 else TURN_FRAMES // 2
