"""Holds the result of a run: one record for programs (`summary.json`), the same as a text page for people.

The page shows only what the record has and decides nothing: `scenarios.run.judge.checks` judges.
"""

from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap

import msgspec

from agent.wire.record_ranges import (
    Amount,
    Count,
    Difference,
    Late,
    Name,
    Nanoseconds,
    QueuePair,
    Seconds,
    Seed,
    Text,
    Version,
)
from results.metrics import Totals, totals_of
from results.records.perf_rows import HEADER, CollectiveRow, row_line
from results.records.rejected import Rejected, rejected_lines
from results.records.witnesses import Witness, witness_lines
from results.text import count_text, fault_text, in_force_text, open_sets, share_text, untimely_text

_WITNESSES = {"spraycheck": "SprayCheck"}

SHOWN_FLOWS = 32
"""Most flows that the page lists; `summary.json` has the others."""

LINE = 110
"""Columns of a line after its label, so that a page has 120."""

_COUNTS_NOTHING = "link"
"""Mechanism that shuts a port; it counts nothing where nothing is sent."""

SHOWN_ALIKE = 8
"""Most faults, equal except for link and counts, with a line each; more of them share one."""

SHOWN_REASONS = 4
"""Most reasons of insufficient verdicts; the rest is in `detect.jsonl`."""


class Reordering(msgspec.Struct, frozen=True):
    """Reordering extents of a flow's first transmissions (RFC 4737, section 4.2)."""

    in_order: Count
    late: Late
    """`late[b]` counts packets of extent 2^b .. 2^(b+1) - 1."""
    most: Count


class FlowResult(msgspec.Struct, frozen=True):
    """One queue pair's writes."""

    source: Name
    destination: Name
    qpn: QueuePair
    """Queue pair at the destination, by which packets and `detect.jsonl` identify the flow."""
    state: Text
    payload_bytes: Count
    acked_bytes: Count
    packets: Count
    """First transmissions."""
    retransmissions: Count
    timeouts: Count
    seconds: Seconds | None
    """Time from the first packet to the last acknowledgement; None when it did not end."""
    goodput_bps: Amount | None
    """Payload bits per second."""
    bytes_verified: Count
    bytes_wrong: Count
    reordering: Reordering | None = None
    workload: Text = "write"
    """`write`, or the collective that it is a part of, which compares its numbers itself."""
    asked_bps: Amount | None = None
    """Requested payload bits per second; None: as fast as windows allow."""
    at_s: Seconds = 0.0
    """Requested start, after the start of traffic."""
    is_barrier: bool = False
    """Whether it carries only barriers of a collective: a few bytes, so that its rate means nothing."""
    began_s: Seconds | None = None
    """Measured time of its first packet, after the first one of all flows; None if it sent none."""
    source_qpn: QueuePair | None = None
    """Queue pair at the source, by which `agent.jsonl` identifies the flow; None in older runs."""
    duplicates: Count = 0
    """Packets that arrived although the destination had them: resent too early, or copied by a fault."""

    @property
    def resent_early(self) -> int:
        """Retransmissions of packets that had already arrived, so that nothing was lost."""
        return min(self.retransmissions, self.duplicates)


class Injected(msgspec.Struct, frozen=True):
    """One direction with a fault, and the kernel's counts of it during the run."""

    link: Name
    kind: Text
    requested: Amount | None
    """Requested drop rate, as a fraction; None for kinds that drop nothing on purpose."""
    in_force: Amount | None
    """Drop rate that the kernel held."""
    mechanism: Text
    by: Text
    seen: Count
    dropped: Count
    dropped_writes: Count | None
    explains: Difference | None = None
    """Retransmissions that it explains: lost or corrupted in its direction, or lost in the other at a shut port."""
    requested_text: Text = ""
    """The requested amount, for people: `1%`, `10ms`."""
    in_force_text: Text = ""
    dropped_reverse: Count | None = None
    """Packets that the other end could not send while the port was shut; None for kinds that shut none."""
    hit: Count | None = None
    """Packets that the fault affected, dropped or not; None where the mechanism does not count them."""


