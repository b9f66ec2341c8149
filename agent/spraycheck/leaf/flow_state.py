"""State of one flow in a leaf's detector between polls. The clock is an argument.

A flow that its sender has closed has barriers: each path's own copy of the closing announcement. A path that lost all
copies has none, and is given up when it has been quiet.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from agent.spraycheck.leaf.flow_reports import MeasuredFlow
from agent.spraycheck.statistics.flow_times import Span
from agent.spraycheck.statistics.verdicts import Expectation


@dataclass(slots=True)
class Still:
    """Time since which some counts have not changed: then hardly more packets will come."""

    counts: bytes | None = None
    since_ns: int = 0

    def since(self, counts: bytes, changed_ns: int) -> int:
        """Return the time since which they are the same; `changed_ns` if they are not those of the last poll."""
        if counts != self.counts:
            self.counts, self.since_ns = counts, changed_ns
        return self.since_ns


@dataclass(slots=True)
class FlowState:
    """State of one flow: what was judged, and what is awaited."""

    flow: MeasuredFlow | None = None
    """The flow; None before its announcement."""
    owed: tuple[Expectation, ...] | None = None
    """Expectations by which it is still to be judged; None before its announcement, empty when all is done."""
    again: int = 0
    """Retransmissions so far, of a flow that goes on."""
    again_seen: Span | None = None
    """Polls between which they came."""
    stopped: Still = field(default_factory=Still)
    """Counts after its last PSN."""
    closed: Still = field(default_factory=Still)
    """Counts since it was closed."""

    @property
    def is_over(self) -> bool:
        """Report whether it is judged by all expectations, so that it only stays until it is erased."""
        return self.owed == ()

    def note_again(self, count: int, since_ns: int, now_ns: int) -> None:
        """Note how many retransmissions have come; `since_ns` is the last poll."""
        if count != self.again:
            begun = since_ns if self.again_seen is None else self.again_seen.from_ns
            self.again, self.again_seen = count, Span(begun, now_ns)

    def still_since_last_psn(self, late: NDArray[np.int64], stopped_ns: int, now_ns: int) -> int:
        """Return the time without packets of a flow whose last PSN came at `stopped_ns`, and (k,) packets after it.

        Call this at every poll.
        """
        return now_ns - self.stopped.since(late.tobytes(), now_ns if late.any() else stopped_ns)

    def still_since_closed(self, counts: NDArray[np.int64], barriers: NDArray[np.bool_], now_ns: int) -> int:
        """Return the time for which a closed flow's (k,) counts and barriers are the same. Call this at every poll."""
        return now_ns - self.closed.since(counts.tobytes() + barriers.tobytes(), now_ns)
