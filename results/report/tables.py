"""Builds the tables of a report from the run's files; each number is marked as requested, measured or estimated."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from results.metrics import Totals
from results.records.perf_rows import GB, CollectiveRow
from results.records.rejected import rejected_lines
from results.records.witnesses import (
    Witness,
    named_links,
    named_text,
    packets_text,
    paths_text,
    seconds_text,
    share_text,
)
from results.report.detection import FaultSpan
from results.report.run_data import RunData
from results.summary import (
    CaptureResult,
    FlowResult,
    Injected,
    Load,
    Summary,
    barriers_of,
    data_flows,
    rightness_of,
    size_text,
)
from results.text import count_text, fault_text, held_text

CONFIDENCE, NORMAL_QUANTILE = 0.95, 1.959964
"""Confidence of the intervals beside measured rates (our choice), and the two-sided quantile of the normal
distribution.
"""
MOST_ROWS = 64
"""Most rows of flows and faults; the rest is in the run's files (our choice)."""
MOST_LOST_PATHS = 10
MOST_HOSTS = 8
"""Most groups of a collective that are named one by one (our choice)."""
MOST_ANYWHERE, MOST_ON_HALF, MOST_WORDS_BESIDE = 2, 5, 7
"""Columns on a phone and in half a window of 1280 pixels; columns of words in a whole one (tried in a browser)."""
MOST_IN_ONE_LINE = 22
"""Characters of a cell that are never broken: a link's name, a rate with its interval."""

_NO_SUMMARY = "the run left no summary (summary.json)"
NOTHING = "–"