class Accusation(msgspec.Struct, frozen=True):
    """One link that a witness named."""

    link: Name
    witness: Text
    by: tuple[Text, ...]
    """Nodes whose verdicts support it."""
    after_s: Seconds | None
    """Seconds since the first packet of the run."""
    right: bool
    changed: bool = False
    """Whether it names a link that somebody else changed (`Summary.changed`); then it is neither right nor wrong."""


class Detected(msgspec.Struct, frozen=True):
    """The witnesses' conclusion, and how it compares with the truth."""

    state: Text
    """`named`, `ambiguous`, `unexplained`, `none`, or `silent` when there was no conclusion."""
    named: tuple[Accusation, ...]
    candidates: tuple[tuple[Text, ...], ...]
    """Sets of links among which the evidence cannot decide."""
    missed: tuple[Text, ...]
    verdicts: dict[Text, Count]
    """Number of paths that are `failed`, `healthy`, `insufficient`, each by all flows over it."""
    verdicts_wanted: Count
    """Number of paths of all measured flows."""
    precision: Amount | None
    recall: Amount | None
    expected: tuple[Text, ...] | None = None
    """Links that the scenario requires to be named; None if the truth decides."""
    insufficient: dict[Text, Count] = {}
    """Number of `insufficient` verdicts by reason, the most frequent first."""
    expectation: Text = "uniform"
    """Expectation whose SprayCheck verdicts count here: `uniform` or `declared`."""
    unannounced: Count = 0
    """Queue pairs of collectives, one per direction, that were not announced: too short for a verdict alone where
    leaves measure one flow at a time.
    """
    decides: bool = True
    """Whether the scenario judges by it; False where it is only recorded (`expect.detection: recorded`)."""
    common: tuple[Accusation, ...] = ()
    """Common causes accused of losses on all paths of flows: a host's link, or all links of a leaf in one direction."""
    common_candidates: tuple[tuple[Text, ...], ...] = ()
    """Sets of common causes among which the evidence cannot decide."""
    added_up: Count = 0
    """Number of `verdicts` that rest on several flows together."""
    explained: Count = 0
    """Undecided links behind what is named: rightly in `common`, or a link that all flows over them cross."""
    fewest: tuple[Count, ...] = ()
    """Least number of failed links in each set of `candidates`; empty in older runs."""
    suspected: tuple[Text, ...] = ()
    """Links that lost data and are among candidates: neither named nor missed."""
    untimely: Count = 0
    """Healthy verdicts that clear no link, because their flows sent nothing while packets were lost."""
    unmeasured: dict[Text, Count] = {}
    """Flows that a leaf did not measure, counted per plane, by their hosts, the leaf and the reason: neither
    healthy nor failed.
    """
    links: dict[Text, Count] = {}
    """Number of directions of links with measured traffic that are `failed`, `healthy`, `undecided`."""
    links_wanted: Count = 0
    """Number of such directions; 0 in older runs."""
    idle: Count = 0
    """Directions on paths of measured flows over which nothing was sent."""
    undecided: dict[Text, Text] = {}
    """Directions that may or may not have failed, and why; without those that `explained` counts."""
    run_alarm: Amount | None = None
    """Highest probability that a healthy run like this has anything flagged by `declared`; null with 16 bits."""
    run_tests: Count | None = None
    """Number of tests that share this probability."""


class Check(msgspec.Struct, frozen=True):
    """One check of the run."""

    name: Text
    ok: bool
    detail: Text


class Load(msgspec.Struct, frozen=True):
    """Load of this machine: whether it kept up, so that the numbers are valid."""

    overloaded: bool
    reasons: tuple[Text, ...]
    ring_drops: Difference
    softnet_drops: Difference
    tx_errors: Difference
    unexplained_losses: Difference
    unexplained_limit: Count
    sched_wait_share: Amount
    """Share of the engines' time spent waiting for a core."""
    sched_wait_worst: Amount | None = None
    """The same share of one engine in its worst second."""
    warnings: tuple[Text, ...] = ()
    """Warnings that do not make the verdict unreliable."""
    events_cut: Count = 0
    """Records of agents that were dropped during this run by `limits.events`; some may be of earlier runs."""
    rejected: tuple[Rejected, ...] = ()
    """Packets that agents rejected in this run."""


