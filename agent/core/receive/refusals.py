"""Packets that the responder refuses, and the NACKs with the reasons. MRC Tables 7-3, 7-16.

A trimmed packet is always refused, one out of window only if so configured; other reasons only when a shortage is
simulated, since this responder never runs out of bitmap, buffers or resources.
"""

import numpy as np
from numpy.typing import NDArray

from agent.wire.array.columns import Rows, WriteColumns
from agent.wire.array.control_columns import NackBatch
from agent.wire.constants import NackReason

_OOR_PER_BATCH = 1
"""Out-of-window NACKs sent per batch (rate-limited: our choice)."""


class Refusals:
    """NACKs that wait to be sent; their fields are copied, since receive memory is reused."""

    def __init__(self, qpn: int) -> None:
        self._qpn = qpn
        self._peer_qpn = 0
        self._parts: list[tuple[NDArray[np.uint32], NDArray[np.uint8], NDArray[np.uint32], NDArray[np.uint16]]] = []
        self._feigned: tuple[NackReason, int] | None = None
        self.sent = 0

    def expect(self, peer_qpn: int) -> None:
        """Set the peer's queue pair number."""
        self._peer_qpn = peer_qpn

    def feign(self, reason: NackReason, packets: int) -> None:
        """Refuse the next `packets` acceptable packets for `reason`, to simulate a shortage."""
        self._feigned = reason, packets

    def feigned_rows(self, acceptable: NDArray[np.bool_]) -> NDArray[np.bool_] | None:
        """Choose the acceptable rows (n,) that are refused now; None if none is."""
        if self._feigned is None:
            return None
        _, left = self._feigned
        within: NDArray[np.bool_] = np.cumsum(acceptable) <= left
        return acceptable & within

    def note_feigned(self, cols: WriteColumns, refused: NDArray[np.bool_]) -> None:
        """Record NACKs of the rows (n,) chosen by `feigned_rows`."""
        if self._feigned is not None:
            reason, left = self._feigned
            left -= int(np.count_nonzero(refused))
            self._feigned = (reason, left) if left > 0 else None
            self.note(cols, refused, reason)

    def note_trimmed(self, cols: WriteColumns) -> None:
        """Record NACKs of trimmed rows, by where they were trimmed."""
        self.note(cols, cols.trimmed & ~cols.trimmed_lasthop, NackReason.TRIMMED)
        self.note(cols, cols.trimmed & cols.trimmed_lasthop, NackReason.TRIMMED_LASTHOP)

    def note_out_of_window(self, cols: WriteColumns, rows: NDArray[np.bool_]) -> None:
        """Record NACKs of some of the rows (n,) beyond the window."""
        self.note(cols, rows.nonzero()[0][:_OOR_PER_BATCH], NackReason.PSN_OOR_WINDOW)

    def note(self, cols: WriteColumns, rows: Rows, reason: NackReason) -> None:
        """Record NACKs of rows of `cols` for `reason`."""
        psn = cols.psn[rows].copy()
        if len(psn):
            reasons = np.full(len(psn), reason, np.uint8)
            self._parts.append((psn, reasons, cols.ev[rows].copy(), cols.tx_timestamp[rows].copy()))

    def nacks(self, ev_index: int) -> NackBatch | None:
        """Build all NACKs that wait."""
        if not self._parts:
            return None
        psn, reason, ev, timestamp = (np.concatenate(part) for part in zip(*self._parts, strict=True))
        self._parts = []
        count = len(psn)
        self.sent += count
        return NackBatch(
            nack_psn=psn,
            nack_reason=reason,
            vendor_info=np.zeros(count, np.uint8),
            ev=ev,
            spdcid=np.full(count, self._peer_qpn & 0xFFFF, np.uint16),
            dpdcid=np.full(count, self._qpn & 0xFFFF, np.uint16),
            tx_timestamp=timestamp,
            ev_index=np.full(count, ev_index, np.uint16),
        )
