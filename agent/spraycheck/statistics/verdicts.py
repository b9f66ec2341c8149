"""Verdicts of tests on paths: what they can be, why one says nothing, and how often they may be wrong. Pure.

Sums over links are tested anew while flows go on, and each look counts as a test of its own. A loss makes a flow end
later, never earlier, so that the sums of an early look hold fewer losses than chance would have put there.
"""

from dataclasses import dataclass
from enum import StrEnum

from agent.wire.detect_records import DoubtKind as DoubtKind


class Expectation(StrEnum):
    """Source of the packet count that a healthy path is expected to bring."""

    UNIFORM = "uniform"
    """N/k: the flow's packets shared equally, as in the paper."""
    DECLARED = "declared"
    """The number that the sender put on the path, which it declares when the flow has left."""


class Verdict(StrEnum):
    """Result of one flow's test of one path."""

    FAILED = "failed"
    HEALTHY = "healthy"
    INSUFFICIENT = "insufficient"
    """The counts show neither: the path accuses nothing and exonerates nothing."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """Reason of an `insufficient` verdict: a kind for programs and a sentence for people."""

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


@dataclass(frozen=True, slots=True)
class PathVerdict:
    """Verdict on one path of one flow."""

    path: int
    count: int
    verdict: Verdict
    doubt: Doubt | None
    """Why `insufficient`."""
    p_value: float | None = None
    """Probability that a healthy path would look as bad as this or worse; of this test alone, not corrected."""
    snr: float | None = None
    """Standard deviations of the count that the required drop rate takes from it (S5); under `declared`, those of a
    path that drops it, since the count of one that does not hardly varies."""


STRAY_RATE = 1e-6
"""Share of packets that a healthy path may lose. Our choice: seven times what four links with the bit error ratio of
1e-12 that IEEE 802.3 allows lose of 4 KiB packets; a thousandth of the smallest drop rate looked for."""

MISS = FALSE_ALARM = 1e-3
"""Default error probabilities: of a miss per path; of a false alarm per flow (`uniform`) or run (`declared`). Our
choice: rare beside the failures looked for, and the packets that a smaller number costs grow with its logarithm only.
"""

LEAST_TESTS = 4096
"""Tests that every run is assumed to make at least. Our choice, so that what a flow must carry does not differ from run
to run: 16 flows over 8 spines make 416 tests, of which 1 % would take 1 237 packets per path, and not 1 321. 157 flows
over 8 spines of one plane still fit."""


@dataclass(frozen=True, slots=True)
class Requirements:
    """Drop rate that must not be missed, and how often the answer may be wrong."""

    min_rate: float
    """Smallest drop rate that must not be missed, 0 < p <= 1."""
    miss: float = MISS
    """Allowed probability that a path which drops `min_rate` is not flagged, per path."""
    false_alarm: float = FALSE_ALARM
    """Allowed probability that a healthy flow has any path flagged, over all its paths. Expectation `uniform`."""
    stray_rate: float = STRAY_RATE
    """Share of packets that a healthy path may lose, 0 < rate < min_rate. Expectation `declared`."""
    run_alarm: float = FALSE_ALARM
    """Allowed probability that a healthy run has anything flagged, over all its tests. Expectation `declared`."""
    run_tests: int = LEAST_TESTS
    """Tests of a run by declarations, at most (`count_tests`)."""

    @property
    def test_level(self) -> float:
        """The false-alarm probability of one test of a run (Bonferroni: holds however the tests depend)."""
        return self.run_alarm / self.run_tests


def count_tests(flows: int, planes: int, spines: int) -> int:
    """Count the tests by declarations of a run with so many measured flows, at most: LEAST_TESTS or a power of two.

    In each plane a flow is tested path by path, once for what its paths have in common, and once for its host's link.
    When it is judged, its packets are added to the sums of its source's uplinks and of the links down to its
    destination, which are then tested anew. Powers of two, so that a lab that stays up does not have to start its
    detectors anew for every other number of flows.
    """
    paths, alike, host_link, link_sums = spines, 1, 1, 2 * spines
    tests = flows * planes * (paths + alike + host_link + link_sums)
    return max(LEAST_TESTS, 1 << (tests - 1).bit_length())
