"""Time spans: when a flow was under way, and when it lost packets. Evidence is about its time only. Pure."""

from dataclasses import dataclass

LEAST_SEEN = 2
"""Fewest retransmissions whose times show when packets were lost: one does not show how far others are."""

WINDOW_DOUBT = 0.01
"""Probability that losses at a constant rate begin before their window, or end after it. Our choice."""

LEAST_MET = 0.1
"""Part of the time in which signs of losses came for which a flow must have been under way to clear. Our choice: the
window is wide where losses are few, and most of it may lie before a fault that came late."""

MOST_SHARE = 0.5
"""Share of its packets with which a healthy flow in the time of a loss clears the links that it crosses, however few
packets it has. Our choice: flows of one run begin together and seldom take twice as long as one another."""


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """Time span from one moment to another, both included; monotonic ns."""

    from_ns: int
    to_ns: int

    def share_within(self, window: "Span") -> float:
        """Compute the share of this span in a window, 0 to 1; if a flow sends evenly, the share of its packets."""
        if self.to_ns <= self.from_ns:
            return float(window.from_ns <= self.from_ns <= window.to_ns)
        shared = min(self.to_ns, window.to_ns) - max(self.from_ns, window.from_ns)
        return max(0, shared) / (self.to_ns - self.from_ns)

    def joined(self, other: "Span") -> "Span":
        """Return the shortest span that holds both."""
        return Span(min(self.from_ns, other.from_ns), max(self.to_ns, other.to_ns))


@dataclass(frozen=True, slots=True, order=True)
class LossTime:
    """Time of a flow's losses: the span in which signs of them came, and the longer one in which they may have been."""

    seen: Span
    window: Span

    @classmethod
    def of(cls, seen: Span, count: int, flow: Span) -> "LossTime":
        """Estimate the time from `count` retransmissions within `seen`; all of `flow` if they are too few.

        Of r losses at even times the first comes after a share f of the whole with probability (1 - f)^r.
        """
        if count < LEAST_SEEN:
            return cls(flow, flow)
        share = 1 - WINDOW_DOUBT ** (1 / count)
        more = int((seen.to_ns - seen.from_ns) * share / (1 - share))
        window = Span(max(flow.from_ns, seen.from_ns - more), min(flow.to_ns, seen.to_ns + more))
        return cls(seen, window) if window.from_ns <= window.to_ns else cls(flow, flow)

    def is_met_by(self, flow: Span) -> bool:
        """Report whether another flow was under way for long enough of the time in which the signs came."""
        return self.seen.share_within(flow) >= LEAST_MET


def share_needed(needed: int | None, packets: float) -> float:
    """Compute the share of a healthy flow's packets that must fall into the time of a loss to clear a link.

    As many packets as show the required rate alone, `needed`; `MOST_SHARE` at most.
    """
    if needed is None or packets <= 0:
        return MOST_SHARE
    return min(MOST_SHARE, needed / packets)
