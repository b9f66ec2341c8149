"""Records what performance tests measure: one record per message size, for programs, and the same as perftest's
tables.

Megabytes are 2^20 bytes and packets are messages, as in perftest. Rates are those of an emulator.
"""

from collections.abc import Sequence

import msgspec

from agent.wire.ranges import Count

MIB = 1 << 20

_BANDWIDTH = " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]"
_LATENCY = (
    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]"
    "   99% percentile[usec]   99.9% percentile[usec]"
)


class Cost(msgspec.Struct, frozen=True):
    """Packets sent for a row, and packets lost without a fault."""

    packets: Count
    """First transmissions of all queue pairs of the test."""
    retransmissions: Count
    lost_here: Count
    """Frames that this machine itself lost: full rings, refused sends."""


class BandwidthRow(msgspec.Struct, frozen=True, tag_field="test", tag="write-bw"):
    """Messages of one size, with as many outstanding as requested."""

    hosts: tuple[str, ...]
    bytes: int
    iterations: int
    """Messages of all queue pairs and directions."""
    qps: int
    both: bool
    peak_bytes_per_s: float | None
    """Rate of the fastest interval from a post to a completion, summed over directions."""
    average_bytes_per_s: float
    messages_per_s: float
    seconds: float
    wrong: int | None
    """Wrong bytes in the receivers' memory; None where not all of it was written."""
    cost: Cost


class LatencyRow(msgspec.Struct, frozen=True, tag_field="test", tag="write-lat"):
    """Messages of one size, one after the other; microseconds each."""

    hosts: tuple[str, ...]
    bytes: int
    iterations: int
    until: str
    """`answer`: half the round trip of a message and its answer; `completion`: until the sender's own completion."""
    min_us: float
    max_us: float
    typical_us: float
    """The median time."""
    average_us: float
    stdev_us: float
    p99_us: float
    p999_us: float
    cost: Cost


WriteRow = BandwidthRow | LatencyRow


def write_header(test: str) -> str:
    """Return the names of the columns."""
    return _BANDWIDTH if test == "write-bw" else _LATENCY


def write_line(row: WriteRow) -> str:
    """Return one row below the header."""
    if isinstance(row, LatencyRow):
        times = (row.min_us, row.max_us, row.typical_us, row.average_us, row.stdev_us, row.p99_us, row.p999_us)
        widths = (14, 14, 16, 14, 16, 22, 24)
        told = " ".join(f"{time:{width}.2f}" for time, width in zip(times, widths, strict=True))
        return f" {row.bytes:<7} {row.iterations:<10} {told}"
    peak = 0.0 if row.peak_bytes_per_s is None else row.peak_bytes_per_s / MIB
    average, rate = row.average_bytes_per_s / MIB, row.messages_per_s / 1e6
    return f" {row.bytes:<10} {row.iterations:<14} {peak:<18.2f} {average:<20.2f} {rate:.6f}"


def cost_line(rows: Sequence[WriteRow]) -> str:
    """Summarise the packets of all rows, and whether all data is right."""
    packets = sum(row.cost.packets for row in rows)
    resent, lost = (sum(getattr(row.cost, name) for row in rows) for name in ("retransmissions", "lost_here"))
    return f"# {packets} packets, {resent} of them sent again; {lost} frames lost by this machine itself"
