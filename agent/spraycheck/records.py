"""The lines of detect.jsonl: DETECT, one a path of a measured flow, and LOCALIZE, one a change of the accusation.

Pure: from reports to records, and the moment is an argument. Field names are those users of such tools expect.
"""

from datetime import UTC, datetime

from msgspec import Struct

from agent.spraycheck.dataplane import Counting
from agent.spraycheck.deciding import DecidingFlow
from agent.spraycheck.detector import Asked
from agent.spraycheck.doubt import DoubtKind
from agent.spraycheck.leaf import ChosenFlow, FlowReport, RefusedFlow
from agent.spraycheck.localize import Evidence
from agent.spraycheck.monitor import Accusation, AddedUp, LinksAddedUp
from agent.spraycheck.paths import leaf_name
from agent.wire.ranges import VERSION, Amount, Count, Host, Name, Nanoseconds, Plane, QueuePair, Switch, Text, Version


class Stamp(Struct, frozen=True):
    """When a record is made."""

    utc_ns: int
    mono_ns: int

    @property
    def text(self) -> str:
        """RFC 3339, UTC, microseconds."""
        seconds, ns = divmod(self.utc_ns, 10**9)
        moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=ns // 1000, tzinfo=None)
        return moment.isoformat(timespec="microseconds") + "Z"


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
    src_host: Host
    dst_host: Host
    qpn: QueuePair
    expectation: Name
    """`uniform` or `declared`: what `lambda` is."""
    packets: Count
    paths: Count
    expected: Amount
    count: Count
    late: Count
    """Packets of the count that came after the last PSN."""
    trimmed: Count
    """Packets of the count that lost their payload to congestion."""
    again: Count
    """Retransmissions that came besides."""
    flagged: bool | None
    """Whether the data plane found the count below the threshold when the last PSN came; None: not asked in time."""
    threshold: Amount | None
    s: float | None
    snr: float | None
    p_value: float | None
    """Probability that a healthy path's count is this or less; of this test alone."""
    miss: float | None
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


class AddedUpRecord(
    Struct, frozen=True, kw_only=True, rename={"packets": "N", "paths": "k", "expected": "lambda"}, tag_field="event",
    tag="ADDED_UP",
):  # fmt: skip
    """What flows of one pair of leaves, too small to be judged alone, say of one path together; one record a path."""

    ts: Name
    mono_ns: Nanoseconds
    v: Version = VERSION
    node: Name
    epoch: Count
    plane: Plane
    spine: Switch
    src_leaf: Switch
    dst_leaf: Switch
    expectation: Name = "uniform"
    qpns: list[QueuePair]
    """Of the flows. Their DETECTs stay as they were."""
    packets: Count
    paths: Count
    expected: Amount
    count: Count
    threshold: Amount
    s: float
    snr: float
    p_value: float | None
    miss: float
    verdict: Name
    doubt: DoubtKind | None = None
    reason: Text | None


class LinkSumRecord(Struct, frozen=True, kw_only=True, tag_field="event", tag="LINK_SUM"):
    """What all flows over one link lost of what they declared; of links over which a flow went that said too little."""

    ts: Name
    mono_ns: Nanoseconds
    v: Version = VERSION
    node: Name = "monitor"
    epoch: Count
    link: Name
    expectation: Name = "declared"
    flows: Count
    """That sent anything over it. Their DETECTs stay as they were."""
    sent: Count
    """Of a link that is neither named nor among candidates: on paths that cross no such link."""
    lost: Count
    p_value: float
    """Probability that stray losses alone are as many; of this test alone."""
    miss: float
    """Probability that a drop of the asked rate on this link would not be flagged here."""
    verdict: Name
    """`failed`, `healthy` (the link is cleared) or `insufficient`."""
    doubt: DoubtKind | None = None
    reason: Text | None
    """Why `insufficient`."""


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

    path: Name
    src_leaf: Switch
    dst_leaf: Switch
    rate: float | None
    packets: Count | None
    """Packets a path."""


