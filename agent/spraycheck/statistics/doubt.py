"""Why a verdict is `insufficient`: a kind that programs tell apart, and the sentence that people read."""

from dataclasses import dataclass

from agent.wire.detect_records import DoubtKind as DoubtKind


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
