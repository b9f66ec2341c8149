"""Records what collectives measure: one record per size, for programs, and the same as nccl-tests' tables.

Bandwidths are in 10^9 bytes per second. Bus bandwidth makes patterns and group sizes comparable (nccl-tests,
doc/PERFORMANCE.md): it counts what each rank must send or receive at least. Rates are those of an emulator.
"""

from collections.abc import Sequence

import msgspec

from agent.wire.ranges import Amount, Count, Difference, Text
from results.records.perf_rows import Cost

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
