"""Checks what was recorded against what was expected, with reasons, and whether the machine kept up. Pure."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from faults.kinds import kind_named
from faults.quantities import parse_rate
from faults.uncounted_moments import Outage
from results.records.perf_rows import CollectiveRow
from results.records.rejected import Rejected
from results.summary import (
    Check,
    Detected,
    FlowResult,
    Injected,
    LabChange,
    Load,
    data_flows,
    flows_text,
)
from results.text import count_text, fault_text, open_sets
from scenarios.file.model import Expectation
from scenarios.run.judge.detection import unmeasured_text
from scenarios.run.lab_changes import changes_text, links_of

QUIET_SHARE = Fraction(1, 10_000)
"""Packets that this machine may lose by itself, or send again without a fault, as a share of all data packets (our
choice: a hundredth of the 1 % that the catalog looks for)."""

BUSY_SHARE = 0.5
"""Share of the engines' time spent waiting for a core from which on measured times are not to be trusted: an engine
that waits as long as it runs takes twice as long for everything (our choice). Two idle cores show 5 to 37 %, since two
engines, SprayCheck and the kernel share them; two busy programs beside them 50 to 70 %, and all counts still right."""

LATE_SHARE, LATE_S = 0.05, 0.25
"""Tolerance of a flow's requested rate: this share of its time, plus this time for its first packet, its last
acknowledgement and a turn of a busy engine (our choice)."""

IN_TIME, KEEPS_GOODPUT = "named in time", "every flow keeps its goodput"
"""Checks that judge times."""

RETRANSMISSION_SLACK = 3
"""Packets by which retransmissions may always differ, as a percentage of few drops is less than one (our choice)."""


@dataclass(frozen=True)
class MachineCounts:
    """Packets that this machine lost by itself during the run, and the time that engines waited for a core."""

    ring_drops: int
    softnet_drops: int
    tx_errors: int
    """Sends that were refused, except by ports that a fault had shut."""
    engine_ns: int
    wait_ns: int
    wait_worst: float | None = None
    """Share of its time that one engine waited in its worst second."""
    events_cut: int = 0
    """Records of agents that were dropped for want of room."""
    rejected: tuple[Rejected, ...] = ()
    """Packets that agents rejected."""

    @property
    def wait_share(self) -> float:
        """Return the share of the engines' time spent waiting for a core."""
        all_ns = self.engine_ns + self.wait_ns
        return self.wait_ns / all_ns if all_ns else 0.0


def load_of(
    counts: MachineCounts,
    expectation: Expectation,
    flows: tuple[FlowResult, ...],
    injected: tuple[Injected, ...],
    steered: bool = False,
    missed: tuple[str, ...] = (),
    outages: Sequence[Outage] = (),
    changes: Sequence[LabChange] = (),
) -> Load:
    """Judge whether the machine kept up.

    It is overloaded in four cases: it lost more than `QUIET_SHARE` of the data packets by itself; more packets were
    sent again than injected drops explain, and the machine shows why (`_is_strained`); checks of times were `missed`
    and the engines waited more than `BUSY_SHARE`; or a flow did not keep its requested rate and nothing else can be
    the cause.

    Otherwise these are warnings: a wait, since all other checks rest on counts; retransmissions that may come from
    uncounted losses, or from `outages` (ports out of service while a fault was set or cleared); a slow flow that a
    fault or congestion control (`steered`) may have held back. `changes` by somebody else may explain both.
    """
    packets = sum(flow.packets for flow in flows)
    lost_here = counts.ring_drops + counts.softnet_drops + counts.tx_errors
    early = sum(flow.resent_early for flow in flows)
    unexplained = max(0, sum(flow.retransmissions for flow in flows) - early - _data_drops(injected))
    limit = _allowed(expectation, flows, injected)
    reasons, warnings = list[str](), list[str]()
    if lost_here > packets * QUIET_SHARE:
        reasons.append(
            f"this machine itself lost {count_text(lost_here, 'packet')}, more than {float(QUIET_SHARE):.2%} of all"
        )
    if unexplained > limit:
        uncounted = _uncounted(injected) or _outage_text(outages) or changes_text(changes)
        if not uncounted and not _is_strained(counts):
            uncounted = _UNSTRAINED
        (warnings if uncounted else reasons).append(_unexplained_text(unexplained, limit, flows, uncounted))
    if early > limit:
        warnings.append(
            f"{count_text(early, 'packet')} sent again although the first copy arrived: "
            "a longer transport.ack_timeout_ms may avoid that"
        )
    if counts.wait_share >= BUSY_SHARE:
        (reasons if missed else warnings).append(_busy_text(counts.wait_share, missed))
    if slow := _slow_text(flows):
        (warnings if steered or changes or any(map(_holds_back, injected)) else reasons).append(slow)
    if counts.events_cut:
        warnings.append(_cut_text(counts.events_cut))
    return Load(
        bool(reasons),
        tuple(reasons),
        counts.ring_drops,
        counts.softnet_drops,
        counts.tx_errors,
        unexplained,
        limit,
        counts.wait_share,
        counts.wait_worst,
        tuple(warnings),
        counts.events_cut,
        counts.rejected,
    )


