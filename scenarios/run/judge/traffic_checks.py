"""Checks what a scenario expects of flows and their paths: retired entropy values, losses per path, goodput. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from faults.quantities import parse_bit_rate
from results.files.event_log import Fields
from results.summary import Check, FlowResult
from scenarios.file.model import Expectation
from scenarios.run.judge.checks import KEEPS_GOODPUT
from scenarios.workload.traffic import OpenFlow, WorkerCounts
from testbed.model.fabric import Fabric
from testbed.model.node_names import DirectedLink, NodeId

_SHOWN = 3
"""Most examples of what is wrong; the records have the rest."""


@dataclass(frozen=True)
class PathOutcome:
    """The outcome of one entropy value of one flow."""

    flow: str
    """The flow, as `h0>h3`."""
    links: tuple[str, ...]
    """Links from leaf to spine to leaf; none if both hosts are below one leaf."""
    lost: int
    """Packets sent again because they did not arrive, or did not seem to."""
    retired: bool
    """Whether it was assumed bad at any time."""
    used: bool = True
    """Whether anything was sent on it."""


def outcomes_of(
    flows: Sequence[OpenFlow], workers: Iterable[WorkerCounts], records: Iterable[Fields], fabric: Fabric
) -> tuple[PathOutcome, ...]:
    """Return the outcome of every path of the flows' sources."""
    mine = {(item.source.host, item.source.qpn): item for item in flows}
    bad = {
        (record["node"], record["qpn"], int(ev, 16))
        for record in records
        if record["event"] == "EV_STATE" and record["state"] == "ASSUMED_BAD"
        for ev in record["evs"]
    }
    rows = (row for worker in workers for row in worker.evs if (row["host"], row["qpn"]) in mine)
    return tuple(_outcome(mine[row["host"], row["qpn"]], row, bad, fabric) for row in rows)


def _outcome(item: OpenFlow, row: Fields, bad: set[tuple[str, int, int]], fabric: Fabric) -> PathOutcome:
    source, destination = NodeId.host(item.flow.source), NodeId.host(item.flow.destination)
    leaves = fabric.leaf_of(item.flow.source), fabric.leaf_of(item.flow.destination)
    return PathOutcome(
        flow=f"{source}>{destination}",
        links=() if row["spine"] is None else _links(row["plane"], row["spine"], *leaves),
        lost=row["lost"] + row["timed_out"],
        retired=(str(source), row["qpn"], row["ev"]) in bad,
        used=row["tx_first"] + row["tx_rtx"] > 0,
    )


def _links(plane: int, spine: int, up: int, down: int) -> tuple[str, str]:
    middle = NodeId.spine(plane, spine)
    first = DirectedLink(plane, NodeId.leaf(plane, up), middle)
    return str(first), str(DirectedLink(plane, middle, NodeId.leaf(plane, down)))


def path_checks(
    expectation: Expectation, retired: Iterable[DirectedLink] | None, outcomes: Sequence[PathOutcome]
) -> tuple[Check, ...]:
    """Check what the scenario expects of paths; `retired` are the links that `expectation` names."""
    checks = []
    if retired is not None:
        checks.append(_retired_check({str(link) for link in retired}, outcomes))
    if expectation.lost_per_path is not None:
        checks.append(_lost_check(expectation.lost_per_path, outcomes))
    return tuple(checks)


def _retired_check(wanted: set[str], outcomes: Sequence[PathOutcome]) -> Check:
    retired = [path for path in outcomes if path.retired]
    crossed = {link for path in retired for link in path.links}
    used = {link for path in outcomes if path.used or path.retired for link in path.links}
    wrong = [f"no entropy value over {link} was retired" for link in sorted((wanted & used) - crossed)]
    wrong += [f"one over {' and '.join(p.links)} was ({p.flow})" for p in retired if not wanted & {*p.links}]
    idle = sorted(wanted & {link for path in outcomes for link in path.links} - used)
    right = f"{len(retired)} over {', '.join(sorted(wanted & used)) or 'no link'}, no others"
    right += f"; nothing was sent over {', '.join(idle)}" if idle else ""
    return Check("the right entropy values are retired", not wrong, _some(wrong) or right)


def _lost_check(most: int, outcomes: Sequence[PathOutcome]) -> Check:
    wrong = [f"{path.lost:,} over {' and '.join(path.links)} ({path.flow})" for path in outcomes if path.lost > most]
    worst = max((path.lost for path in outcomes), default=0)
    return Check("no path loses more than it may", not wrong, _some(wrong) or f"at most {worst} of {most}")


def _some(wrong: Sequence[str]) -> str:
    return "; ".join(wrong[:_SHOWN]) + (" ..." if len(wrong) > _SHOWN else "")


_LEAST_NS = 500_000_000
"""A rate over less time says little: progress is recorded four times a second (our choice)."""


def goodput_check(
    wanted: Expectation, records: Iterable[Fields], flows: Sequence[FlowResult], first_ns: int | None
) -> Check:
    """Check each flow's payload rate from `goodput_after_s` after the first packet until it has sent all.

    Barriers of collectives are left out: they have no rate to keep.
    """
    since_ns = (first_ns or 0) + int(wanted.goodput_after_s * 1e9)
    records_since = [
        (int(record["mono_ns"]), record["acked_bytes"])
        for record in records
        if record["event"] == "PROGRESS" and record["mono_ns"] >= since_ns
    ]
    least_bps = parse_bit_rate(wanted.goodput or "")
    named = [
        (_rate_bps([(at, acked[n]) for at, acked in records_since], flow), f"{flow.source}>{flow.destination}")
        for n, flow in enumerate(flows)
        if not flow.is_barrier
    ]
    short = [f"{flow} ended before it could be measured" for rate, flow in named if rate is None]
    known = [(rate, flow) for rate, flow in named if rate is not None]
    slow = [f"{_text(rate)} ({flow})" for rate, flow in sorted(known) if rate < least_bps]
    right = f"at least {_text(min(known)[0])} per flow" if known else "no flow"
    wrong = "; ".join([*slow, *short][:3])
    return Check(KEEPS_GOODPUT, not wrong, f"{wrong or right}, {wanted.goodput} wanted")


def _rate_bps(points: Sequence[tuple[int, int]], flow: FlowResult) -> float | None:
    """Return the rate over points of (ns, acknowledged bytes) while the flow sent; None if they are too few."""
    going = [point for point in points if point[1] < flow.payload_bytes]
    if not going or going[-1][0] - going[0][0] < _LEAST_NS:
        return None
    (begin_ns, before), (end_ns, after) = going[0], going[-1]
    return (after - before) * 8e9 / (end_ns - begin_ns)


def _text(bps: float) -> str:
    return f"{bps / 1e6:.1f} Mb/s"
