"""From SprayCheck's records of one run to what it said in the end: links named, verdicts, alone and by sums of flows.

Reads records; judges nothing.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import msgspec

from agent.spraycheck.doubt import DoubtKind
from results.files.event_log import Fields
from results.metrics import NS
from results.numbers_text import count_text
from scenarios.run.collect import by_expectation, unmeasured
from scenarios.run.expect import NOT_ADDED_UP, SHORT_ALIKE, Accused, Conclusion
from testbed.model.ids import DirectedLink, NodeId

_Counter = tuple[str, int, int]
"""A leaf, a destination queue pair, an arrival spine: what one verdict is about."""


class _Detect(msgspec.Struct, frozen=True):
    """What is needed of a DETECT record."""

    mono_ns: int
    node: str
    qpn: int
    expectation: str
    plane: int
    spine: int
    src_leaf: int
    dst_leaf: int
    verdict: str
    src_host: int = -1
    expected: float | None = msgspec.field(name="lambda", default=None)
    doubt: DoubtKind | None = None
    reason: str | None = None

    @property
    def counter(self) -> _Counter:
        return self.node, self.qpn, self.spine

    @property
    def pair(self) -> tuple[int, int]:
        """Leaves, from and to."""
        return self.src_leaf, self.dst_leaf

    @property
    def is_weak(self) -> bool:
        """Whether it says nothing for want of packets alone."""
        return self.doubt is DoubtKind.FEW_PACKETS and self.verdict == "insufficient"

    @property
    def is_alike(self) -> bool:
        """Whether it says nothing since its flow's other paths lost packets, too."""
        return self.doubt is DoubtKind.LOST_ALIKE and self.verdict == "insufficient"

    @property
    def is_open(self) -> bool:
        """Whether it says nothing, but more of the same would: of too few packets, or lost by one of several causes."""
        return self.is_weak or self.is_alike

    @property
    def links(self) -> tuple[str, str]:
        """The two fabric links of the path."""
        spine = NodeId.spine(self.plane, self.spine)
        source, destination = NodeId.leaf(self.plane, self.src_leaf), NodeId.leaf(self.plane, self.dst_leaf)
        return str(DirectedLink(self.plane, source, spine)), str(DirectedLink(self.plane, spine, destination))

    @property
    def causes(self) -> tuple[str, str, str]:
        """What the flow's paths have in common in this plane, as LOCALIZE names it."""
        source, host = NodeId.leaf(self.plane, self.src_leaf), NodeId.host(self.src_host)
        up, down = f"p{self.plane}:{source.short}>spine*", f"p{self.plane}:spine*>leaf{self.dst_leaf}"
        return str(DirectedLink(self.plane, host, source)), up, down


class _AddedUp(msgspec.Struct, frozen=True):
    """What is needed of an ADDED_UP record."""

    node: str
    qpns: tuple[int, ...]
    spine: int
    verdict: str


class _LinkSum(msgspec.Struct, frozen=True):
    """What is needed of a LINK_SUM record."""

    link: str
    verdict: str
    flows: int = 0
    sent: int = 0
    doubt: DoubtKind | None = None
    reason: str | None = None


class _Evidence(msgspec.Struct, frozen=True):
    node: str
    qpn: int
    spine: int
    verdict: str


class _Localize(msgspec.Struct, frozen=True):
    """What is needed of a LOCALIZE record."""

    mono_ns: int
    state: str
    links: tuple[str, ...]
    candidates: tuple[tuple[str, ...], ...]
    evidence: tuple[_Evidence, ...]
    pending: int
    common: tuple[str, ...] = ()
    common_candidates: tuple[tuple[str, ...], ...] = ()
    fewest: tuple[int, ...] = ()
    untimely: tuple[_Evidence, ...] = ()

    def names(self, link: str) -> bool:
        """Whether it accuses this for certain."""
        return link in self.links or link in self.common


def conclusion_of(
    records: Sequence[Fields],
    first_packet_ns: int | None,
    wanted: int,
    expectation: str,
    asked: str = "",
    needed: int | None = None,
    left_over: Collection[tuple[int, int]] = (),
    right_causes: Collection[str] = (),
) -> Conclusion:
    """What SprayCheck said in the end by one expectation, from its records of one epoch.

    `wanted` is how many paths it had to judge, `asked` how many packets it would need, in words, and `needed` in
    number; None when no flow can have as many. `left_over` are pairs of leaves, from and to, of which small flows are
    not all judged in sums even where no path is out of use. `right_causes` are common causes of which
    all links did drop.
    """
    mine = list(by_expectation(expectation, records))
    localizes = [msgspec.convert(record, _Localize) for record in mine if record["event"] == "LOCALIZE"]
    last = localizes[-1] if localizes else None
    alone = [msgspec.convert(record, _Detect) for record in mine if record["event"] == "DETECT"]
    detects = _with_sums(alone, [msgspec.convert(each, _AddedUp) for each in mine if each["event"] == "ADDED_UP"])
    links = [msgspec.convert(each, _LinkSum) for each in mine if each["event"] == "LINK_SUM"]
    by_link = {each.link: each for each in links}  # the last word on each
    detects = _with_link_sums(detects, by_link, last.links if last else ())
    adds_up = expectation == "uniform"  # only then are small flows added up (S6), and not those that lack a path
    lacking = {detect.counter[:2] for detect in detects if adds_up and detect.doubt is DoubtKind.NOTHING_SENT}
    causes = {cause for cause in (last.common if last else ()) if cause in right_causes}
    reasons = [
        _why_by_links(detect, by_link, asked, needed)
        or _why(detect, asked, needed, detect.counter[:2] in lacking and detect.pair not in left_over)
        for detect in detects
        if detect.verdict == "insufficient"
    ]
    return Conclusion(
        state=last.state if last else "silent",
        accused=tuple(_accused(link, detects, localizes, first_packet_ns) for link in (last.links if last else ())),
        common=tuple(_common(cause, detects, localizes, first_packet_ns) for cause in (last.common if last else ())),
        candidates=last.candidates if last else (),
        fewest=last.fewest if last else (),
        untimely=len(last.untimely) if last else 0,
        common_candidates=last.common_candidates if last else (),
        verdicts=dict(Counter(detect.verdict for detect in detects)),
        verdicts_wanted=wanted,
        insufficient=dict(Counter(reasons).most_common()),
        expectation=expectation,
        added_up=sum(each.verdict != before.verdict for each, before in zip(detects, alone, strict=True)),
        explained=sum(each.is_alike and not causes.isdisjoint(each.causes) for each in detects),
        unmeasured=dict(Counter(each.text for each in unmeasured(records)).most_common()),
    )


