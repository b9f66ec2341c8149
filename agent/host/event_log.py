"""The agent's record of what happened: one JSON object a line, appended to a file.

Losses and timeouts come in crowds, so those of a queue pair are summed by EV until the next `flush`; what is told in
detail is read from counters then.
Knows the shape of a record (docs/results-schema.md), not what anybody concludes from it.
"""

import time
from collections import Counter, deque
from collections.abc import Iterable
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import msgspec
import numpy as np
from numpy.typing import NDArray

from agent.core import events as core
from agent.host.activity import Activity
from agent.io.runtime import HostRuntime, QpEvent
from agent.wire.constants import NackReason

_VERSION = 1


class EventDetail(StrEnum):
    """How much is written."""

    OFF = "off"
    DEFAULT = "default"
    """What changes: states, losses, timeouts, refusals, completions, ports."""
    DETAIL = "detail"
    """Besides, what passes: packets by kind, round trips, congestion windows, summed between two flushes."""


class EventLog:
    """Appends events to a file. Use in a `with`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._detail = EventDetail.DEFAULT
        self._activity = Activity()
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

    def choose(self, detail: EventDetail, hosts: Iterable[HostRuntime]) -> None:
        """Write so much from now on; what `hosts` did before is not told."""
        self._detail = detail
        self._activity = Activity()
        deque(self._activity.news(hosts), maxlen=0)

    def observe(self, hosts: Iterable[HostRuntime], now_ns: int) -> None:
        """Record what passed since the last call, if that is wanted."""
        if self._detail is EventDetail.DETAIL:
            for act in self._activity.news(hosts):
                self._write(act.host, act.qpn, now_ns, act.event, act.fields)

    def add(self, events: Iterable[QpEvent]) -> None:
        """Record what queue pairs reported."""
        for item in events:
            if self._detail is EventDetail.OFF:
                continue
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

    def _write(self, host: int, qpn: int | None, mono_ns: int, event: str, fields: dict[str, Any]) -> None:
        if self._file is None:
            return
        when = datetime.fromtimestamp((mono_ns + self._clock_offset_ns) / 1e9, UTC)
        head = {"ts": when.isoformat(timespec="microseconds").replace("+00:00", "Z"), "mono_ns": mono_ns, "v": _VERSION}
        who = {"node": f"h{host}", "event": event} | ({} if qpn is None else {"qpn": qpn})
        record = {**head, **who, **fields}
        self._file.write(msgspec.json.encode(record) + b"\n")


def _told(event: core.Event, evs: NDArray[np.uint32]) -> tuple[str, dict[str, Any]]:
    match event:
        case core.QpStateChanged(old=old, new=new):
            return "QP_STATE", {"old": old.value, "new": new.value}
        case core.MessagesCompleted(first_wr_id=first, count=count, length_bytes=size):
            return "MESSAGE_COMPLETE", {"first_wr_id": first, "messages": count, "bytes": size}
        case core.EvStatesChanged(ev_indices=rows, state=state, signal=signal, replacement=replacement, sent=sent):
            replaced_by = {"replaced_by": f"{int(evs[replacement]):#010x}"} if replacement >= 0 else {}
            named = [f"{int(evs[row]):#010x}" for row in rows]
            return "EV_STATE", {"state": state.name, "signal": signal.name, "evs": named, "sent": sent, **replaced_by}
        case core.EvReplaced(old_ev=old, new_ev=new):
            return "EV_REPLACED", {"old": f"{old:#010x}", "new": f"{new:#010x}"}
        case core.PortsChanged(owner=owner, up=up, down=down):
            return "PORT", {"side": owner.value, "up": up, "down": down}
        case core.QpFailed(reason=reason, flushed=flushed):
            return "QP_ERROR", {"reason": reason.value, "flushed": flushed}
        case _:
            raise TypeError(f"no record for {event!r}")