_UNSTRAINED = (
    "this machine shows no sign of having lost them: no ring or softnet drop, no send error, and no engine that waited "
    f"for a core {BUSY_SHARE:.0%} of any second"
)


def _is_strained(counts: MachineCounts) -> bool:
    """Return whether this machine may be why packets were sent again: it lost some, or an engine waited for a core."""
    lost = counts.ring_drops + counts.softnet_drops + counts.tx_errors
    return lost > 0 or max(counts.wait_share, counts.wait_worst or 0.0) >= BUSY_SHARE


def _cut_text(records: int) -> str:
    text = "1 record of agents is" if records == 1 else f"{records:,} records of agents are"
    return f"{text} not in agent.jsonl, the oldest: there were more than limits.events has room for"


def _unexplained_text(unexplained: int, limit: int, flows: tuple[FlowResult, ...], uncounted: str) -> str:
    timeouts = sum(flow.timeouts for flow in flows)
    text = f"{count_text(unexplained, 'retransmission')} not explained by injected drops, more than {limit:,}"
    return "; ".join(filter(None, (text, f"{count_text(timeouts, 'packet')} timed out" if timeouts else "", uncounted)))


def _busy_text(share: float, missed: tuple[str, ...]) -> str:
    text = f"engines waited {share:.0%} of their time for a core: times are unreliable"
    return text + (f", and this fails: {', '.join(missed)}" if missed else ", counts are right")


def _slow_text(flows: tuple[FlowResult, ...]) -> str:
    """Name the flows that did not keep their requested rate; empty if all did."""
    slow = [flow for flow in flows if _is_slow(flow)]
    if not slow:
        return ""
    worst = min(slow, key=lambda flow: (flow.goodput_bps or 0) / (flow.asked_bps or 1))
    sent, asked = ((rate or 0) / 1e6 for rate in (worst.goodput_bps, worst.asked_bps))
    text = f"{worst.source}>{worst.destination} sent {sent:,.1f} of {asked:,.1f} Mb/s"
    return f"{count_text(len(slow), 'flow')} did not keep the rate asked for: {text}"


def _is_slow(flow: FlowResult) -> bool:
    if flow.asked_bps is None or flow.seconds is None:
        return False
    asked_s = flow.payload_bytes * 8 / flow.asked_bps
    return flow.seconds > asked_s * (1 + LATE_SHARE) + LATE_S


def _holds_back(fault: Injected) -> bool:
    """Return whether a fault may slow a flow down: all do but those that drop a few packets."""
    return fault.requested is None or fault.requested > LATE_SHARE


def checks_of(
    expectation: Expectation,
    wanted: set[str],
    detected: Detected,
    flows: tuple[FlowResult, ...],
    injected: tuple[Injected, ...],
    possible: frozenset[str] = frozenset(),
    outages: Sequence[Outage] = (),
    changes: Sequence[LabChange] = (),
    by_cause: Collection[str] = (),
) -> tuple[Check, ...]:
    """Check everything that had to hold; `wanted` links had to be named, `possible` ones may be named as well.

    `by_cause` are the links that the common causes named stand for, `changes` what somebody else changed in the lab.
    """
    checks = [_data_check(flows)]
    if expectation.detection == "judged":
        named = _named_check(wanted, possible, detected, links_of(changes), by_cause)
        checks = [named, _judged_check(detected), *checks]
        if expectation.within_s is not None and wanted:
            checks.append(_time_check(expectation.within_s, wanted, detected))
    checks.append(
        _retransmission_check(_allowed(expectation, flows, injected), flows, injected, outages, changes_text(changes))
    )
    return tuple(checks)