class LabChange(msgspec.Struct, frozen=True):
    """A difference from the plan of the lab that spraylab did not make."""

    node: Text
    port: Text
    """Port; empty for what belongs to the whole node."""
    what: Text
    """`mtu`, `state`, `address`, `queue`, `program`, `route`, `neighbour`, `setting`, `port`, `node` or `fault`."""
    planned: Text
    found: Text
    words: Text
    """The difference, for people."""
    links: tuple[Name, ...]
    """Directions that may lose packets because of it."""
    when: Text
    """When it was found: `before` the run, `after` it, or `both`."""

    def __str__(self) -> str:
        """Format it as `p0-spine1 port leaf0 has MTU 1500, planned 9000`."""
        return f"{self.node}{f' port {self.port}' if self.port else ''} {self.words}"


class CaptureResult(msgspec.Struct, frozen=True):
    """One capture file."""

    file: Text
    captured: Count | None
    dropped: Count | None
    snaplen: Count | None = None
    """Bytes of each packet that it holds, at most."""
    full: bool = False
    """Whether it ended before the run, because it reached its share of `limits.captures`."""
    ended: Text = ""
    """How tcpdump ended, as `killed by SIGKILL`, if not as intended."""


class StageTime(msgspec.Struct, frozen=True):
    """Duration of one stage of the run."""

    name: Text
    seconds: Seconds


class Summary(msgspec.Struct, frozen=True):
    """The content of `summary.json`."""

    v: Version
    run: Text
    scenario: Text
    seed: Seed
    outcome: Text
    """`pass`, `fail` or `overloaded`."""
    fabric: Text
    folder: Text
    totals: Totals
    flows: tuple[FlowResult, ...]
    injected: tuple[Injected, ...]
    detected: Detected
    checks: tuple[Check, ...]
    load: Load
    captures: tuple[CaptureResult, ...]
    stages: tuple[StageTime, ...]
    first_packet_mono_ns: Nanoseconds | None = None
    """Monotonic time of the first packet; None when no flow began."""
    collectives: tuple[CollectiveRow, ...] = ()
    witnesses: tuple[Witness, ...] = ()
    """Results of MRC's own events and of SprayCheck by both expectations."""
    changed: tuple[LabChange, ...] = ()
    """Differences from the plan that spraylab did not make, before the run with `--attach` or after any run."""


def data_flows(flows: Sequence[FlowResult]) -> tuple[FlowResult, ...]:
    """Flows that carry data; the others carry a collective's barriers, a few bytes each."""
    return tuple(flow for flow in flows if not flow.is_barrier)


def barriers_of(flows: Sequence[FlowResult]) -> Totals | None:
    """Sums of all queue pairs that carry only barriers; None if there are none."""
    barriers = [flow for flow in flows if flow.is_barrier]
    return totals_of(barriers, None) if barriers else None


def flows_text(flows: Sequence[FlowResult]) -> str:
    """Format the counts: `4 flows and 4 queue pairs of barriers`."""
    barriers = barriers_of(flows)
    also = "" if barriers is None else f" and {count_text(barriers.flows, 'queue pair')} of barriers"
    return f"{count_text(len(data_flows(flows)), 'flow')}{also}"


def rightness_of(flow: FlowResult, collectives: Sequence[CollectiveRow]) -> tuple[bool, str]:
    """Return whether the received data is right, and how that is known; collectives compare their numbers
    themselves.
    """
    if flow.workload != "write":
        return _numbers_of(flow.workload, collectives)
    if flow.bytes_wrong:
        return False, f"{count_text(flow.bytes_wrong, 'byte')} wrong"
    if flow.bytes_verified < flow.payload_bytes:
        return False, f"{size_text(flow.bytes_verified)} compared"
    return True, "byte for byte"


