"""Interface between the core and the wire format: frozen groups of numpy columns, one row per packet.

Knows no byte layout and no protocol rule. All numbers are in host byte order; PSNs are wire values (24 bits).
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache
from itertools import pairwise
from types import SimpleNamespace
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

_VIEW_MIN_BYTES = 512
"""Row length from which a check for even spacing pays. Our choice, measured: 10 us of 40 at 1024 bytes, 256 rows."""

_MOST_STRETCHES = 8
"""Most stretches of evenly spaced rows to copy one by one. Our choice: an iteration costs as much as copying 8 kB."""

FEW_ROWS = 4
"""Most rows to read and write one by one; more are processed column by column. Our choice: there both cost the same."""

T = TypeVar("T", bound=np.generic)

Rows = NDArray[np.intp] | NDArray[np.int64] | NDArray[np.bool_] | slice

Stretch = tuple[slice, NDArray[np.uint8]]
"""Some consecutive rows, and a view of their bytes."""


def windows(memory: NDArray[np.uint8], width: int) -> NDArray[np.uint8]:
    """View every run of `width` bytes of a flat contiguous memory: row o starts at byte o.

    Shape `(len(memory) - width + 1, width)`. Writable if the memory is. Index it with an array of offsets to gather or
    scatter rows; never copy it whole.
    """
    return np.ndarray((memory.size - width + 1, width), np.uint8, memory, strides=(1, 1))


def whole_windows(memory: NDArray[np.uint8], width: int) -> NDArray[np.void]:
    """View every run of `width` bytes as one element, as `windows`.

    Picking those costs half of picking rows (measured).
    """
    return np.ndarray((memory.size - width + 1,), np.dtype((np.void, width)), memory, strides=(1,))


def _wholes(rows: NDArray[np.uint8]) -> NDArray[np.void]:
    """View rows (n, width) as one element each."""
    return rows.view(np.dtype((np.void, rows.shape[1])))[:, 0]


def alike(values: NDArray[np.generic]) -> bool:
    """Report whether (n >= 1,) values are all the same."""
    return len(values) == 1 or not np.count_nonzero(values != values[0, ...])


def total(values: NDArray[np.uint32]) -> int:
    """Sum (n,) values; for few values this takes a tenth of numpy's time."""
    return sum(values.tolist()) if len(values) <= FEW_ROWS else int(np.add.reduce(values))


def filled(value: int, count: int, dtype: type[T]) -> NDArray[T]:
    """Repeat `value` `count` times; a third of the cost of np.full."""
    column = np.empty(count, dtype)
    column.fill(value)
    return column