def _named_check(
    wanted: set[str],
    possible: frozenset[str],
    detected: Detected,
    changed: frozenset[str],
    by_cause: Collection[str],
) -> Check:
    named = {item.link for item in detected.named}
    missing, false = sorted(wanted - named - {*by_cause}), sorted(named - wanted - possible - changed)
    wrong = [f"{link} is not named" for link in missing] + [f"{link} is accused" for link in false]
    wrong += [
        f"{text} is accused, undecided"
        for links, text in zip(detected.candidates, open_sets(detected.candidates, detected.fewest), strict=True)
        if changed.isdisjoint(links)
    ]
    wrong += [
        f"{cause.link} is accused, and not all of it dropped"
        for cause in detected.common
        if not (cause.right or cause.changed)
    ]
    right = f"{', '.join(sorted(wanted))} and no other" if wanted else "no link between switches is accused"
    if others := [item.link for item in (*detected.named, *detected.common) if item.changed]:
        right += f", but for {', '.join(others)}, which somebody else changed"
    return Check("the right links are named", not wrong, "; ".join(wrong) or right)


_LINKS_SHOWN = 3
"""Most undecided links that a check names (our choice); the summary has all."""


def _judged_check(detected: Detected) -> Check:
    """Check that every link that carried traffic is found failed or healthy, at the requested drop rate."""
    sure = {verdict: count for verdict, count in detected.links.items() if verdict != "undecided"}
    judged = sum(sure.values()) + detected.explained
    text = f"{judged:,} of {count_text(detected.links_wanted, 'link')}"
    if sure:
        text += f" ({', '.join(f'{count:,} {verdict}' for verdict, count in sorted(sure.items()))})"
    if detected.explained:
        named = ", ".join(each.link for each in (*detected.named, *detected.common) if each.right)
        text += f", {detected.explained:,} of them undecided behind {named or 'what is named'}"
    if detected.idle:
        text += f"; nothing was sent over {count_text(detected.idle, 'other link', 'other links')}"
    if detected.unmeasured:
        text += f"; {unmeasured_text(sum(detected.unmeasured.values()))}"
    reasons = list(detected.undecided.items())
    text += "".join(f"; {link}: {why}" for link, why in reasons[:_LINKS_SHOWN])
    if len(reasons) > _LINKS_SHOWN:
        text += f"; {len(reasons) - _LINKS_SHOWN:,} more, see `undecided` in summary.json"
    return Check("every link is judged", judged == detected.links_wanted and bool(judged or not detected.idle), text)


def as_planned_check(changes: Sequence[LabChange], nodes: int) -> Check:
    """Check that the lab matched its plan, except for what spraylab did itself."""
    compared = f"{count_text(nodes, 'node')} read from the kernel and compared"
    return Check("the lab is as planned", not changes, changes_text(changes) or compared)


def collective_check(rows: Sequence[CollectiveRow], failed: Sequence[str]) -> Check:
    """Check that all rounds ended, and with the right numbers."""
    wrong = [f"{row.test}: {row.wrong:,} of {row.checked:,} numbers" for row in rows if row.wrong]
    checked = sum(row.checked or 0 for row in rows)
    return Check(
        "all sums are right", not (wrong or failed), "; ".join([*wrong, *failed]) or count_text(checked, "number")
    )


def _is_verified(flow: FlowResult) -> bool:
    """Return whether all bytes of a write were compared; collectives compare their numbers themselves."""
    return flow.workload != "write" or flow.bytes_verified == flow.payload_bytes


def _is_wrong(flow: FlowResult) -> bool:
    arrived = _is_verified(flow) and not flow.bytes_wrong and flow.acked_bytes == flow.payload_bytes
    return not arrived or flow.seconds is None