class Localize(Struct, frozen=True, kw_only=True, tag_field="event", tag="LOCALIZE"):
    """What is accused in one epoch, as far as is known."""

    ts: Name
    mono_ns: Nanoseconds
    v: Version = VERSION
    node: Name = "monitor"
    epoch: Count
    expectation: Name
    state: Name
    """`named`, `ambiguous`, `unexplained` or `none`."""
    links: list[Name]
    """Accused for certain."""
    candidates: list[list[Name]]
    """Where the evidence leaves more than one link: one list for each independent failure."""
    fewest: list[Count] = []
    """Of each of `candidates`, how many of its links have failed at least."""
    estimates: list[EstimateRecord]
    """Of each link in the two above: how likely it failed, and its drop rate."""
    deciding: list[DecidingRecord]
    """What to send next to narrow the candidates."""
    common: list[Name]
    """Accused for certain of losses common to all paths: `p0:h3>leaf3`, `p0:leaf3>spine*`, `p0:spine*>leaf4`."""
    common_candidates: list[list[Name]]
    """Where that stays open; the cause of fewest links first."""
    evidence: list[EvidenceRecord]
    untimely: list[EvidenceRecord] = []
    """Healthy verdicts that clear no link: their flows were not under way while packets were lost."""
    pending: Count
    """Verdicts on paths still owed; with 0 the epoch is complete."""
    insufficient: Count
    first_named_ns: Nanoseconds | None


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


def select_record(flow: ChosenFlow, stamp: Stamp) -> Select:
    """The record of a choice."""
    return Select(
        ts=stamp.text,
        mono_ns=stamp.mono_ns,
        node=leaf_name(flow.plane, flow.src_leaf),
        epoch=flow.epoch,
        plane=flow.plane,
        src_leaf=flow.src_leaf,
        dst_leaf=flow.dst_leaf,
        qpn=flow.qpn,
    )


def unmeasured_record(flow: RefusedFlow, stamp: Stamp) -> Unmeasured:
    """The record of a flow that is not measured."""
    return Unmeasured(
        ts=stamp.text,
        mono_ns=stamp.mono_ns,
        node=leaf_name(flow.plane, flow.leaf),
        epoch=flow.epoch,
        plane=flow.plane,
        src_leaf=flow.src_leaf,
        dst_leaf=flow.dst_leaf,
        src_host=flow.src_host,
        dst_host=flow.dst_host,
        qpn=flow.qpn,
        reason=flow.reason,
    )


def start_record(leaves: int, counting: Counting, asked: Asked, stamp: Stamp) -> Start:
    """The record of the process's start."""
    return Start(
        ts=stamp.text,
        mono_ns=stamp.mono_ns,
        leaves=leaves,
        counter_bits=16 if counting.narrow else 32,
        counter_bytes=counting.counter_bytes,
        record_bytes=counting.flow.itemsize,
        run_alarm=asked.run_alarm,
        run_tests=asked.run_tests,
    )


def detect_records(report: FlowReport, stamp: Stamp) -> list[Detect]:
    """One record a path, in the order of the spines."""
    flow, test, counts = report.flow, report.test, report.counts
    return [
        Detect(
            ts=stamp.text,
            mono_ns=stamp.mono_ns,
            node=leaf_name(flow.plane, flow.dst_leaf),
            epoch=flow.epoch,
            plane=flow.plane,
            spine=report.spines[each.path],
            src_leaf=flow.src_leaf,
            dst_leaf=flow.dst_leaf,
            src_host=flow.src_host,
            dst_host=flow.dst_host,
            qpn=flow.qpn,
            expectation=report.expectation,
            packets=flow.packets,
            paths=test.shape.paths if test else len(report.spines),
            expected=report.expected[each.path],
            count=each.count,
            late=int(counts.late[each.path]),
            trimmed=int(counts.trimmed[each.path]),
            again=int(counts.again[each.path]),
            flagged=None if counts.flagged is None else bool(counts.flagged[each.path]),
            threshold=test.threshold if test else None,
            s=test.calibration.s if test else None,
            snr=test.snr if test else each.snr,
            miss=test.miss if test else None,
            p_value=each.p_value,
            verdict=each.verdict,
            doubt=each.doubt.kind if each.doubt else None,
            reason=each.doubt.text if each.doubt else None,
            entered=report.entered,
            began_ns=report.span.from_ns if report.span else None,
            ended_ns=report.span.to_ns if report.span else None,
            lost_from_ns=report.lossy.window.from_ns if report.lossy else None,
            lost_to_ns=report.lossy.window.to_ns if report.lossy else None,
        )
        for each in report.verdicts
    ]