def _numbers_of(workload: str, collectives: Sequence[CollectiveRow]) -> tuple[bool, str]:
    rows = [row for row in collectives if row.name == workload]
    if not rows:
        return False, f"{workload} did not end"
    wrong = sum(row.wrong or 0 for row in rows)
    return not wrong, f"{workload}: {count_text(wrong, 'number')} wrong" if wrong else f"checked round of {workload}"


def summary_json(summary: Summary) -> bytes:
    """Indented JSON with a final newline."""
    return msgspec.json.format(msgspec.json.encode(summary)) + b"\n"


def summary_text(summary: Summary) -> str:
    """Return the page for people: plain text, at most 120 columns."""
    blocks = (
        [f"{summary.scenario}  seed {summary.seed}  {summary.fabric}  {summary.outcome.upper()}"],
        [*_flow_lines(summary)],
        [*_collective_lines(summary.collectives)],
        [*witness_lines(summary.witnesses)],
        [
            *_labelled("Traffic", _traffic_lines(summary)),
            *_labelled("Injected", [*_injected_lines(summary.injected)] or ["nothing"]),
            *_labelled("Changed", [*_changed_lines(summary.changed)]),
            *_labelled("Detected", [*_detected_lines(summary.detected, summary.injected)]),
            *_labelled("Captured", [line for capture in summary.captures for line in _capture_lines(capture)]),
            *_labelled("Rejected", [*rejected_lines(summary.load.rejected)]),
            *_labelled("Machine", [*_load_lines(summary.load)]),
            *_labelled("Checks", [f"{'ok  ' if c.ok else 'FAIL'}  {c.name}: {c.detail}" for c in summary.checks]),
            *_labelled("Folder", [summary.folder]),
        ],
    )
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _labelled(label: str, lines: Sequence[str]) -> Iterator[str]:
    for at, line in enumerate(lines):
        yield f"{label if at == 0 else '':<10}{line}"


def _collective_lines(rows: Sequence[CollectiveRow]) -> Iterator[str]:
    if rows:
        yield HEADER
    for row in rows:
        yield f"{row_line(row)}  {row.name}"


def _flow_lines(summary: Summary) -> Iterator[str]:
    flows, barriers = data_flows(summary.flows), barriers_of(summary.flows)
    if len(flows) > SHOWN_FLOWS:
        return
    asked = f"{'asked':>14}" if any(flow.asked_bps for flow in flows) else ""
    yield f"{'flow':<12}{'data':>10}{'packets':>11}{'resent':>10}{'time':>10}{asked}{'goodput':>14}  verified"
    for flow in flows:
        time = f"{flow.seconds:,.2f} s" if flow.seconds is not None else flow.state
        rate = f"{_rate_text(flow.goodput_bps):>14}"
        if asked:
            rate = f"{_rate_text(flow.asked_bps):>14}{rate}"
        ok, told = rightness_of(flow, summary.collectives)
        right = told if flow.workload != "write" or not ok else "yes"
        name = f"{flow.source}>{flow.destination}"
        data = size_text(flow.payload_bytes)
        yield f"{name:<12}{data:>10}{flow.packets:>11,}{flow.retransmissions:>10,}{time:>10}{rate}  {right}"
    if barriers is not None:
        sums = f"{size_text(barriers.payload_bytes):>10}{barriers.packets:>11,}{barriers.retransmissions:>10,}"
        yield f"{'barriers':<12}{sums}  on {count_text(barriers.flows, 'queue pair')}"


def _rate_text(bps: float | None) -> str:
    return "-" if bps is None else f"{bps / 1e6:,.1f} Mb/s"


def _traffic_lines(summary: Summary) -> list[str]:
    totals, rate = summary.totals, ""
    if totals.goodput_bps is not None and totals.packets_per_s is not None:
        rate = f": {totals.goodput_bps / 1e6:,.1f} Mb/s of payload, {totals.packets_per_s:,.0f} packets/s"
    ended = f"in {totals.seconds:,.2f} s" if totals.seconds is not None else "not finished"
    data = f"{size_text(totals.acked_bytes)} of {size_text(totals.payload_bytes)}"
    return [
        f"{flows_text(summary.flows)}, {data} {ended}{rate}",
        f"{totals.retransmissions:,} of {count_text(totals.packets, 'packet')} resent "
        f"({share_text(totals.retransmission_share)}), {count_text(totals.timeouts, 'timeout')}; "
        f"{'; '.join(_compared(summary))}",
    ]