def _wrong_text(flow: FlowResult) -> str:
    text = (
        f"{flow.source}>{flow.destination}: {flow.acked_bytes:,} of {flow.payload_bytes:,} bytes acknowledged, "
        f"{flow.bytes_wrong:,} wrong at the receiver"
    )
    return f"{text}{', not completed' if flow.seconds is None else ''} ({flow.state})"


def _data_check(flows: tuple[FlowResult, ...]) -> Check:
    wrong = [_wrong_text(flow) for flow in flows if _is_wrong(flow)]
    data = data_flows(flows)
    writes = sum(flow.workload == "write" for flow in data)
    how = "byte for byte" if writes else "by the numbers of one round of each collective"
    if 0 < writes < len(data):
        how = f"byte for byte ({writes:,}) or by the numbers of one round of each collective ({len(data) - writes:,})"
    right = f"{flows_text(flows)} arrived complete, compared {how}"
    return Check("all data is right", not wrong, "; ".join(wrong[:3]) + (" ..." if len(wrong) > 3 else "") or right)


def missed_times(checks: Iterable[Check]) -> tuple[str, ...]:
    """Name the failed checks that judge times: a slow machine may have made them fail."""
    return tuple(check.name for check in checks if check.name in (IN_TIME, KEEPS_GOODPUT) and not check.ok)


def _time_check(within_s: float, wanted: set[str], detected: Detected) -> Check:
    times = {item.link: item.after_s for item in (*detected.named, *detected.common) if item.link in wanted}
    late = [link for link in sorted(wanted) if (after := times.get(link)) is None or after > within_s]
    detail = f"{', '.join(late)} not within {within_s:g} s" if late else f"all within {within_s:g} s"
    return Check(IN_TIME, not late, detail)


def _retransmission_check(
    allowed: int,
    flows: tuple[FlowResult, ...],
    injected: tuple[Injected, ...],
    outages: Sequence[Outage],
    changed: str,
) -> Check:
    resent, dropped = sum(flow.retransmissions for flow in flows), _data_drops(injected)
    early = sum(flow.resent_early for flow in flows)
    what = "data packets" if all(fault.dropped_writes is not None for fault in injected) else "packets"
    detail = f"{resent:,} resent, {dropped:,} {what} dropped by the injector"
    if early:
        detail += f", {early:,} resent although the first copy arrived"
    lost = resent - early
    if uncounted := _uncounted(injected) or changed:
        return Check("retransmissions match the drops", True, f"{detail}; not held against each other: {uncounted}")
    if outages and lost - dropped > allowed:
        return Check(
            "retransmissions match the drops", True, f"{detail}; more is no fault here: {_outage_text(outages)}"
        )
    detail += f", may differ by {allowed:,}"
    return Check("retransmissions match the drops", abs(lost - dropped) <= allowed, detail)


def _allowed(expectation: Expectation, flows: tuple[FlowResult, ...], injected: tuple[Injected, ...]) -> int:
    """Return the packets by which retransmissions may differ from drops."""
    dropped = _data_drops(injected)
    share = parse_rate(expectation.retransmissions_within) * dropped
    if not dropped:
        share = QUIET_SHARE * sum(flow.packets for flow in flows)
    return max(RETRANSMISSION_SLACK, int(share))


def _uncounted(injected: tuple[Injected, ...]) -> str:
    """State why retransmissions cannot be compared with the drops; empty if they can."""
    found = ((fault, kind_named(fault.kind).why_uncounted(fault.mechanism)) for fault in injected)
    return next(
        (
            f"{fault.link} {fault_text(fault.kind, fault.requested_text)}: {why}"
            for fault, why in found
            if why is not None
        ),
        "",
    )


def _outage_text(outages: Sequence[Outage]) -> str:
    """State that losses of ports that faults took out of service are not counted; empty without any."""
    if not outages:
        return ""
    more = f" (and {len(outages) - 1:,} more)" if len(outages) > 1 else ""
    return f"{outages[0]} under traffic{more}, which takes the port out of service for a moment: that is not counted"


def _data_drops(injected: tuple[Injected, ...]) -> int:
    """Return the data packets dropped on purpose; all packets if the mechanism cannot distinguish data."""
    return sum(fault.explains if fault.explains is not None else _dropped(fault) for fault in injected)


def _dropped(fault: Injected) -> int:
    return fault.dropped if fault.dropped_writes is None else fault.dropped_writes