def added_up_records(added: AddedUp, stamp: Stamp) -> list[AddedUpRecord]:
    """One record a path, in the order of the spines."""
    total, flows = added.total, added.total.members
    test, pair = total.test, total.pair
    return [
        AddedUpRecord(
            ts=stamp.text,
            mono_ns=stamp.mono_ns,
            node=leaf_name(pair.plane, pair.dst_leaf),
            epoch=added.epoch,
            plane=pair.plane,
            spine=flows[0].spines[each.path],
            src_leaf=pair.src_leaf,
            dst_leaf=pair.dst_leaf,
            qpns=[report.flow.qpn for report in flows],
            packets=test.shape.packets,
            paths=test.shape.paths,
            expected=test.shape.expected,
            count=each.count,
            threshold=test.threshold,
            s=test.calibration.s,
            snr=test.snr,
            p_value=each.p_value,
            miss=test.miss,
            verdict=each.verdict,
            doubt=each.doubt.kind if each.doubt else None,
            reason=each.doubt.text if each.doubt else None,
        )
        for each in total.verdicts
    ]


def link_sum_records(added: LinksAddedUp, stamp: Stamp) -> list[LinkSumRecord]:
    """One record a link, in the order of links."""
    return [
        LinkSumRecord(
            ts=stamp.text,
            mono_ns=stamp.mono_ns,
            epoch=added.epoch,
            link=str(each.link),
            flows=each.flows,
            sent=each.sent,
            lost=each.lost,
            p_value=each.p_value,
            miss=each.miss,
            verdict=each.verdict,
            doubt=each.doubt.kind if each.doubt else None,
            reason=each.doubt.text if each.doubt else None,
        )
        for each in sorted(added.sums, key=lambda each: each.link)
    ]


def localize_record(accusation: Accusation, stamp: Stamp) -> Localize:
    """The record of an accusation."""
    found = accusation.localization
    return Localize(
        ts=stamp.text,
        mono_ns=stamp.mono_ns,
        epoch=accusation.epoch,
        expectation=accusation.expectation,
        state=found.finding,
        links=[str(link) for link in found.links],
        candidates=[[str(link) for link in each] for each in found.candidates],
        fewest=list(found.fewest),
        estimates=[EstimateRecord(str(each.link), each.likelihood, each.rate) for each in found.estimates],
        deciding=[_deciding_record(each) for each in found.deciding],
        common=[str(cause) for cause in found.common.causes],
        common_candidates=[[str(cause) for cause in each] for each in found.common.candidates],
        evidence=[_evidence_record(each) for each in found.evidence],
        untimely=[_evidence_record(each) for each in found.untimely],
        pending=accusation.pending,
        insufficient=accusation.insufficient,
        first_named_ns=accusation.first_named_ns,
    )


def _evidence_record(evidence: Evidence) -> EvidenceRecord:
    path = evidence.path
    return EvidenceRecord(str(path), leaf_name(path.plane, path.dst_leaf), evidence.qpn, path.spine, evidence.verdict)


def _deciding_record(flow: DecidingFlow) -> DecidingRecord:
    return DecidingRecord(str(flow.path), flow.path.src_leaf, flow.path.dst_leaf, flow.rate, flow.packets)
