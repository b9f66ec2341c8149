"""What every flow got through in the steady part of a run, from progress records, and whether it is enough. Pure."""

from collections.abc import Iterable, Sequence

from faults.quantities import parse_bit_rate
from results.files.event_log import Fields
from results.summary import Check, FlowResult
from scenarios.file.model import Expectation
from scenarios.run.judge.expect import KEEPS_GOODPUT

_LEAST_NS = 500_000_000
"""A rate over less time says little: progress is recorded four times a second (our choice)."""


def goodput_check(
    wanted: Expectation, records: Iterable[Fields], flows: Sequence[FlowResult], first_ns: int | None
) -> Check:
    """Payload rate of each flow, from `goodput_after_s` after the first packet at `first_ns` until it has sent all.

    Barriers of collectives are left out: they have no rate to keep.
    """
    since_ns = (first_ns or 0) + int(wanted.goodput_after_s * 1e9)
    told = [
        (int(record["mono_ns"]), record["acked_bytes"])
        for record in records
        if record["event"] == "PROGRESS" and record["mono_ns"] >= since_ns
    ]
    least_bps = parse_bit_rate(wanted.goodput or "")
    named = [
        (_rate_bps([(at, acked[n]) for at, acked in told], flow), f"{flow.source}>{flow.destination}")
        for n, flow in enumerate(flows)
        if not flow.is_barrier
    ]
    short = [f"{flow} ended before it could be measured" for rate, flow in named if rate is None]
    known = [(rate, flow) for rate, flow in named if rate is not None]
    slow = [f"{_text(rate)} ({flow})" for rate, flow in sorted(known) if rate < least_bps]
    right = f"at least {_text(min(known)[0])} a flow" if known else "no flow"
    wrong = "; ".join([*slow, *short][:3])
    return Check(KEEPS_GOODPUT, not wrong, f"{wrong or right}, {wanted.goodput} wanted")


def _rate_bps(points: Sequence[tuple[int, int]], flow: FlowResult) -> float | None:
    """Of (ns, acknowledged bytes), as far as the flow was under way; None if that is too little."""
    going = [point for point in points if point[1] < flow.payload_bytes]
    if not going or going[-1][0] - going[0][0] < _LEAST_NS:
        return None
    (begin_ns, before), (end_ns, after) = going[0], going[-1]
    return (after - before) * 8e9 / (end_ns - begin_ns)


def _text(bps: float) -> str:
    return f"{bps / 1e6:.1f} Mb/s"