def even_views(memory: NDArray[np.uint8], offsets: NDArray[np.int64], width: int) -> list[Stretch] | None:
    """View the runs of `width` bytes at (n,) `offsets` as a few evenly spaced stretches; None if that brings no gain.

    Rows of a ring are evenly spaced, and so are, but for a few places, the packets of one message in one plane: views
    avoid copying every byte twice.
    """
    if len(offsets) < 2 or width < _VIEW_MIN_BYTES:
        return None
    steps = offsets[1:] - offsets[:-1]
    step = int(steps[len(steps) // 2])
    uneven = (steps != step).nonzero()[0].tolist()
    if step <= 0 or len(uneven) >= _MOST_STRETCHES:
        return None
    bounds = [0, *(place + 1 for place in uneven), len(offsets)]
    return [
        (slice(a, b), np.ndarray((b - a, width), np.uint8, memory, int(offsets[a]), (step, 1)))
        for a, b in pairwise(bounds)
    ]


def gather_rows(memory: NDArray[np.uint8], offsets: NDArray[np.int64], out: NDArray[np.uint8]) -> None:
    """Copy to each row of `out` (n, width) the bytes of `memory` from (n,) `offsets` on."""
    width = out.shape[1]
    if len(offsets) <= FEW_ROWS:
        for row, start in zip(out, offsets.tolist(), strict=True):
            row[:] = memory[start : start + width]
        return
    stretches = even_views(memory, offsets, width)
    if stretches is None:
        _wholes(out)[:] = whole_windows(memory, width)[offsets]
        return
    for rows, view in stretches:
        out[rows] = view


def scatter_rows(rows: NDArray[np.uint8], memory: NDArray[np.uint8], offsets: NDArray[np.int64]) -> None:
    """Copy each of `rows` (n, width) to `memory` from (n,) `offsets` on."""
    width = rows.shape[1]
    if len(offsets) <= FEW_ROWS:
        for row, start in zip(rows, offsets.tolist(), strict=True):
            memory[start : start + width] = row
        return
    stretches = even_views(memory, offsets, width)
    if stretches is None:
        whole_windows(memory, width)[offsets] = _wholes(rows)
        return
    for chosen, view in stretches:
        view[:] = rows[chosen]


def rows_at(memory: NDArray[np.uint8], offsets: NDArray[np.int64], width: int) -> NDArray[np.uint8]:
    """Return the runs of `width` bytes at (n,) `offsets`, `(n, width)`.

    A view if they are evenly spaced, else a copy.
    """
    stretches = even_views(memory, offsets, width)
    if stretches is not None and len(stretches) == 1:
        return stretches[0][1]
    if not width:
        return np.empty((len(offsets), 0), np.uint8)
    return whole_windows(memory, width)[offsets].view(np.uint8).reshape(-1, width)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Columns:
    """Columns whose rows can be selected together; an array field of another length is shared, not selected."""

    def take(self, rows: Rows) -> Self:
        """Return the given rows in the given order (index array, boolean mask or slice).

        Shared memory is not copied.
        """
        shared = self._shared()
        values = {}
        for name in self._names():
            value = getattr(self, name)
            selected = name not in shared and isinstance(value, np.ndarray)
            values[name] = value[rows] if selected else value
        return type(self)(**values)

    def rows(self) -> Iterator[SimpleNamespace]:
        """Iterate row by row, with numbers by name: for code that reads single packets; far too slow for batches."""
        shared = self._shared()
        values = {name: getattr(self, name) for name in self._names() if name not in shared}
        columns = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
        same = {name: value for name, value in values.items() if name not in columns}
        for numbers in zip(*(column.tolist() for column in columns.values()), strict=True):
            yield SimpleNamespace(**same, **dict(zip(columns, numbers, strict=True)))

    @classmethod
    @cache
    def _names(cls) -> tuple[str, ...]:
        return tuple(field.name for field in fields(cls))

    @staticmethod
    def _shared() -> tuple[str, ...]:
        return ()


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class WriteBatch(Columns):
    """Write requests of one QP to be encoded, `(n,)` each unless stated. TSETH is always sent."""

    psn: NDArray[np.uint32]
    opcode: NDArray[np.uint8]
    flags: NDArray[np.uint8]
    """BTH byte 8: BTH_ACK_REQUEST, BTH_RETRANSMISSION. BTH_TIMESTAMP is added by the encoder."""
    ev_index: NDArray[np.uint16]
    """Row of the FlowTemplate's EV table."""
    msn: NDArray[np.uint16]
    rqmsn: NDArray[np.uint16]
    va: NDArray[np.uint64]
    """Remote address of this packet's first payload byte: base + k * pmtu."""
    rkey: NDArray[np.uint32]
    dmalen: NDArray[np.uint32]
    """Length of the whole message."""
    source_offset: NDArray[np.int64]
    """Where the payload starts in `source`, bytes."""
    payload_bytes: NDArray[np.uint32]
    tx_timestamp: int
    """Timestamp, 16 bits, ticks of 8192 ns (tsr = 1)."""
    source: NDArray[np.uint8]
    """Flat contiguous memory that holds the payloads; any length."""
    imm: NDArray[np.uint32] | None = None
    """Immediate data; used only in rows whose opcode carries it."""

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.psn)

    @staticmethod
    def _shared() -> tuple[str, ...]:
        return ("source",)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class WriteColumns(Columns):
    """Write requests as received, `(n,)` each unless stated, of any QPs. They view the ring: use before releasing it.

    A trimmed row has no payload (`payload_bytes` 0) and, when cut that short, zero `va`, `rkey` and `dmalen`.
    """

    psn: NDArray[np.uint32]
    opcode: NDArray[np.uint8]
    flags: NDArray[np.uint8]
    """BTH byte 8: BTH_ACK_REQUEST, BTH_RETRANSMISSION, BTH_TIMESTAMP."""
    dqpn: NDArray[np.uint32]
    ce: NDArray[np.bool_]
    """Congestion Experienced, in the outer or the inner header (RFC 6040)."""
    trimmed: NDArray[np.bool_]
    trimmed_lasthop: NDArray[np.bool_]
    ev: NDArray[np.uint32]
    msn: NDArray[np.uint16]
    rqmsn: NDArray[np.uint16]
    tx_timestamp: NDArray[np.uint16]
    va: NDArray[np.uint64]
    rkey: NDArray[np.uint32]
    dmalen: NDArray[np.uint32]
    imm: NDArray[np.uint32]
    """Immediate data; zero in rows whose opcode carries none."""
    payload_bytes: NDArray[np.uint32]
    payload_offset: NDArray[np.int64]
    """Where the row's payload starts in `memory`, bytes."""
    memory: NDArray[np.uint8]
    """The received block as flat bytes; any length."""
    plane: int
    source: NDArray[np.uint32] | None = None
    """(n, 4) words of the inner source address; None where there was no frame."""

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.psn)

    def payload(self, rows: Rows, width: int) -> NDArray[np.uint8]:
        """Copy the first `width` payload bytes of the rows, `(len(rows), width)`; each must have that many."""
        if width == 0:
            return np.empty((len(self.psn[rows]), 0), np.uint8)
        return windows(self.memory, width)[self.payload_offset[rows]]

    @staticmethod
    def _shared() -> tuple[str, ...]:
        return ("memory",)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _SackFields(Columns):
    """SETH and CC_STATE (MRC Tables 7-14, 7-12), `(n,)` each."""

    cack_psn: NDArray[np.uint32]
    ack_psn_offset: NDArray[np.int16]
    """cack_psn + offset is the PSN that triggered the SACK; where `pr`, these are the 16 bits of the probe id
    instead."""
    pr: NDArray[np.bool_]
    """The SACK answers a reliability probe."""
    rtx: NDArray[np.bool_]
    """Echo of the triggering packet's retransmission bit."""
    m: NDArray[np.uint8]
    """Congestion verdict (EcnVerdict)."""
    ev: NDArray[np.uint32]
    """EV of the triggering packet, reflected."""
    spdcid: NDArray[np.uint16]
    dpdcid: NDArray[np.uint16]
    mpr: NDArray[np.uint8]
    """Receive window, in units of 128 PSNs; 0 when dynamic MPR is off."""
    sack_offset: NDArray[np.int16]
    """Bit 0 of the bitmap is PSN cack_psn + sack_offset."""
    bitmap: NDArray[np.uint64]
    """Bit i, least significant first: PSN base + i has been received; all zero has no meaning."""
    tx_timestamp: NDArray[np.uint16]
    """Timestamp of the triggering packet, reflected."""
    ooo_count: NDArray[np.uint16]
    """Packets held above cack_psn, 15 bits."""
    restore_cwnd: NDArray[np.bool_]
    rcv_cwnd_pen: NDArray[np.uint8]
    """Penalty to the peer's window, 7 bits."""
    rcvd_bytes: NDArray[np.uint32]
    """Bytes received, in units of 256 bytes, 24 bits, wraps."""

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.cack_psn)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SackBatch(_SackFields):
    """SACKs of one QP to be encoded; the FlowTemplate holds the peer's QP number."""

    ev_index: NDArray[np.uint16]
    """Reverse path: row of the FlowTemplate's EV table."""
    port_mask: NDArray[np.uint32] | None = None
    """Our ports that work, bit N = port N (from 1); None sends the plain SACK of OCP MRC (our choice)."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SackColumns(_SackFields):
    """SACKs as received, of any QPs."""

    dqpn: NDArray[np.uint32]
    plane: int
    port_mask: NDArray[np.uint32] | None = None
    """The peer's ports that work, bit N = port N (from 1); 0 in a row without a mask (a SACK always leaves by some
    port); None where no row has one."""
    source: NDArray[np.uint32] | None = None
    """(n, 4) words of the inner source address; None where there was no frame."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Announcement:
    """Announcement of a flow to the SprayCheck leaves, one per plane and path (SprayCheck F1, D1)."""

    epoch: int
    """Measurement round, 16 bits."""
    plane: int
    policy: int
    """Spray policy (SprayPolicyCode)."""
    spines: int
    """Usable spines k of this plane."""
    src_leaf: int
    dst_leaf: int
    src_host: int
    dst_host: int
    dqpn: int
    start_psn: int
    packets: int
    """First transmissions N of the flow in this plane."""
    last_psn: int
    """PSN of the last first transmission in this plane."""
    end_psn: int
    """PSN of the flow's last packet in any plane."""