def _compared(summary: Summary) -> Iterator[str]:
    """State what was compared with the sent data: the bytes of writes, the numbers of collectives."""
    totals, rows = summary.totals, summary.collectives
    if any(flow.workload == "write" for flow in summary.flows) or not summary.flows:
        yield f"{size_text(totals.bytes_verified)} verified, {count_text(totals.bytes_wrong, 'byte')} wrong"
    if rows:
        checked, wrong = (sum(getattr(row, name) or 0 for row in rows) for name in ("checked", "wrong"))
        yield f"{count_text(checked, 'number')} of one round verified, {wrong:,} wrong"


def _injected_lines(injected: Sequence[Injected]) -> Iterator[str]:
    """Yield one line per fault; those that met no packet and differ only in the link share one, and so do many of
    one kind.
    """
    for alike in _alike(injected).values():
        if len(alike) > SHOWN_ALIKE:
            yield _sum_text(alike)
            continue
        links_of: dict[tuple[str, int | None], list[str]] = {}
        for at, fault in enumerate(alike):
            links_of.setdefault((_injected_text(fault), at if _met_some(fault) else None), []).append(fault.link)
        for (text, _), links in links_of.items():
            yield f"{_links_text(links)} {text}"
    yield from _idle_lines(injected)


def _alike(injected: Sequence[Injected]) -> dict[str, list[Injected]]:
    """Group faults that differ only in link, time and counts, by their text."""
    found: dict[str, list[Injected]] = {}
    for fault in injected:
        found.setdefault(_order_text(fault), []).append(fault)
    return found


def _links_text(links: Sequence[str]) -> str:
    """Return the first link, and how many more; a link is repeated in `links` if it was set several times."""
    more = len(set(links)) - 1
    return f"{links[0]} and {more:,} more, each" if more else links[0]


def _sum_text(alike: Sequence[Injected]) -> str:
    """Describe many faults of one kind in one line, with their sums."""
    links = [fault.link for fault in alike]
    total = msgspec.structs.replace(
        alike[0],
        seen=sum(fault.seen for fault in alike),
        dropped=sum(fault.dropped for fault in alike),
        dropped_writes=_sum_of([fault.dropped_writes for fault in alike]),
        hit=_sum_of([fault.hit for fault in alike]),
        dropped_reverse=_sum_of([fault.dropped_reverse for fault in alike]),
    )
    idle = sum(not _met_some(fault) for fault in alike)
    met = f"; {idle:,} met no packet" if 0 < idle < len(alike) else ""
    return f"{_links_text(links)} {_injected_text(total)} in sum of {len(alike):,}{met} (each one: summary.json)"


def _sum_of(counts: Sequence[int | None]) -> int | None:
    told = [count for count in counts if count is not None]
    return sum(told) if len(told) == len(counts) else None


def _met_some(fault: Injected) -> bool:
    return bool(fault.seen or fault.dropped or fault.dropped_reverse)


def _idle_lines(injected: Sequence[Injected]) -> Iterator[str]:
    """Warn about faults that met no packet, where that is counted: such a run shows nothing about them."""
    idle = [fault.link for fault in injected if not _met_some(fault) and fault.mechanism != _COUNTS_NOTHING]
    if idle:
        all_of_them = count_text(len(injected), "fault")
        which = "the fault" if len(injected) == 1 else f"{len(idle):,} of {all_of_them}"
        yield f"warning: {which} met no packet, so this run does not show its effect"


def _changed_lines(changed: Sequence[LabChange]) -> Iterator[str]:
    """Yield one line per change, and a line that spraylab did not make them."""
    for each in changed:
        yield f"{each}, found {_WHEN[each.when]}"
    if changed:
        yield "by somebody else, not by spraylab: links that may lose packets because of it are not scored"


_WHEN = {"before": "before the run, not after it", "after": "after the run", "both": "before and after the run"}