@dataclass(frozen=True)
class Table:
    """Column names; one that begins with `#` holds numbers and is aligned right."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    empty: str = ""
    """Text shown when there are no rows."""
    note: str = ""

    @property
    def room(self) -> str:
        """Room for the table: `pair` fits a phone, `few` half a window, `many` a whole one, `crowded` fits nowhere."""
        words = sum(not name.startswith("#") for name in self.columns)
        if words > MOST_WORDS_BESIDE:
            return "crowded"
        return "many" if len(self.columns) > MOST_ON_HALF else "few" if len(self.columns) > MOST_ANYWHERE else "pair"

    def look_of(self, column: int, cell: str) -> str:
        """Layout of a cell: `number` to the right, `short` in one line, `text` in as many as it takes, `nothing`."""
        if cell in ("", NOTHING):
            return "number nothing" if self.columns[column].startswith("#") else "nothing"
        if self.columns[column].startswith("#"):
            return "number"
        return "short" if len(cell) <= MOST_IN_ONE_LINE else "text"


def checks(data: RunData) -> Table:
    """Show the checks, failed ones first."""
    found = data.summary.checks if data.summary else ()
    rows = [("✓ holds" if check.ok else "✗ fails", check.name, check.detail) for check in found]
    rows.sort(key=lambda row: row[0].startswith("✓"))
    return Table(("", "check", "found"), rows, _NO_SUMMARY if data.summary is None else "nothing was checked")


def broken(data: RunData) -> Table:
    """Show every fault: requested, in force, measured."""
    counted: dict[tuple[str, str], list[Injected]] = {}
    for each in data.summary.injected if data.summary else ():
        counted.setdefault((each.link, fault_text(each.kind, each.requested_text)), []).append(each)
    rows = []
    for fault in data.faults[:MOST_ROWS]:
        found = counted.get((fault.link, fault.words))
        during = found.pop(0) if found else None
        rows.append(
            (
                fault.link,
                fault.words,
                _in_force(fault, during),
                _when(data, fault),
                *_measured(fault, during),
                fault.mechanism + (", set by hand" if fault.by == "hand" else ""),
            )
        )
    note = "In force: read back from the kernel. "
    note += "Measured: dropped per seen, or hit per seen for faults that corrupt, copy or reorder packets, with the "
    note += f"{CONFIDENCE:.0%} confidence interval (Wilson)."
    if len(data.faults) > MOST_ROWS:
        note += f" In truth.jsonl: {count_text(len(data.faults) - MOST_ROWS, 'more fault')}."
    columns = ("link", "asked", "in force", "from, to (s)", "#seen", "#dropped", "measured", "mechanism")
    unknown = data.broken_unknown
    empty = f"the folder does not show what was broken ({unknown})" if unknown else "nothing was broken"
    return Table(columns, rows, empty, note if rows else "")


def _in_force(fault: FaultSpan, during: Injected | None) -> str:
    """Return the value read back; if it equals the request up to the kernel's resolution, in the request's words."""
    if during is None or not during.in_force_text:
        return fault.in_force
    return held_text(during.kind, during.in_force_text)


def _when(data: RunData, fault: FaultSpan) -> str:
    since = data.seconds(fault.since_ns)
    start = "before traffic" if since < 0 else f"{since:,.2f}"
    return f"{start}, " + ("end" if fault.until_ns is None else f"{data.seconds(fault.until_ns):,.2f}")


def _measured(fault: FaultSpan, during: Injected | None) -> tuple[str, str, str]:
    """Return packets seen and dropped during the run, else from first to last packet, and their ratio."""
    counted = during or fault
    seen, dropped = counted.seen, counted.dropped
    if seen is None or dropped is None:
        return NOTHING, NOTHING, "not counted"
    if fault.words.startswith("gemodel"):
        return f"{seen:,}", f"{dropped:,}", f"{dropped / max(seen, 1):.2%}, in bursts"
    if counted.requested is not None and counted.dropped_reverse is None:  # a shut port sees only what it drops
        return f"{seen:,}", f"{dropped:,}", rate_text(dropped, seen)
    if counted.requested is None and counted.hit is not None:
        return f"{seen:,}", f"{dropped:,}", f"{counted.hit:,} hit, {rate_text(counted.hit, seen)}"
    hit = f"{counted.hit:,} hit" if counted.hit and counted.hit != dropped else ""
    other = f"{counted.dropped_reverse:,} lost the other way" if counted.dropped_reverse else ""
    return f"{seen:,}", f"{dropped:,}", ", ".join(filter(None, (hit, other))) or NOTHING


def rate_text(hits: int, trials: int) -> str:
    """Format a measured rate with its interval: `0.98% (0.79% to 1.21%)`."""
    if not trials:
        return "no packet seen"
    low, high = wilson_interval(hits, trials)
    return f"{hits / trials:.2%} ({low:.2%} to {high:.2%})"


def wilson_interval(hits: int, trials: int) -> tuple[float, float]:
    """Return the interval of the rate behind `hits` of `trials`, at CONFIDENCE (Wilson 1927)."""
    share, z2 = min(hits, trials) / trials, NORMAL_QUANTILE**2
    middle = share + z2 / (2 * trials)
    reach = NORMAL_QUANTILE * (share * (1 - share) / trials + z2 / (4 * trials**2)) ** 0.5
    scale = 1 + z2 / trials
    return max(0.0, (middle - reach) / scale), min(1.0, (middle + reach) / scale)


def witnesses(data: RunData) -> Table:
    """Show who named what, when, after how many packets, and how much of it was right."""
    if data.summary is None:
        return Table((), [], _NO_SUMMARY)
    columns = (
        "witness",
        "named",
        "#right",
        "#wrong",
        "missed",
        "#seconds",
        "#packets",
        "#paths",
        "#precision",
        "#recall",
        "",
    )
    rows = [_witness_row(each) for each in data.summary.witnesses]
    found = data.summary.detected
    judged = ", ".join(f"{count:,} {verdict}" for verdict, count in sorted(found.verdicts.items())) or "none"
    note = "* decides the outcome. Seconds, packets and paths belong to the first right link. Seconds: since the "
    note += (
        "fault was in force and traffic went on. Packets: first transmissions on the paths that accused it by then, "
    )
    note += "of as many flows as there are paths; "
    note += "SprayCheck counts what a path should have brought, MRC what was sent on it until it was given up. "
    judged = f"Paths, {found.verdicts_wanted:,}: {judged}."
    if found.links_wanted:
        links = ", ".join(f"{count:,} {verdict}" for verdict, count in sorted(found.links.items())) or "no conclusion"
        judged = f"Links that carried traffic, {found.links_wanted:,}: {links}. {judged}"
    if found.added_up:
        judged += f" {found.added_up:,} of them only by several flows together; each alone is too small."
    for link, why in list(found.undecided.items())[:4]:
        judged += f" Undecided: {link}: {why}."
    for reason, count in list(found.insufficient.items())[:4]:
        judged += f" Insufficient, {count:,}: {reason}."
    for reason, count in list(found.unmeasured.items())[:4]:
        judged += f" Not measured, {count:,}: {reason}."
    note += judged
    return Table(columns, rows, "the run's version did not compare witnesses", note if rows else judged)


def _witness_row(witness: Witness) -> tuple[str, ...]:
    if witness.state == "silent":
        return witness.witness, *[NOTHING] * 9, witness.note or "said nothing"
    return (
        f"{witness.witness}{' *' if witness.decides else ''}",
        ", ".join(named_links(witness)) or named_text(witness),
        f"{sum(each.right for each in witness.named):,}",
        f"{witness.false_alarms:,}",
        ", ".join(witness.missed) or "none",
        *(text.replace("-", NOTHING) for text in (seconds_text(witness), packets_text(witness), paths_text(witness))),
        *(share_text(each).replace("-", NOTHING) for each in (witness.precision, witness.recall)),
        witness.note,
    )


def lost_paths(data: RunData) -> Table:
    """Show where the senders lost most: one row per uplink, with everything behind it."""
    if data.fabric is None:
        return Table((), [], "")
    by_uplink: Counter[tuple[int, int, int]] = Counter()
    for (node, plane, spine), packets in data.agents.lost_by_path.items():
        host = node.removeprefix("h")
        if host.isdecimal() and int(host) < data.fabric.spec.leaves * data.fabric.spec.hosts_per_leaf and spine >= 0:
            by_uplink[plane, data.fabric.leaf_of(int(host)), spine] += packets
    rows = [
        (f"p{plane}:leaf{leaf}>spine{spine}>…", f"{packets:,}")
        for (plane, leaf, spine), packets in by_uplink.most_common(MOST_LOST_PATHS)
    ]
    note = "Losses, timeouts and refusals counted by the senders, on paths that begin with "
    note += f"{count_text(len(by_uplink), 'uplink')}."
    if len(by_uplink) > MOST_LOST_PATHS:
        note += " The uplinks with most losses are shown."
    unknown = not data.agents.events and "the folder does not show what senders lost (agent.jsonl)"
    empty = unknown or "no sender lost a packet"
    return Table(("paths that begin with", "#packets lost"), rows, empty, note if rows else "")


def collectives(data: RunData) -> Table:
    """Show one row per collective, in the columns of nccl-tests; also those that did not end."""
    if data.summary is None:
        return Table((), [], "")
    rows, flows = data.summary.collectives, data.summary.flows
    ended = {"write", *(row.name for row in rows)}
    lines = [_collective_row(row) for row in rows]
    lines += [(name, *[NOTHING] * 8, "✗ did not end") for name in _workloads(flows) if name not in ended]
    columns = (
        "collective",
        "hosts",
        "#size",
        "#rounds",
        "#time, ms",
        "#median, ms",
        "#p99, ms",
        "#algbw, GB/s",
        "#busbw, GB/s",
        "numbers",
    )
    note = "Measured. Time: of all rounds by their number, on average over hosts, as in nccl-tests. Median and p99: of "
    note += " single rounds, on the slowest host. Algbw is size by time, busbw what each host has to send or receive "
    note += "at least; GB are 10^9 bytes."
    return Table(columns, lines, "", note if lines else "")


def _workloads(flows: Sequence[FlowResult]) -> list[str]:
    return list(dict.fromkeys(flow.workload for flow in flows))


def _collective_row(row: CollectiveRow) -> tuple[str, ...]:
    wrong = f"✗ {count_text(row.wrong, 'number')} wrong" if row.wrong else ""
    checked = f"✓ {row.checked:,} right" if row.checked else "not compared"
    return (
        row.name,
        _groups_text(row.hosts),
        size_text(row.size_bytes),
        f"{row.iterations:,}",
        *(f"{us / 1e3:,.2f}" for us in (row.time_us, row.times.median_us, row.times.p99_us)),
        *(f"{rate / GB:.4f}" for rate in (row.algbw_bytes_per_s, row.busbw_bytes_per_s)),
        wrong or checked,
    )


def _groups_text(groups: Sequence[Sequence[str]]) -> str:
    """Name the hosts by rank; of several groups only the number."""
    if len(groups) == 1:
        first, *_, last = groups[0]
        return ", ".join(groups[0]) if len(groups[0]) <= MOST_HOSTS else f"{first} ... {last}, {len(groups[0])} hosts"
    return f"{len(groups)} groups of {len(groups[0])}"


def flows(data: RunData) -> Table:
    """Show one row per queue pair, and one row for all that carry only barriers."""
    if data.summary is None:
        return Table((), [], _NO_SUMMARY)
    found, barriers = data_flows(data.summary.flows), barriers_of(data.summary.flows)
    columns = (
        "flow",
        "#from QP",
        "#to QP",
        "#data",
        "#packets",
        "#resent",
        "#timeouts",
        "#seconds",
        "#goodput, Mb/s",
        "data right",
    )
    note = "From QP: the source's queue pair, as in agent.jsonl and inspect. To QP: the destination's, as in packets, "
    note += "captures and detect.jsonl."
    if len(found) > MOST_ROWS:
        note += f" {len(found) - MOST_ROWS:,} more flows are in summary.json."
    rows = [_flow_row(flow, data.summary.collectives) for flow in found[:MOST_ROWS]]
    if barriers is not None:
        rows.append(_barrier_row(barriers))
    return Table(columns, rows, "no flow", note)


def _barrier_row(sums: Totals) -> tuple[str, ...]:
    counts = (f"{each:,}" for each in (sums.packets, sums.retransmissions, sums.timeouts))
    name = f"barriers, {count_text(sums.flows, 'queue pair')}"
    return name, NOTHING, NOTHING, size_text(sums.payload_bytes), *counts, NOTHING, NOTHING, "no data of their own"


def _flow_row(flow: FlowResult, collectives: Sequence[CollectiveRow]) -> tuple[str, ...]:
    ok, told = rightness_of(flow, collectives)
    return (
        f"{flow.source} > {flow.destination}",
        NOTHING if flow.source_qpn is None else f"{flow.source_qpn:#x}",
        f"{flow.qpn:#x}",
        size_text(flow.payload_bytes),
        f"{flow.packets:,}",
        f"{flow.retransmissions:,}",
        f"{flow.timeouts:,}",
        flow.state if flow.seconds is None else f"{flow.seconds:,.2f}",
        NOTHING if flow.goodput_bps is None else f"{flow.goodput_bps / 1e6:,.1f}",
        f"{'✓' if ok else '✗'} {told}",
    )


def machine(data: RunData) -> Table:
    """Show what the machine itself lost."""
    rows = _load_rows(data.summary) if data.summary is not None else []
    return Table(("", "measured", "means"), rows, _NO_SUMMARY)


def environment(data: RunData) -> Table:
    """Show the machine and software that the run was made on."""
    rows: list[tuple[str, str]] = []
    if (env := data.environment) is not None:
        packages = ", ".join(f"{name} {version}" for name, version in sorted(env.packages.items()))
        rows += [
            ("kernel", f"{env.kernel} {env.machine}, {env.distribution}"),
            ("cores", f"{env.cpus_usable} of {env.cpus}, {env.cpu}"),
            ("memory", size_text(env.memory_bytes // 2**20 * 2**20)),
            ("Python", f"{env.python}, with {packages}" if packages else env.python),
            *sorted(env.tools.items()),
        ]
        if env.code is not None:
            rows.append(("spraylab's code", f"{env.code.folder}, sha256 {env.code.sha256[:12]}"))
    return Table(("", "of this run"), rows, "the run left no record of its machine (env.json)")


def _kept_up(load: Load) -> str:
    return "all counts are right; see the warning" if load.warnings else "this machine kept up"


def _load_rows(summary: Summary) -> list[tuple[str, str, str]]:
    load = summary.load
    return [
        ("overload", "yes" if load.overloaded else "no", "; ".join(load.reasons) or _kept_up(load)),
        *(("warning", "", text) for text in load.warnings),
        (
            "losses unexplained",
            f"{load.unexplained_losses:,}",
            f"resent without an injected drop; at most {load.unexplained_limit:,}",
        ),
        ("ring drops", f"{load.ring_drops:,}", "packets an engine read too late"),
        ("softnet drops", f"{load.softnet_drops:,}", "packets a core's backlog had no room for"),
        ("send errors", f"{load.tx_errors:,}", "packets the kernel did not take"),
        *(("rejected by agents", "", text) for text in rejected_lines(load.rejected)),
        ("agents' records cut", f"{load.events_cut:,}", "the oldest, by limits.events; figures do not include them"),
        (
            "wait for a core",
            f"{load.sched_wait_share:.1%}",
            "of the engines' time; above about 50 % times and rates are meaningless",
        ),
        *(("captured", _counted(capture), _capture_text(capture)) for capture in summary.captures),
    ]


def _counted(capture: CaptureResult) -> str:
    return NOTHING if capture.captured is None else f"{capture.captured:,}"


def _capture_text(capture: CaptureResult) -> str:
    """Describe what a capture file holds, and what it does not."""
    parts = [f"packets in {capture.file}"]
    if capture.snaplen is not None:
        parts.append(f"up to {capture.snaplen:,} bytes of each")
    if capture.captured is None:
        parts.append("tcpdump reported no number")
    elif capture.dropped:
        parts.append(f"the kernel lost {capture.dropped:,} more")
    if capture.full:
        parts.append("FULL: later ones are not in it (limits.captures)")
    return "; ".join(parts)
