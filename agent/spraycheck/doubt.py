"""Why a verdict is `insufficient`: a kind that programs tell apart, and the sentence that people read."""

from dataclasses import dataclass
from enum import StrEnum


class DoubtKind(StrEnum):
    """What stands between a count and a verdict; the `doubt` of records."""

    FEW_PACKETS = "few_packets"
    """A drop of the asked rate would be missed too often. More packets settle it, be they of other flows."""
    SHORT_ALIKE = "short_alike"
    """Fewer came than threshold, but other paths of the flow may be as short. Expectation `uniform`."""
    LOST_ALIKE = "lost_alike"
    """Packets were lost, but as many on other paths. Expectation `declared`."""
    NOTHING_SENT = "nothing_sent"
    """The path is out of use."""
    SURPLUS = "surplus"
    """More came than can have been sent, so that the expectation is wrong."""
    MOST_LOSE = "most_lose"
    """Of a link's sum: most links of its leaf lost packets."""
    NOT_COUNTED = "not_counted"
    """The flow did not end, was not announced for these spines, or does not fit the counters."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why one verdict says nothing."""

    kind: DoubtKind
    text: str


SHORT_ALIKE = Doubt(
    DoubtKind.SHORT_ALIKE,
    "short, but not more than the flow's other paths may be: the loss may lie before the first leaf",
)
LOST_ALIKE = Doubt(
    DoubtKind.LOST_ALIKE,
    "packets were lost, but not more than on the flow's other paths: they may be lost before the paths part",
)
NOTHING_SENT = Doubt(DoubtKind.NOTHING_SENT, "nothing was sent on it")
