"""Records of detect.jsonl: one declaration for SprayCheck, which writes them, for all readers, and for the schema.

DETECT is the verdict of one flow on one path; PATH and LINK are conclusions from all flows; LOCALIZE lists the accused
links. New fields may be added without a new version. A field with a default may be missing in older files.
"""

from enum import StrEnum

from msgspec import Struct

from agent.wire.record_ranges import (
    VERSION,
    Amount,
    Count,
    Host,
    Name,
    Nanoseconds,
    Plane,
    QueuePair,
    Switch,
    Text,
    Version,
)


class DoubtKind(StrEnum):
    """Reason why a count gives no verdict; the `doubt` of records."""

    FEW_PACKETS = "few_packets"
    """A drop at the requested rate would be missed too often. More packets settle it, also of other flows."""
    SHORT_ALIKE = "short_alike"
    """Fewer packets came than the threshold, but other paths of the flow may be as short. Expectation `uniform`."""
    LOST_ALIKE = "lost_alike"
    """Packets were lost, but as many on other paths. Expectation `declared`."""
    NOTHING_SENT = "nothing_sent"
    """The path is not in use."""
    SURPLUS = "surplus"
    """More packets came than can have been sent, so the expectation is wrong."""
    BEHIND_ACCUSED = "behind_accused"
    """Link: every flow over it also crosses a link that is accused."""
    MOST_LOSE = "most_lose"
    """Link: most links of its leaf lost packets, so the cause may be what they share."""
    SUSPECT = "suspect"
    """Link: it is one of several suspects, and the evidence does not show which failed."""
    CONTRADICTED = "contradicted"
    """Link: a path over it failed, but every link of that path was found healthy."""
    OWED = "owed"
    """Link: verdicts on paths over it are still pending."""
    NOT_COUNTED = "not_counted"
    """The flow did not end, was not announced for these spines, or does not fit the counters."""


class Detect(
    Struct, frozen=True, kw_only=True, rename={"packets": "N", "paths": "k", "expected": "lambda"}, tag_field="event",
    tag="DETECT",
):  # fmt: skip
    """Verdict of one flow on one path, by one expectation."""

    ts: Name
    mono_ns: Nanoseconds
    v: Version = VERSION
    node: Name
    """The leaf that counted, the flow's destination."""
    epoch: Count
    plane: Plane
    spine: Switch
    src_leaf: Switch
    dst_leaf: Switch
    src_host: Host = 0
    dst_host: Host = 0
    qpn: QueuePair = 0
    expectation: Name = "uniform"
    """Expectation that gives `lambda`: `uniform` or `declared`."""
    packets: Count = 0
    paths: Count = 0
    expected: Amount
    count: Count
    late: Count = 0
    """Packets of the count that came after the last PSN."""
    trimmed: Count = 0
    """Packets of the count that lost their payload to congestion."""
    again: Count = 0
    """Retransmissions that came in addition."""
    flagged: bool | None = None
    """Whether the data plane found the count below the threshold when the last PSN came; None: not read in time."""
    threshold: Amount | None
    s: float | None = None
    snr: float | None = None
    p_value: float | None = None
    """Probability that a healthy path's count is this or less; for this test alone."""
    miss: float | None = None
    """Probability that a drop at the requested rate would not be flagged here."""
    verdict: Name
    doubt: DoubtKind | None = None
    """Why the verdict is `insufficient`, for programs."""
    reason: Text | None
    """Why the verdict is `insufficient`, in words."""
    entered: Count | None = None
    """First transmissions of the flow, over all paths, that the source leaf counted; None if unknown."""
    began_ns: Nanoseconds | None = None
    """When this leaf first noticed the flow; monotonic clock, as all four. None: never."""
    ended_ns: Nanoseconds | None = None
    """When its last packet came, or when it was closed otherwise."""
    lost_from_ns: Nanoseconds | None = None
    """Start and end of the time in which the flow lost packets, estimated from retransmissions; None if none came."""
    lost_to_ns: Nanoseconds | None = None


class PathConclusion(Struct, frozen=True, kw_only=True, rename={"expected": "lambda"}, tag_field="event", tag="PATH"):
    """Conclusion on one path from all flows over it. The last one per epoch and expectation counts."""

    ts: Name
    mono_ns: Nanoseconds
    v: Version = VERSION
    node: Name = "monitor"
    epoch: Count
    expectation: Name
    plane: Plane
    src_leaf: Switch
    spine: Switch
    dst_leaf: Switch
    verdict: Name
    """Verdict: `failed`, `healthy` or `insufficient`."""
    by: Name
    """Basis of the verdict: one `flow`, the sum of `flows` of this pair of leaves, or `links`: all flows over its
    links."""
    flows: Count
    """Number of flows judged on this path."""
    expected: Amount
    """Packets that a healthy path would have delivered, of all these flows."""
    count: Count
    """Packets that arrived."""
    p_value: float | None
    """Probability that a healthy path gives this result or worse, in the deciding test."""
    doubt: DoubtKind | None = None
    reason: Text | None = None
    """Why the verdict is `insufficient`."""


