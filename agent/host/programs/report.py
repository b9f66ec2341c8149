"""What a program measured: totals, the spread of its iterations, the best rate. Pure."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Spread:
    """Nanoseconds of n iterations; percentiles are those of a sorted list, without interpolation.

    The median of an even number is the mean of the two in the middle.
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
    """One program on one rank."""

    iterations: int = 0
    """Timed ones: messages of `write_bw`, round trips of `write_lat`, rounds of a pattern."""
    bytes: int = 0
    """Payload that this rank sent in them."""
    elapsed_ns: int = 0
    """From the first post to the end of the last."""
    best_ns_per_message: float | None = None
    """Of the fastest stretch from a post to a completion."""
    spread: Spread | None = None
    """Of the iterations, where each is timed."""
    checked: int | None = None
    """Elements compared with what they should be."""
    wrong: int | None = None


def spread_of(samples_ns: NDArray[np.int64]) -> Spread | None:
    """The spread of (n,) times; None of none."""
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
"""A pace looks at so many (our choice: the cost grows with the square, and this many take 30 ms)."""


@dataclass(slots=True)
class Pace:
    """When messages were posted and when they completed, in batches; their best rate as perftest defines it."""

    posts: list[tuple[int, int]] = field(default_factory=list)
    """(time, number of the first message posted then)."""
    completions: list[tuple[int, int]] = field(default_factory=list)
    """(time, messages completed by then)."""

    def post(self, now_ns: int, first: int) -> None:
        """Messages from number `first` on are posted."""
        if len(self.posts) < MOST_BATCHES:
            self.posts.append((now_ns, first))

    def complete(self, now_ns: int, count: int) -> None:
        """So many messages are complete."""
        if len(self.completions) < MOST_BATCHES:
            self.completions.append((now_ns, count))

    def best_ns_per_message(self) -> float | None:
        """Least of (completion of j - posting of i) / (j - i + 1) over all messages i <= j.

        Messages of a batch share a time, so of each only its first post or last completion can be the least.
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
