"""The lines of detect.jsonl: one declaration for SprayCheck, which writes them, for all readers, and for the schema.

DETECT is what one flow says of one path; PATH and LINK are what follows from all flows, LOCALIZE is what is accused.
Fields may come on top without a new version. What has a default may be missing in older files.
"""

from enum import StrEnum

from msgspec import Struct

from agent.wire.ranges import VERSION, Amount, Count, Host, Name, Nanoseconds, Plane, QueuePair, Switch, Text, Version


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
    """Of a link: most links of its leaf lost packets, so what they share may be to blame."""
    SUSPECT = "suspect"
    """Of a link: it is one of several, of which the evidence does not tell which failed."""
    CONTRADICTED = "contradicted"
    """Of a link: a path over it failed of which every link was found healthy."""
    OWED = "owed"
    """Of a link: verdicts on paths over it are still to come."""
    NOT_COUNTED = "not_counted"
    """The flow did not end, was not announced for these spines, or does not fit the counters."""


class Detect(
    Struct, frozen=True, kw_only=True, rename={"packets": "N", "paths": "k", "expected": "lambda"}, tag_field="event",
    tag="DETECT",
):  # fmt: skip
    """The verdict of one flow on one path, by one expectation."""

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
    """`uniform` or `declared`: what `lambda` is."""
    packets: Count = 0
    paths: Count = 0
    expected: Amount
    count: Count
    late: Count = 0
    """Packets of the count that came after the last PSN."""
    trimmed: Count = 0
    """Packets of the count that lost their payload to congestion."""
    again: Count = 0
    """Retransmissions that came besides."""
    flagged: bool | None = None
    """Whether the data plane found the count below the threshold when the last PSN came; None: not asked in time."""
    threshold: Amount | None
    s: float | None = None
    snr: float | None = None
    p_value: float | None = None
    """Probability that a healthy path's count is this or less; of this test alone."""
    miss: float | None = None
    """Probability that a drop of the asked rate would not be flagged here."""
    verdict: Name
    doubt: DoubtKind | None = None
    """Why `insufficient`, for programs."""
    reason: Text | None
    """Why `insufficient`, in words."""
    entered: Count | None = None
    """First transmissions of the flow, over all paths, that the source leaf counted; None if that is not known."""
    began_ns: Nanoseconds | None = None
    """When this leaf first heard of the flow; monotonic clock, as all four. None if it heard nothing."""
    ended_ns: Nanoseconds | None = None
    """When its last packet came, or else what closed it."""
    lost_from_ns: Nanoseconds | None = None
    """Within which time the flow lost packets, estimated by when retransmissions came; None if none came."""
    lost_to_ns: Nanoseconds | None = None


class PathConclusion(Struct, frozen=True, kw_only=True, rename={"expected": "lambda"}, tag_field="event", tag="PATH"):
    """What SprayCheck concludes of one path, by all flows over it. The last one of an epoch and expectation counts."""

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
    """`failed`, `healthy` or `insufficient`."""
    by: Name
    """What decides: `flow` alone, `flows` of this pair of leaves added up, or `links`: all flows over its links."""
    flows: Count
    """Flows judged on this path."""
    expected: Amount
    """Packets that a healthy path would have brought, of all these flows."""
    count: Count
    """Packets that came."""
    p_value: float | None
    """Of the test that decides: probability that a healthy path looks as bad as this or worse."""
    doubt: DoubtKind | None = None
    reason: Text | None = None
    """Why `insufficient`."""