class LinkConclusion(Struct, frozen=True, kw_only=True, tag_field="event", tag="LINK"):
    """Conclusion on one direction of a link. The last one per epoch and expectation counts.

    Named common parts of paths have one too: `p0:h3>leaf3`, `p0:leaf3>spine*`, `p0:spine*>leaf4`.
    """

    ts: Name
    mono_ns: Nanoseconds
    v: Version = VERSION
    node: Name = "monitor"
    epoch: Count
    expectation: Name
    link: Name
    verdict: Name
    """`failed`: it is named. `healthy`: a drop at the requested rate would rarely be missed. `undecided`: neither."""
    flows: Count
    """Flows over it that count; for a link that is not accused, those that cross no accused link."""
    sent: Count | None = None
    """Packets that these flows sent over it, and how many of them were lost; null if not known exactly."""
    lost: Count | None = None
    p_value: float | None = None
    """Probability that a healthy link gives this result or worse, in the deciding test."""
    miss: float | None = None
    """Probability that this test would miss a drop at the requested rate."""
    likelihood: float | None = None
    """Accused or suspected link: probability that it failed."""
    rate: float | None = None
    """Accused or suspected link: most likely drop rate."""
    alternatives: list[Name] = []
    """Links that may have failed instead; for an `undecided` link whose losses others share, their common part."""
    since_ns: Nanoseconds | None = None
    """Failed link: time since which it has been named without interruption; monotonic clock."""
    leaves: list[Name] = []
    """Failed link: leaves that counted the failed paths over it."""
    packets: Count = 0
    """Failed link: packets expected on its failed paths until it was named."""
    paths: Count = 0
    """Failed link: number of verdicts of flows that these were."""
    doubt: DoubtKind | None = None
    reason: Text | None = None
    """Why the verdict is `undecided`."""


class EvidenceRecord(Struct, frozen=True):
    """A verdict on which a LOCALIZE rests; the DETECT of that epoch with this node, QP and spine has the details."""

    path: Name
    node: Name
    qpn: QueuePair
    spine: Switch
    verdict: Name


class EstimateRecord(Struct, frozen=True):
    """Estimate of an accused or suspected link from the counts."""

    link: Name
    likelihood: float
    rate: float | None


class DecidingRecord(Struct, frozen=True):
    """A flow that would narrow one set of candidates: between these leaves, on this path."""

    src_leaf: Switch
    dst_leaf: Switch
    path: Name = ""
    rate: float | None = None
    packets: Count | None = None
    """Packets to send per path."""


class Localize(Struct, frozen=True, kw_only=True, tag_field="event", tag="LOCALIZE"):
    """Links accused in one epoch, as far as known."""

    ts: Name
    mono_ns: Nanoseconds
    v: Version = VERSION
    node: Name = "monitor"
    epoch: Count
    expectation: Name = "uniform"
    state: Name
    """Result: `named`, `ambiguous`, `unexplained` or `none`."""
    links: list[Name]
    """Links that are accused with certainty."""
    candidates: list[list[Name]]
    """Candidate links where the evidence leaves more than one: one list per independent failure."""
    fewest: list[Count] = []
    """Least number of failed links in each of `candidates`."""
    estimates: list[EstimateRecord] = []
    """Probability of failure and drop rate of each link in the two lists above."""
    deciding: list[DecidingRecord] = []
    """Flows to send next to narrow the candidates."""
    common: list[Name] = []
    """Common parts of paths accused with certainty: `p0:h3>leaf3`, `p0:leaf3>spine*`, `p0:spine*>leaf4`."""
    common_candidates: list[list[Name]] = []
    """Candidates for a common part; the cause with the fewest links first."""
    evidence: list[EvidenceRecord] = []
    untimely: list[EvidenceRecord] = []
    """Healthy verdicts that clear no link: their flows were not under way while packets were lost."""
    pending: Count
    """Verdicts on paths still pending; with 0 the epoch is complete."""
    insufficient: Count = 0
    first_named_ns: Nanoseconds | None = None


class Select(Struct, frozen=True, kw_only=True, tag_field="event", tag="SELECT"):
    """A source leaf that measures one flow at a time has chosen this flow."""

    ts: Name
    mono_ns: Nanoseconds
    v: Version = VERSION
    node: Name
    """Name of the source leaf."""
    epoch: Count
    plane: Plane
    src_leaf: Switch
    dst_leaf: Switch
    qpn: QueuePair


class Unmeasured(Struct, frozen=True, kw_only=True, tag_field="event", tag="UNMEASURED"):
    """A leaf has no room for an announced flow, which gets no verdict in this plane."""

    ts: Name
    mono_ns: Nanoseconds
    v: Version = VERSION
    node: Name
    """Leaf without room: the flow's source, or its destination."""
    epoch: Count
    plane: Plane
    src_leaf: Switch
    dst_leaf: Switch
    src_host: Host
    dst_host: Host
    qpn: QueuePair
    reason: Text
    """What the leaf has no room for."""


class Start(Struct, frozen=True, kw_only=True, tag_field="event", tag="SPRAYCHECK_START"):
    """Detection runs from this record on."""

    ts: Name
    mono_ns: Nanoseconds
    v: Version = VERSION
    node: Name = "monitor"
    leaves: Count
    counter_bits: Count
    """Width of each counter in bits."""
    counter_bytes: Count
    """Bytes of arrival counters that a leaf holds per flow."""
    record_bytes: Count
    """Total bytes that a leaf holds per flow."""
    run_alarm: float
    """Greatest probability that a healthy run has anything flagged by what senders declare."""
    run_tests: Count
    """Number of tests among which this probability is divided."""
