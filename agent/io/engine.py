"""Engine: runs the hosts of one process in turns, each of receive, timers, send and report.

Never waits and never reads a clock.
"""

from collections.abc import Iterator, Sequence

from agent.io.host_runtime import HostRuntime, QpEvent

TURN_FRAMES = 1024
"""Data frames sent in one turn, over all senders. Forwarding happens inside send(), about 5 us per frame: this limits
the delay of an arrival or a timer to about 6 ms, however many hosts there are. Not fewer, because each turn has a fixed
cost. Our choice, measured."""


class Engine:
    """The hosts of one process."""

    def __init__(self, hosts: Sequence[HostRuntime]) -> None:
        self.hosts = {runtime.host: runtime for runtime in hosts}
        self._turn = 0

    def step(self, now_ns: int) -> int:
        """Receive frames, answer them, and send; return frames moved, 0 when there was nothing to do."""
        return self.receive(now_ns) + self.send(now_ns)

    def receive(self, now_ns: int) -> int:
        """Receive waiting frames; return how many. Call `send` next, which answers them."""
        taken = 0
        for runtime in self.hosts.values():
            taken += runtime.receive(now_ns)
        return taken

    def send(self, now_ns: int) -> int:
        """Answer what has arrived, serve timers, send data; return frames sent."""
        sent = 0
        for runtime in self.hosts.values():
            sent += runtime.serve(now_ns)
        return sent + self._transmit(now_ns)

    def next_deadline_ns(self) -> int | None:
        """Time at which the next timer is due; None when none runs."""
        due = [runtime.next_deadline_ns() for runtime in self.hosts.values()]
        return min((value for value in due if value is not None), default=None)

    def drain_events(self) -> Iterator[QpEvent]:
        """Yield the events that queue pairs reported since the last call."""
        for runtime in self.hosts.values():
            yield from runtime.drain_events()

    def _transmit(self, now_ns: int) -> int:
        """Send a batch per queue pair in turn, until the turn is full or none has more to send.

        The next step continues after the last queue pair.
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
    """Return the data frames a queue pair may send at a time: a turn if it is the only sender, else half of one.

    Each batch has a fixed cost; quarters cost 4 % of the goodput (measured: make bench).
    """
    return TURN_FRAMES if senders < 2 else TURN_FRAMES // 2