def _with_sums(detects: list[_Detect], sums: Sequence[_AddedUp]) -> list[_Detect]:
    """Verdicts, those that say nothing alone as what the sum of their pair's flows says."""
    told: dict[_Counter, str] = {(each.node, qpn, each.spine): each.verdict for each in sums for qpn in each.qpns}
    return [
        msgspec.structs.replace(each, verdict=told[each.counter])
        if each.verdict == "insufficient" and each.counter in told
        else each
        for each in detects
    ]


def _with_link_sums(detects: list[_Detect], sums: Mapping[str, _LinkSum], named: Sequence[str]) -> list[_Detect]:
    """Verdicts, those that are open as what all flows over the path's links say: one failed, or both cleared."""
    told = {link: each.verdict for link, each in sums.items()}
    return [
        msgspec.structs.replace(each, verdict=_by_links(each, told, named)) if each.is_open else each
        for each in detects
    ]


def _by_links(detect: _Detect, told: Mapping[str, str], named: Sequence[str]) -> str:
    if any(told.get(link) == "failed" and link in named for link in detect.links):
        return "failed"
    cleared = detect.is_weak and all(told.get(link) == "healthy" for link in detect.links)
    return "healthy" if cleared else detect.verdict


def _why_by_links(detect: _Detect, sums: Mapping[str, _LinkSum], asked: str, needed: int | None) -> str:
    """Why the sums over its links do not clear a path too weak alone; empty where no sum over them is open."""
    mine = [sums[link] for link in detect.links if link in sums and sums[link].verdict == "insufficient"]
    if not (asked and mine and detect.is_weak and detect.expected is not None):
        return ""
    least = min(mine, key=lambda each: each.sent)
    has = (
        f"{detect.expected:,.0f} packets a path, {least.sent:,} over a link in sum of {count_text(least.flows, 'flow')}"
    )
    if least.doubt in (None, DoubtKind.FEW_PACKETS) and (needed is None or least.sent < needed):
        return f"{has}, {asked}"
    return f"{has}, yet {least.reason or 'no reason given'}"


def _why(detect: _Detect, asked: str, needed: int | None, lacking: bool) -> str:
    """Why a verdict says nothing, alike for all paths of which the same holds; `lacking`: its flow lacks a path."""
    reason = detect.reason or "no reason given"
    if detect.doubt is DoubtKind.SHORT_ALIKE:
        return SHORT_ALIKE
    if detect.is_weak and lacking:
        return NOT_ADDED_UP
    if asked and detect.expected is not None and detect.is_weak:
        has = f"{detect.expected:,.0f} packets a path"
        return f"{has}, {asked}" if needed is None or detect.expected < needed else f"{has}, yet {reason}"
    return reason


def _accused(
    link: str, detects: Sequence[_Detect], localizes: Sequence[_Localize], first_packet_ns: int | None
) -> Accused:
    """A link, and the verdicts that the accusation rests on."""
    short = {item.counter: item for item in detects if link in item.links}
    evidence = [(item.node, item.qpn, item.spine) for item in localizes[-1].evidence if item.verdict == "failed"]
    return _told(link, [short[counter] for counter in evidence if counter in short], localizes, first_packet_ns)


def _common(
    cause: str, detects: Sequence[_Detect], localizes: Sequence[_Localize], first_packet_ns: int | None
) -> Accused:
    """What all paths of flows have in common, and the verdicts on all these paths."""
    return _told(cause, [item for item in detects if cause in item.causes], localizes, first_packet_ns)


def _told(
    name: str, grounds: Sequence[_Detect], localizes: Sequence[_Localize], first_packet_ns: int | None
) -> Accused:
    """Since when something was named without a break, which leaves say so, and after how many packets."""
    named_ns = localizes[-1].mono_ns
    for record in reversed(localizes):
        if not record.names(name):
            break
        named_ns = record.mono_ns
    after = None if first_packet_ns is None else (named_ns - first_packet_ns) / NS
    before = [item for item in grounds if item.mono_ns <= named_ns]
    packets = sum(round(item.expected or 0) for item in before)
    return Accused(name, tuple(sorted({item.node for item in grounds})), after, named_ns, packets, len(before))
