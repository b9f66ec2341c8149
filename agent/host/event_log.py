"""The agent's record of what happened: one JSON object a line, appended to a file.

Losses and timeouts come in crowds, so those of a queue pair are summed by EV until the next `flush`.
Knows the shape of a record (docs/results-schema.md), not what anybody concludes from it.
"""

import time
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import msgspec
import numpy as np
from numpy.typing import NDArray

from agent.core import events as core
from agent.io.runtime import QpEvent
from agent.wire.constants import NackReason

_VERSION = 1


class EventLog:
    """Appends events to a file. Use in a `with`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._clock_offset_ns = time.time_ns() - time.monotonic_ns()
        self._crowds: dict[tuple[int, int, str], Counter[int]] = {}

    def __enter__(self) -> "EventLog":
        """Open the file. Raises OSError."""
        self._file = self._path.open("ab")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write what is left and close."""
        if self._file is not None:
            self.flush(time.monotonic_ns())
            self._file.close()
            self._file = None

    def add(self, events: Iterable[QpEvent]) -> None:
        """Record what queue pairs reported."""
        for item in events:
            match item.event:
                case core.PacketsLost(ev_indices=rows, counts=counts):
                    self._crowd(item, "LOSS", rows, counts)
                case core.PacketsTimedOut(ev_indices=rows, counts=counts):
                    self._crowd(item, "ACK_TIMEOUT", rows, counts)
                case core.PacketsNacked(ev_indices=rows, counts=counts, reason=reason):
                    self._crowd(item, f"NACK_{NackReason(reason).name}", rows, counts)
                case _:
                    self._write(item.host, item.qpn, item.event.now_ns, *_told(item.event, item.evs))

    def flush(self, now_ns: int) -> None:
        """Write the sums so far, and hand everything to the kernel."""
        for (host, qpn, name), by_ev in self._crowds.items():
            fields = {"packets": by_ev.total(), "evs": {f"{ev:#010x}": count for ev, count in by_ev.items()}}
            self._write(host, qpn, now_ns, name, fields)
        self._crowds.clear()
        if self._file is not None:
            self._file.flush()

    def _crowd(self, item: QpEvent, name: str, rows: tuple[int, ...], counts: tuple[int, ...]) -> None:
        by_ev = self._crowds.setdefault((item.host, item.qpn, name), Counter())
        for row, count in zip(rows, counts, strict=True):
            by_ev[int(item.evs[row])] += count

    def _write(self, host: int, qpn: int, mono_ns: int, event: str, fields: dict[str, Any]) -> None:
        if self._file is None:
            return
        when = datetime.fromtimestamp((mono_ns + self._clock_offset_ns) / 1e9, UTC)
        head = {"ts": when.isoformat(timespec="microseconds").replace("+00:00", "Z"), "mono_ns": mono_ns, "v": _VERSION}
        record = {**head, "node": f"h{host}", "event": event, "qpn": qpn, **fields}
        self._file.write(msgspec.json.encode(record) + b"\n")


def _told(event: core.Event, evs: NDArray[np.uint32]) -> tuple[str, dict[str, Any]]:
    match event:
        case core.QpStateChanged(old=old, new=new):
            return "QP_STATE", {"old": old.value, "new": new.value}
        case core.MessagesCompleted(first_wr_id=first, count=count, length_bytes=size):
            return "MESSAGE_COMPLETE", {"first_wr_id": first, "messages": count, "bytes": size}
        case core.EvStatesChanged(ev_indices=rows, state=state, signal=signal, replacement=replacement):
            replaced_by = {"replaced_by": f"{int(evs[replacement]):#010x}"} if replacement >= 0 else {}
            named = [f"{int(evs[row]):#010x}" for row in rows]
            return "EV_STATE", {"state": state.name, "signal": signal.name, "evs": named, **replaced_by}
        case core.QpFailed(reason=reason, flushed=flushed):
            return "QP_ERROR", {"reason": reason.value, "flushed": flushed}
        case _:
            raise TypeError(f"no record for {event!r}")
