"""Measurements of a program: totals, the spread of its iterations, the best rate. Pure."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Spread:
    """Nanoseconds of n iterations; percentiles are entries of the sorted list, without interpolation.

    The median of an even number is the mean of the middle two.
    """

    min: int
    median: float
    mean: float
    stdev: float
    p99: int
    p999: int
    max: int


@dataclass(frozen=True, slots=True)
class Report:
    """Report of one program on one rank."""

    iterations: int = 0
    """Timed iterations: messages of `write_bw`, round trips of `write_lat`, rounds of a pattern."""
    bytes: int = 0
    """Payload bytes that this rank sent in them."""
    elapsed_ns: int = 0
    """Time from the first post to the end of the last iteration."""
    best_ns_per_message: float | None = None
    """Time per message of the fastest stretch from a post to a completion."""
    spread: Spread | None = None
    """Spread of the iterations, if each is timed."""
    checked: int | None = None
    """Number of elements compared with their expected values."""
    wrong: int | None = None


def spread_of(samples_ns: NDArray[np.int64]) -> Spread | None:
    """Compute the spread of (n,) times; None if there are none."""
    if not len(samples_ns):
        return None
    ordered = np.sort(samples_ns)

    def at(share: float) -> int:
        return int(ordered[min(len(ordered) - 1, int(len(ordered) * share))])

    return Spread(
        min=int(ordered[0]),
        median=float(np.median(ordered)),
        mean=float(ordered.mean()),
        stdev=float(ordered.std()),
        p99=at(0.99),
        p999=at(0.999),
        max=int(ordered[-1]),
    )


MOST_BATCHES = 2048
"""Batches that are considered (our choice: the cost grows with the square, and this many take 30 ms)."""


@dataclass(slots=True)
class Pace:
    """Times at which batches of messages were posted and completed; their best rate as perftest defines it."""

    posts: list[tuple[int, int]] = field(default_factory=list)
    """(time, number of the first message posted then)."""
    completions: list[tuple[int, int]] = field(default_factory=list)
    """(time, messages completed by then)."""

    def post(self, now_ns: int, first: int) -> None:
        """Record that messages from number `first` on were posted."""
        if len(self.posts) < MOST_BATCHES:
            self.posts.append((now_ns, first))

    def complete(self, now_ns: int, count: int) -> None:
        """Record that `count` messages are complete."""
        if len(self.completions) < MOST_BATCHES:
            self.completions.append((now_ns, count))

    def best_ns_per_message(self) -> float | None:
        """Return the least (completion of j - posting of i) / (j - i + 1) over all messages i <= j.

        Messages of a batch share a time, so only the first post or last completion of each can give the least.
        """
        if not self.completions:
            return None
        ends = np.array(self.completions, np.float64)
        best = np.inf
        for posted_ns, first in self.posts:
            later = ends[ends[:, 1] > first]
            if len(later):
                best = min(best, float(((later[:, 0] - posted_ns) / (later[:, 1] - first)).min()))
        return None if np.isinf(best) else best
