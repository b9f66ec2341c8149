"""One picture of a lab for a terminal: from a `View` to lines of at most so many columns. Pure.

Says of each number whether it is measured, requested or estimated. Letters and marks carry everything, colours repeat
it.
"""

from collections.abc import Iterator, Sequence
from textwrap import wrap

from rich.text import Text

from scenarios.watch.grid import LEGEND, grid, letter
from scenarios.watch.view import Detection, FaultView, FlowView, HostEvs, LinkView, View

LEAST_WIDTH, LEAST_HEIGHT = 40, 12
"""Below this there is nothing to be seen (our choice)."""

_BELOW = 9
"""Lines that the tables below the grid get at least."""

_TABLES = (29, 17)
"""Columns of the flows' and hosts' tables on a narrow terminal; what accuses and breaks gets the rest."""

_WIDE = 120
"""From here on the tables are wider and tell more."""

_WIDE_TABLES = (50, 50)
_WORST = 45
"""Columns that a list of links beside the grid needs."""

_SPACE = 2

STALE_S = 3
"""A view older than this says so: the lab is busy, or this machine (our choice)."""

Lines = list[Text]


def frame(view: View, width: int, height: int | None, age_s: int = 0) -> Text:
    """The picture. With a height of None everything there is; `age_s`: how long ago the view was read."""
    width = max(width, LEAST_WIDTH)
    room = None if height is None else max(height, LEAST_HEIGHT)
    head = _head(view, age_s)
    legend = [Text(line, "dim") for line in LEGEND]
    drawn = grid(view, width, None if room is None else max(3, room - len(head) - len(legend) - _BELOW))
    if drawn.left_out:
        legend.append(Text(f"no room here for {drawn.left_out}; those with faults or losses come first", "bold"))
    above = [*head, *_with_worst(drawn.lines, view, width), *legend]
    below = _tables(view, width, None if room is None else room - len(above))
    lines = [_cut(line, width) for line in (*above, *below)]
    for line in lines:
        line.rstrip()
    return Text("\n").join(lines if room is None else lines[:room])


def _head(view: View, age_s: int) -> Lines:
    state = f"run {view.run} {'going on' if view.running else 'ended'}" if view.run else "no run yet"
    if view.running and not view.run:
        state = "in use"
    stale = f", nothing read for {age_s} s" if age_s >= STALE_S else ""
    counts = f"{view.planes} x {view.leaves} leaves x {view.spines} spines"
    head = Text.assemble((f"lab {view.lab}", "bold"), f"  {view.ts[11:19]}Z{stale}  ", (state, "bold"))
    head.append(f"  {counts}, {view.hosts} hosts")
    return [head, *(Text(f"{each}; `spraylab inspect` tells more", "bold red") for each in view.troubles)]


def _with_worst(lines: Sequence[Text], view: View, width: int) -> Lines:
    """The grid, and beside it, if there is room, the links that have lost most with numbers."""
    taken = max(len(line.plain) for line in lines)
    if width - taken < _WORST:
        return list(lines)
    lossy = sorted((link for link in view.links if link.loss), key=lambda link: -(link.loss or 0))
    worst = [Text("LINKS by loss, estimated, of packets sent", "bold"), *map(_worst, lossy)]
    return list(_beside(((taken + _SPACE, list(lines)), (width - taken - 2 * _SPACE, _part(worst, len(lines))))))


def _worst(link: LinkView) -> Text:
    marks = ", ".join(text for text, on in (("fault", link.faults), ("named", link.named)) if on)
    return Text(f"{link.link:<17}{letter(link)[0]}{100 * (link.loss or 0):>8.3f}% of {link.sent:>9,}  {marks}".rstrip())


def _tables(view: View, width: int, height: int | None) -> Lines:
    """Flows, hosts, and what is broken and who says so, side by side."""
    wide = width >= _WIDE
    if width < sum(_TABLES) + 2 * _SPACE + 20:
        return _part(_news(view, height, width), height)
    first, second = _WIDE_TABLES if wide else _TABLES
    rest = width - first - second - 2 * _SPACE
    columns = (
        (first, _part(_flows(view, wide), height)),
        (second, _part(_hosts(view, wide), height)),
        (rest, _news(view, height, rest)),
    )
    return list(_beside(columns))


def _beside(columns: Sequence[tuple[int, Lines]]) -> Iterator[Text]:
    for at in range(max(len(lines) for _, lines in columns)):
        row = Text()
        for place, (width, lines) in enumerate(columns):
            part = _cut(lines[at] if at < len(lines) else Text(), width)
            part.pad_right(width - len(part.plain))
            row.append(" " * _SPACE if place else "").append_text(part)
        yield row


