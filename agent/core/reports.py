"""Events and completions of a queue pair, kept until the caller collects them.

This is apart from the queue pair because all of its parts report here. If they held the queue pair itself, the
reference cycle would keep its rings and its user's memory until the garbage collector next looked for cycles, which a
worker rarely allows.
"""

from dataclasses import replace

from agent.core.completion import CompletionQueue, CompletionStatus, WritesDone
from agent.core.counters import EvCounters
from agent.core.ev.state import EvState
from agent.core.events import Event, EvStatesChanged, MessagesCompleted


class Reports:
    """The reports of one queue pair, which counts packets in `evs`.

    `completions` is None if nothing polls its writes.
    """

    def __init__(self, qpn: int, evs: EvCounters, completions: CompletionQueue | None) -> None:
        self._qpn = qpn
        self._evs = evs
        self._completions = completions
        self._events: list[Event] = []
        self.ev_states: frozenset[EvState] | None = None
        """EV changes are reported only for these states; None: for all."""

    def __len__(self) -> int:
        """Count the events that wait."""
        return len(self._events)

    def add(self, event: Event) -> None:
        """Add an event."""
        if isinstance(event, EvStatesChanged):
            if self.ev_states is not None and event.state not in self.ev_states:
                return
            event = replace(event, sent=tuple(self._evs.tx_first[list(event.ev_indices)].tolist()))
        self._events.append(event)
        if isinstance(event, MessagesCompleted):
            self._complete(event.first_wr_id, event.count, event.length_bytes, CompletionStatus.SUCCESS)

    def flush(self, first_wr_id: int, count: int, first: CompletionStatus) -> None:
        """Report that messages from `first_wr_id` on never complete.

        The oldest ends with `first`, the others are flushed.
        """
        self._complete(first_wr_id, min(count, 1), 0, first)
        self._complete(first_wr_id + 1, count - 1, 0, CompletionStatus.FLUSHED)

    def drain(self) -> list[Event]:
        """Remove and return the events since the last call, oldest first."""
        events, self._events = self._events, []
        return events

    def _complete(self, first_wr_id: int, count: int, length_bytes: int, status: CompletionStatus) -> None:
        if self._completions is not None and count > 0:
            self._completions.add(WritesDone(self._qpn, first_wr_id, count, length_bytes, status))