def _injected_text(fault: Injected) -> str:
    """Describe a fault, without its link."""
    hit = f", {fault.hit:,} hit" if fault.hit and fault.hit != fault.dropped else ""
    reverse = f", {fault.dropped_reverse:,} lost the other way" if fault.dropped_reverse else ""
    return f"{_order_text(fault)}: {count_text(fault.seen, 'packet')} seen, {_dropped_text(fault)}{hit}{reverse}"


def _dropped_text(fault: Injected) -> str:
    """Format how many packets a fault dropped, and how many of them carried data, which alone is resent."""
    told, data = f"{fault.dropped:,} dropped", fault.dropped_writes
    if data is None or not fault.dropped:
        return told
    if data == fault.dropped:
        return f"{told} ({'all ' if data > 1 else ''}data)"
    return f"{told} ({data:,} data, {fault.dropped - data:,} other)"


def _order_text(fault: Injected) -> str:
    """Describe what was requested and what is in force."""
    set_by = "" if fault.by == "scenario" else f", set by {fault.by}"
    in_force = in_force_text(fault.kind, fault.requested_text, fault.in_force_text)
    return f"{fault_text(fault.kind, fault.requested_text)} by {fault.mechanism} ({in_force}, read back{set_by})"


def _detected_lines(detected: Detected, injected: Sequence[Injected]) -> Iterator[str]:
    if not detected.decides:
        yield "recorded, decides nothing: the scenario does not judge the run by named links"
    elif detected.expected is not None and {*detected.expected} != {each.link for each in detected.named}:
        yield f"the scenario expects {', '.join(detected.expected) or 'no link to be named'}"
    for named in detected.named:
        when = "" if named.after_s is None else f", {named.after_s:,.2f} s after the first packet"
        right = _rightness(named, detected.expected, injected)
        yield f"{named.link} by {_WITNESSES.get(named.witness, named.witness)} on {', '.join(named.by)}{when}: {right}"
    for cause in detected.common:
        right = "right" if cause.right else _BY_OTHERS if cause.changed else "WRONG"
        yield f"{cause.link} by SprayCheck on {', '.join(cause.by)}: all paths over it lose packets alike: {right}"
    yield from _open_lines(detected)
    for link in detected.missed:
        yield f"{link} {_missed_text(link, detected)}"
    told_of = {*detected.missed, *detected.suspected, *(each.link for each in (*detected.named, *detected.common))}
    for link in sorted({*(detected.expected or ())} - told_of):
        yield f"{link} was not named; it dropped nothing"
    if not detected.named and not detected.candidates:
        yield f"no link between switches named ({detected.state})"
    if detected.unannounced:
        pairs = count_text(detected.unannounced, "queue pair")
        yield f"not announced, because too short for leaves that measure one flow at a time: {pairs}"
    told = ", ".join(f"{count:,} {verdict}" for verdict, count in sorted(detected.verdicts.items()))
    if detected.links_wanted:
        links = ", ".join(f"{count:,} {verdict}" for verdict, count in sorted(detected.links.items()))
        yield f"links that carried traffic, {detected.links_wanted:,}: {links or 'no conclusion'}"
    heard = f"paths, {detected.verdicts_wanted:,}, by expectation {detected.expectation}"
    yield f"{heard}: {told or 'no conclusion'}"
    yield from _added_up_lines(detected)
    yield from _alarm_lines(detected)
    yield from _insufficient_lines(detected)


def _open_lines(detected: Detected) -> Iterator[str]:
    """Explain what the evidence leaves open."""
    for links in (*open_sets(detected.candidates, detected.fewest), *open_sets(detected.common_candidates)):
        yield f"{links}: the evidence does not show which"
    for link in detected.suspected:
        yield f"{link} dropped: it is one of these suspects, so it is neither named nor missed"
    if detected.untimely:
        yield untimely_text(detected.untimely)


def _added_up_lines(detected: Detected) -> Iterator[str]:
    if detected.added_up:
        yield f"{count_text(detected.added_up, 'path')} judged only by several flows together; each alone is too small"


