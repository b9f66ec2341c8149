"""Formats what stands below the grid: flows, hosts' entropy values, faults and detections, each as lines of text. Pure.

There are two forms: narrow for a small terminal, and wide with more columns and the affected paths. A line that is too
long is wrapped at a blank or after a comma.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from rich.text import Text

from results.text import GONE, count_text, fault_text, in_force_text
from scenarios.watch.snapshot import Detection, FaultView, FlowView, HostEvs, PlannedView, View

_INDENT = "  "
_BEHIND_COMMA = re.compile(r"(?<=,)(?=\S)")


def folded(line: Text, width: int | None) -> list[Text]:
    """Return as many lines as needed, later ones indented; one for a width of None. A longer word stays whole."""
    if width is None or len(line.plain) <= width:
        return [line]
    lines, now = list[str](), ""
    for gap, piece in _pieces(line.plain, width - len(_INDENT)):
        if now.strip() and len(now) + len(gap) + len(piece) > width:
            lines.append(now)
            now, gap = _INDENT, ""
        now += gap + piece
    return [Text(part, line.style) for part in (*lines, now)]


def _pieces(text: str, width: int) -> Iterator[tuple[str, str]]:
    """Yield words with the blank before them; a word longer than a line is split after commas."""
    for at, word in enumerate(text.split(" ")):
        gap = " " if at else ""
        for part in _BEHIND_COMMA.split(word) if len(word) > width else (word,):
            yield gap, part
            gap = ""


Lines = list[Text]

_STATES = ("GOOD", "ASSUMED_BAD", "DENIED", "SKIP")


def part(lines: Lines, height: int | None, what: str = "lines") -> Lines:
    """Return as many lines as fit; the last one states how many are missing, and of what."""
    if height is None or len(lines) <= height:
        return lines
    kept = max(0, height - 1)
    return [*lines[:kept], Text(f"... {len(lines) - kept:,} more {what}", "dim")][:height]


def flow_lines(view: View, wide: bool) -> Lines:
    """A line per queue pair that sends data; those of barriers are counted."""
    over = f" over {view.seconds:.1f} s" if view.seconds else ""
    title = f"FLOWS, measured{over}" if wide else f"FLOWS measured{over}"
    barriers = [Text(f"and {count_text(view.barriers, 'queue pair')} of barriers", "dim")] if view.barriers else []
    if not view.flows:
        return [Text(title, "bold"), *(barriers or [Text("no queue pair sends now")])]
    wide_names = f"{'flow':11}{'from qp':<9}{'to qp':<9}{'Mb/s':>7}{'done':>6}{'resent':>8}"
    names = wide_names if wide else "flow        Mb/s  done resent"
    return [Text(title, "bold"), Text(names, "dim"), *(_flow(flow, wide) for flow in view.flows), *barriers]


def _flow(flow: FlowView, wide: bool) -> Text:
    way = f"{flow.source}>{flow.destination}"
    style = "bold red" if flow.state == "ERROR" else ""
    rate = "-" if flow.goodput_bps is None else _rate_text(flow.goodput_bps / 1e6)
    share = flow.state if flow.state == "ERROR" else _done_text(flow)
    if wide:
        to = "-" if flow.destination_qpn is None else f"{flow.destination_qpn:#x}"
        return Text(f"{way:<10} {flow.qpn:<#9x}{to:<9}{rate:>7}{share:>6} {flow.resent:>7,}", style)
    return Text(f"{way:<9} {rate:>6} {share:>5} {flow.resent:>6,}", style)


def _done_text(flow: FlowView) -> str:
    """Return the share of the flow that is acknowledged; 100% only when all is, and `-` when time decides the
    amount.
    """
    if flow.total_bytes is None:
        return "-"
    return f"{int(100 * flow.acked_bytes / flow.total_bytes)}%"


def _rate_text(mbps: float) -> str:
    """Format with a decimal where it is significant."""
    return f"{mbps:,.1f}" if mbps < 1000 else f"{mbps:,.0f}"


def host_lines(view: View, wide: bool, width: int | None, alike: bool = False) -> Lines:
    """List one line per host, those with EVs out of use first; on a wide terminal with the paths of these.

    With `alike` hosts share a line if nothing of theirs is out of use and their numbers are the same.
    """
    title = "EVs of all sending queue pairs by state" if wide else "EVs by state"
    if not view.evs:
        return [Text(title, "bold"), Text("none in use")]
    hosts = sorted(view.evs, key=lambda each: not each.not_good)
    if not wide:
        head = Text.assemble((f"{title:<12}", "bold"), (f"{'good':>5}{'bad':>5}{'denied':>7}", "dim"))
        return [head, *(_few_of(each) for each in (_alike(hosts) if alike else hosts))]
    names = "".join(f"{name:>7}" for name in ("good", "bad", "denied", "skip"))
    lines = [Text(title, "bold"), Text(f"{'':5}{names}", "dim")]
    return lines + [line for each in hosts for line in _host(each, width)]


def _alike(hosts: Sequence[HostEvs]) -> list[HostEvs]:
    """Return the same line, with the number of equal hosts in place of a host's name."""
    groups: dict[tuple[str, ...], list[HostEvs]] = {}
    for each in hosts:
        key = (each.host,) if each.not_good else tuple(f"{name} {count}" for name, count in each.states.items())
        groups.setdefault(key, []).append(each)
    return [replace(mine[0], host=f"{len(mine):,} hosts") if len(mine) > 1 else mine[0] for mine in groups.values()]


