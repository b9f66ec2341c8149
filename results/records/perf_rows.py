"""Records what performance tests measure: a record per size, for programs, and the same as perftest's and nccl-tests'
tables.

Rates are those of an emulator. Of writes, megabytes are 2^20 bytes and packets are messages, as in perftest. Of
collectives, bandwidths are in 10^9 bytes per second. Bus bandwidth makes patterns and group sizes comparable
(nccl-tests, doc/PERFORMANCE.md): it counts what each rank must send or receive at least.
"""

from collections.abc import Sequence

import msgspec

from agent.wire.record_ranges import Amount, Count, Difference, Text

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


GB = 1e9


class Times(msgspec.Struct, frozen=True):
    """Microseconds of single rounds, of the rank that was slowest on average."""

    min_us: Amount
    median_us: Amount
    average_us: Amount
    p99_us: Amount
    max_us: Amount


class CollectiveRow(msgspec.Struct, frozen=True):
    """Rounds of one size."""

    test: Text
    """Name of the pattern."""
    group: Text | None
    """`tp`, `dp`, `pp`, `ep`, or None."""
    hosts: tuple[tuple[Text, ...], ...]
    """Hosts by group and rank; groups run at the same time."""
    qps: Count
    """Queue pairs between two hosts."""
    size_bytes: Count
    count: Count
    """Elements as nccl-tests counts them: of the sum, of the message, or of one rank's part."""
    type: Text
    redop: Text
    root: Difference
    """-1 where a pattern has none."""
    iterations: Count
    time_us: Amount
    """Time per round: total time divided by rounds, on average over ranks."""
    algbw_bytes_per_s: Amount
    busbw_bytes_per_s: Amount
    wrong: Count | None
    """Wrong elements in the checked round; None without one."""
    checked: Count | None
    times: Times
    cost: Cost

    @property
    def name(self) -> str:
        """Name of the workload in flows: `all-reduce`, or `tp (all-reduce)`."""
        return self.test if self.group is None else f"{self.group} ({self.test})"


HEADER = (
    "#       size         count      type   redop    root     time   algbw   busbw #wrong    median\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)"
)
"""Header of nccl-tests' table, extended by the median of single rounds."""


def row_line(row: CollectiveRow) -> str:
    """Return one row below the header."""
    wrong = "N/A" if row.wrong is None else str(row.wrong)
    rates = f"{row.algbw_bytes_per_s / GB:7.4f} {row.busbw_bytes_per_s / GB:7.4f}"
    what = f"{row.type:>9} {row.redop:>7} {row.root:>7}"
    measured = f"{row.time_us:>8.1f} {rates} {wrong:>6} {row.times.median_us:>9.1f}"
    return f"{row.size_bytes:>12}  {row.count:>12} {what} {measured}"


def end_lines(rows: Sequence[CollectiveRow]) -> str:
    """Return nccl-tests' footer, with packets, retransmissions and losses of the machine."""
    wrong = sum(row.wrong or 0 for row in rows)
    average = sum(row.busbw_bytes_per_s for row in rows) / len(rows) / GB
    packets, resent, lost = (
        sum(getattr(row.cost, name) for row in rows) for name in ("packets", "retransmissions", "lost_here")
    )
    return "\n".join(
        (
            f"# Out of bounds values : {wrong} {'FAILED' if wrong else 'OK'}",
            f"# Avg bus bandwidth    : {average:.4f}",
            f"# {packets} packets, {resent} of them sent again; {lost} frames lost by this machine itself",
        )
    )