def _part(lines: Lines, height: int | None) -> Lines:
    """As many lines as there is room for; the last one says how many are missing."""
    if height is None or len(lines) <= height:
        return lines
    kept = max(0, height - 1)
    return [*lines[:kept], Text(f"... {len(lines) - kept} more", "dim")][:height]


def _cut(line: Text, width: int) -> Text:
    line = line.copy()
    line.truncate(width, overflow="ellipsis")
    return line


def _flows(view: View, wide: bool) -> Lines:
    over = f" over {view.seconds:.1f} s" if view.seconds else ""
    title = f"FLOWS, measured{over}" if wide else f"FLOWS measured{over}"
    if not view.flows:
        return [Text(title, "bold"), Text("no queue pair sends now")]
    names = f"{'':11}{'qp':<9}{'goodput':>12}{'done':>6}{'resent':>9}" if wide else "flow        Mb/s  done resent"
    return [Text(title, "bold"), Text(names, "dim"), *(_flow(flow, wide) for flow in view.flows)]


def _flow(flow: FlowView, wide: bool) -> Text:
    done = flow.acked_bytes / flow.posted_bytes
    way = f"{flow.source}>{flow.destination}"
    style = "bold red" if flow.state == "ERROR" else ""
    rate = "-" if flow.goodput_bps is None else f"{flow.goodput_bps / 1e6:.1f}"
    share = flow.state if flow.state == "ERROR" else f"{done:.0%}"
    if wide:
        return Text(f"{way:<11}{flow.qpn:<#9x}{f'{rate} Mb/s':>12}{share:>6}{flow.resent:>9,}", style)
    return Text(f"{way:<9}{rate:>7}{share:>6}{flow.resent:>7}", style)


_STATES = ("GOOD", "ASSUMED_BAD", "DENIED", "SKIP")


def _hosts(view: View, wide: bool) -> Lines:
    """Hosts with paths out of use first, when there is no room for all."""
    title = "PATHS (EVs) by state, as agents say" if wide else "EVs by state"
    if not view.evs:
        return [Text(title, "bold"), Text("none in use")]
    names = "".join(f"{name:>7}" for name in ("good", "bad", "denied", "skip")) if wide else "good bad den"
    hosts = sorted(view.evs, key=lambda each: not each.not_good)
    return [Text(title, "bold"), Text(f"{'':5}{names}", "dim"), *(_host(each, wide) for each in hosts)]


def _host(evs: HostEvs, wide: bool) -> Text:
    good, bad, denied, skipped = (evs.states.get(name, 0) for name in _STATES)
    style = "bold red" if bad or denied else ""
    if not wide:
        return Text(f"{evs.host:<5}{good:>4}{bad:>4}{denied:>4}", style)
    out = ", ".join(evs.not_good)
    return Text(f"{evs.host:<5}{good:>7}{bad:>7}{denied:>7}{skipped:>7}  {out}".rstrip(), style)


def _news(view: View, height: int | None, width: int) -> Lines:
    """Faults in force, then the latest detections; each gets what the other leaves, at least half."""
    faults = [line for fault in view.faults for line in _folded(_fault(fault), width)]
    upper = [Text("FAULTS in force, kernel's counts", "bold"), *(faults or [Text("none")])]
    verdicts = ", ".join(f"{count} {name}" for name, count in sorted(view.verdicts.items()))
    lower = [Text(f"DETECTED in run {view.run}" if view.run else "DETECTED", "bold")]
    lower += _folded(Text(f"verdicts: {verdicts or 'none yet'}", "dim"), width)
    lower += [line for said in reversed(view.detections) for line in _folded(_detection(said), width)]
    if height is None:
        return [*upper, *lower]
    upper = _part(upper, max(height - len(lower), height // 2))
    return [*upper, *_part(lower, height - len(upper))]


def _folded(line: Text, width: int) -> Lines:
    """On several lines, the later ones set in."""
    return [Text(part, line.style) for part in wrap(line.plain, width, subsequent_indent="  ")]


def _fault(fault: FaultView) -> Text:
    held = " ".join(filter(None, (fault.link, fault.kind, fault.in_force)))
    counts = f"lost {fault.dropped:,} of {fault.seen:,}" if fault.seen else "no packet yet"
    asked = "" if fault.in_force == fault.requested else f", asked {fault.requested or fault.kind}"
    return Text(f"{held} {counts}{asked}", "bold red" if fault.in_force in ("nothing", "removed") else "cyan")


def _detection(said: Detection) -> Text:
    return Text(f"{said.ts[11:19]} {said.node} {said.text}", "" if " no link" in said.text else "bold")