class LinkConclusion(Struct, frozen=True, kw_only=True, tag_field="event", tag="LINK"):
    """What SprayCheck concludes of one direction of a link. The last one of an epoch and expectation counts.

    Also of what paths have in common, when it is named: `p0:h3>leaf3`, `p0:leaf3>spine*`, `p0:spine*>leaf4`.
    """

    ts: Name
    mono_ns: Nanoseconds
    v: Version = VERSION
    node: Name = "monitor"
    epoch: Count
    expectation: Name
    link: Name
    verdict: Name
    """`failed`: it is named. `healthy`: a drop of the asked rate would hardly be missed. `undecided`: neither."""
    flows: Count
    """Flows over it that count; of a link that is not accused, those that cross nothing that is."""
    sent: Count | None = None
    """Packets that they sent over it, and how many of these were lost; null where that is not known exactly."""
    lost: Count | None = None
    p_value: float | None = None
    """Of the test that decides: probability that a healthy link looks as bad as this or worse."""
    miss: float | None = None
    """Probability that this test would miss a drop of the asked rate."""
    likelihood: float | None = None
    """Of an accused or suspected link: probability that it failed."""
    rate: float | None = None
    """The same: its most likely drop rate."""
    alternatives: list[Name] = []
    """What may have failed in its place; of an `undecided` link whose losses others share, what they share."""
    since_ns: Nanoseconds | None = None
    """Of a failed link: since when it has been named without a break; monotonic clock."""
    leaves: list[Name] = []
    """The same: leaves that counted the failed paths over it."""
    packets: Count = 0
    """The same: packets that its failed paths were to bring until it was named."""
    paths: Count = 0
    """The same: how many verdicts of flows that were."""
    doubt: DoubtKind | None = None
    reason: Text | None = None
    """Why `undecided`."""


class EvidenceRecord(Struct, frozen=True):
    """A verdict that a LOCALIZE rests on; the DETECT of that epoch with this node, QP and spine tells the rest."""

    path: Name
    node: Name
    qpn: QueuePair
    spine: Switch
    verdict: Name


class EstimateRecord(Struct, frozen=True):
    """What the counts say of an accused or suspected link."""

    link: Name
    likelihood: float
    rate: float | None


class DecidingRecord(Struct, frozen=True):
    """A flow that would narrow one set of candidates: between these leaves, seen on this path."""

    src_leaf: Switch
    dst_leaf: Switch
    path: Name = ""
    rate: float | None = None
    packets: Count | None = None
    """Packets a path."""


class Localize(Struct, frozen=True, kw_only=True, tag_field="event", tag="LOCALIZE"):
    """What is accused in one epoch, as far as is known."""

    ts: Name
    mono_ns: Nanoseconds
    v: Version = VERSION
    node: Name = "monitor"
    epoch: Count
    expectation: Name = "uniform"
    state: Name
    """`named`, `ambiguous`, `unexplained` or `none`."""
    links: list[Name]
    """Accused for certain."""
    candidates: list[list[Name]]
    """Where the evidence leaves more than one link: one list for each independent failure."""
    fewest: list[Count] = []
    """Of each of `candidates`, how many of its links have failed at least."""
    estimates: list[EstimateRecord] = []
    """Of each link in the two above: how likely it failed, and its drop rate."""
    deciding: list[DecidingRecord] = []
    """What to send next to narrow the candidates."""
    common: list[Name] = []
    """Accused for certain of losses common to all paths: `p0:h3>leaf3`, `p0:leaf3>spine*`, `p0:spine*>leaf4`."""
    common_candidates: list[list[Name]] = []
    """Where that stays open; the cause of fewest links first."""
    evidence: list[EvidenceRecord] = []
    untimely: list[EvidenceRecord] = []
    """Healthy verdicts that clear no link: their flows were not under way while packets were lost."""
    pending: Count
    """Verdicts on paths still owed; with 0 the epoch is complete."""
    insufficient: Count = 0
    first_named_ns: Nanoseconds | None = None


class Select(Struct, frozen=True, kw_only=True, tag_field="event", tag="SELECT"):
    """A source leaf that measures one flow at a time has chosen this one."""

    ts: Name
    mono_ns: Nanoseconds
    v: Version = VERSION
    node: Name
    """The source leaf."""
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
    """The leaf that has no room: the flow's source, or its destination."""
    epoch: Count
    plane: Plane
    src_leaf: Switch
    dst_leaf: Switch
    src_host: Host
    dst_host: Host
    qpn: QueuePair
    reason: Text
    """What it has no room for."""


class Start(Struct, frozen=True, kw_only=True, tag_field="event", tag="SPRAYCHECK_START"):
    """Detection runs from here on."""

    ts: Name
    mono_ns: Nanoseconds
    v: Version = VERSION
    node: Name = "monitor"
    leaves: Count
    counter_bits: Count
    """Of each counter."""
    counter_bytes: Count
    """Counters of arrivals that a leaf holds for one flow."""
    record_bytes: Count
    """All that a leaf holds for one flow."""
    run_alarm: float
    """Probability, at most, that a healthy run has anything flagged by what senders declare."""
    run_tests: Count
    """Tests among which it is divided."""