def _alarm_lines(detected: Detected) -> Iterator[str]:
    if detected.expectation == "declared" and detected.run_alarm is not None and detected.run_tests is not None:
        share = share_text(detected.run_alarm)
        yield f"at most {share} of healthy runs have anything flagged (stated, over {detected.run_tests:,} tests)"


def _insufficient_lines(detected: Detected) -> Iterator[str]:
    for link, why in list(detected.undecided.items())[:SHOWN_REASONS]:
        yield from wrap(f"undecided: {link}: {why}", LINE, subsequent_indent="  ")
    if len(detected.undecided) > SHOWN_REASONS:
        yield f"undecided: {len(detected.undecided) - SHOWN_REASONS:,} more, see summary.json"
    yield from _reason_lines("insufficient", detected.insufficient, "other reasons, see detect.jsonl")
    yield from _reason_lines("not measured", detected.unmeasured, "others, see UNMEASURED in detect.jsonl")


def _reason_lines(what: str, counts: Mapping[str, int], others: str) -> Iterator[str]:
    reasons = list(counts.items())
    for reason, count in reasons[:SHOWN_REASONS]:
        yield from wrap(f"{what}: {count:,}: {reason}", LINE, subsequent_indent="  ")
    if len(reasons) > SHOWN_REASONS:
        yield f"{what}: {sum(count for _, count in reasons[SHOWN_REASONS:]):,}: {others}"


def _missed_text(link: str, detected: Detected) -> str:
    if not detected.decides:
        return "was not named"
    expected = detected.expected is None or link in detected.expected
    return "was MISSED" if expected else "drops and was not named, which the scenario does not ask for"


_BY_OTHERS = "neither right nor wrong: somebody else changed it"


def _rightness(named: Accusation, expected: tuple[str, ...] | None, injected: Sequence[Injected]) -> str:
    """Compare a name with the truth, and with the scenario's expectation if it has one."""
    if named.changed:
        return _BY_OTHERS
    if expected is None or named.link in expected:
        return "right" if named.right else "WRONG" if expected is None else "as expected, though it did not drop"
    setters = sorted({fault.by for fault in injected if fault.link == named.link and fault.dropped})
    return f"not expected (it does drop, set by {', '.join(setters)})" if named.right else "WRONG"


def _capture_lines(capture: CaptureResult) -> Iterator[str]:
    if capture.captured is None:
        how = f": it was {capture.ended}, and the file ends there" if capture.ended else ""
        yield f"{capture.file}: tcpdump did not report its counts{how}"
        return
    cut = "" if capture.snaplen is None else f" of up to {capture.snaplen:,} bytes"
    yield f"{capture.file}: {count_text(capture.captured, 'packet')}{cut}, {capture.dropped:,} dropped by the kernel"
    if capture.full:
        yield "  FULL: it reached its share of limits.captures; later packets are missing"


def _load_lines(load: Load) -> Iterator[str]:
    counts = ((load.ring_drops, "ring drop"), (load.softnet_drops, "softnet drop"), (load.tx_errors, "send error"))
    unexplained = (
        f"{count_text(load.unexplained_losses, 'loss', 'losses')} unexplained (limit {load.unexplained_limit:,})"
    )
    yield ", ".join([*(count_text(count, what) for count, what in counts), unexplained])
    worst = "" if load.sched_wait_worst is None else f" ({load.sched_wait_worst:.1%} in the worst second of one engine)"
    yield f"engines waited {load.sched_wait_share:.1%} of their time for a core{worst}"
    for warning in load.warnings:
        yield f"warning: {warning}"
    for reason in load.reasons:
        yield f"OVERLOADED: {reason}"
    if load.overloaded:
        yield (
            "not to be trusted: stop other work and run again, or take a smaller window_pkts or a smaller fabric "
            "(gray-link-small, without --attach); a host that uses Scapy needs a lower rate, or the engine ring"
        )


def size_text(count: int) -> str:
    """Format bytes as `16 MiB`, exact where it is whole and with one decimal otherwise."""
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= size:
            return f"{count // size:,} {unit}" if count % size == 0 else f"{count / size:,.1f} {unit}"
    return f"{count:,} B"
