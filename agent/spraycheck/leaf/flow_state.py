"""What a leaf's detector remembers of one flow between polls. Its clock is an argument.

A flow that its sender has closed has barriers: each path's own copy of the closing announcement. A path that lost all
copies has none, and is given up when it has been quiet.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from agent.spraycheck.leaf.flow_reports import MeasuredFlow
from agent.spraycheck.statistics.time_spans import Span
from agent.spraycheck.statistics.verdicts import Expectation


@dataclass(slots=True)
class Still:
    """Since when some counts have stood still, by which it is known that hardly more will come."""

    counts: bytes | None = None
    since_ns: int = 0

    def since(self, counts: bytes, changed_ns: int) -> int:
        """Since when they have been the same; if they are not those of the last poll, since `changed_ns`."""
        if counts != self.counts:
            self.counts, self.since_ns = counts, changed_ns
        return self.since_ns


@dataclass(slots=True)
class FlowState:
    """One flow: what was done about it, and what is waited for."""

    flow: MeasuredFlow | None = None
    """Which it is; None before its announcement."""
    owed: tuple[Expectation, ...] | None = None
    """By what it is still to be judged; None before its announcement, empty when all is done."""
    again: int = 0
    """Retransmissions so far, of a flow that goes on."""
    again_seen: Span | None = None
    """Between which polls they came."""
    stopped: Still = field(default_factory=Still)
    """What came after its last PSN."""
    closed: Still = field(default_factory=Still)
    """What came of it since it was closed."""

    @property
    def is_over(self) -> bool:
        """Whether it is judged by everything, so that it only stays until it is erased."""
        return self.owed == ()

    def note_again(self, count: int, since_ns: int, now_ns: int) -> None:
        """Take up how many retransmissions have come, `since_ns` being the last poll."""
        if count != self.again:
            begun = since_ns if self.again_seen is None else self.again_seen.from_ns
            self.again, self.again_seen = count, Span(begun, now_ns)

    def still_since_last_psn(self, late: NDArray[np.int64], stopped_ns: int, now_ns: int) -> int:
        """For how long nothing has come of a flow whose last PSN came at `stopped_ns`, and (k,) packets after it.

        To be asked at every poll.
        """
        return now_ns - self.stopped.since(late.tobytes(), now_ns if late.any() else stopped_ns)

    def still_since_closed(self, counts: NDArray[np.int64], barriers: NDArray[np.bool_], now_ns: int) -> int:
        """For how long a closed flow's (k,) counts and barriers have been the same. To be asked at every poll."""
        return now_ns - self.closed.since(counts.tobytes() + barriers.tobytes(), now_ns)
