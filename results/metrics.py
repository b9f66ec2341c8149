"""Computes numbers from what was recorded: rates, totals, precision and recall. Pure."""

from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from agent.wire.record_ranges import Amount, Count, Seconds

NS = 1_000_000_000


class Totals(msgspec.Struct, frozen=True):
    """Totals over all flows of a run."""

    flows: Count
    payload_bytes: Count
    acked_bytes: Count
    packets: Count
    """First transmissions."""
    retransmissions: Count
    retransmission_share: Amount
    """Ratio of retransmissions to first transmissions."""
    timeouts: Count
    seconds: Seconds | None
    """Time from the first packet of any flow to the last acknowledgement of any; None when one did not end."""
    goodput_bps: Amount | None
    packets_per_s: Amount | None
    """First transmissions per second."""
    bytes_verified: Count
    bytes_wrong: Count


class _Flow(Protocol):
    @property
    def payload_bytes(self) -> int: ...
    @property
    def acked_bytes(self) -> int: ...
    @property
    def packets(self) -> int: ...
    @property
    def retransmissions(self) -> int: ...
    @property
    def timeouts(self) -> int: ...
    @property
    def bytes_verified(self) -> int: ...
    @property
    def bytes_wrong(self) -> int: ...


def totals_of(flows: Sequence[_Flow], duration_ns: int | None) -> Totals:
    """Sums over `flows`; `duration_ns` spans all of them, None when one did not end."""
    packets = sum(flow.packets for flow in flows)
    resent = sum(flow.retransmissions for flow in flows)
    acked = sum(flow.acked_bytes for flow in flows)
    return Totals(
        flows=len(flows),
        payload_bytes=sum(flow.payload_bytes for flow in flows),
        acked_bytes=acked,
        packets=packets,
        retransmissions=resent,
        retransmission_share=resent / packets if packets else 0.0,
        timeouts=sum(flow.timeouts for flow in flows),
        seconds=seconds(duration_ns),
        goodput_bps=per_second(acked * 8, duration_ns),
        packets_per_s=per_second(packets, duration_ns),
        bytes_verified=sum(flow.bytes_verified for flow in flows),
        bytes_wrong=sum(flow.bytes_wrong for flow in flows),
    )


def seconds(duration_ns: int | None) -> float | None:
    """Convert nanoseconds to seconds."""
    return None if duration_ns is None else duration_ns / NS


def per_second(amount: int, duration_ns: int | None) -> float | None:
    """Return a rate; None without a duration."""
    return amount * NS / duration_ns if duration_ns else None


def span_ns(times: Iterable[tuple[int | None, int | None]]) -> int | None:
    """Return the time from the earliest start to the latest end; None when a flow did not start or end."""
    starts, ends = [], []
    for start, end in times:
        if start is None or end is None:
            return None
        starts.append(start)
        ends.append(end)
    return max(ends) - min(starts) if starts else None


def precision(accused: set[str], true: set[str]) -> float | None:
    """Return the share of accusations that are right; None without accusations."""
    return len(accused & true) / len(accused) if accused else None


def recall(accused: set[str], true: set[str]) -> float | None:
    """Return the share of the true faults that were named; None without faults."""
    return len(accused & true) / len(true) if true else None