def _few_of(evs: HostEvs) -> Text:
    good, bad, denied, _ = (evs.states.get(name, 0) for name in _STATES)
    return Text(f"{evs.host:<12}{good:>5,}{bad:>5,}{denied:>7,}", "bold red" if bad or denied else "")


def _host(evs: HostEvs, width: int | None) -> Lines:
    good, bad, denied, skipped = (evs.states.get(name, 0) for name in _STATES)
    style = "bold red" if bad or denied else ""
    counts = f"{evs.host:<5}{good:>7,}{bad:>7,}{denied:>7,}{skipped:>7,}"
    out = ", ".join(evs.not_good)
    if width is None or len(counts) + 2 + len(out) <= width:
        return [Text(f"{counts}  {out}".rstrip(), style)]
    return [Text(counts, style), *folded(Text(f"  {out}", style), width)]


def fault_lines(view: View, width: int | None) -> Lines:
    """List the faults in force, as the kernel holds them."""
    told = [*map(_fault, view.faults), *map(_planned, view.planned)]
    faults = [line for fault in told for line in folded(fault, width)]
    return [*folded(Text("FAULTS, counted by the kernel", "bold"), width), *(faults or [Text("none")])]


def _fault(fault: FaultView) -> Text:
    told = f"{fault.link} {fault_text(fault.kind, fault.requested)}"
    if fault.in_force != fault.requested:
        told += f" ({in_force_text(fault.kind, fault.requested, fault.in_force)})"
    counts = f"dropped {fault.dropped:,} of {fault.seen:,}" if fault.seen else "no packet yet"
    return Text(f"{told} {counts}", "bold red" if fault.in_force in GONE else "cyan")


def _planned(planned: PlannedView) -> Text:
    """Describe a fault that is not in force now, as a flap in its open phase."""
    at = f"at {planned.at[11:19]}" if planned.at else ""
    when = " or ".join(filter(None, (at, planned.event and f"on {planned.event}")))
    return Text(f"{planned.link} {fault_text(planned.kind, planned.requested)} not in force now, set {when}", "dim")


def detection_lines(view: View, width: int | None) -> Lines:
    """List verdicts by kind, then what is accused, the latest first."""
    lines = [Text(f"DETECTED in run {view.run}" if view.run else "DETECTED", "bold")]
    links, paths = _by_kind(view.verdicts), _by_kind(view.paths)
    lines += folded(Text(f"links: {links or 'none yet'}; paths: {paths or 'none yet'}", "dim"), width)
    return lines + [line for said in reversed(view.detections) for line in folded(_detection(said), width)]


def _by_kind(verdicts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in sorted(verdicts.items()))


def _detection(said: Detection) -> Text:
    return Text(f"{said.ts[11:19]} {said.node} {said.text}", "" if " no link" in said.text else "bold")
