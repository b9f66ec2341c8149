"""Event log of the agent: one JSON object per line, appended to a file.

Losses and timeouts come in bursts, so those of a queue pair are summed per EV until the next `flush`; activity in
detail is read from counters then. When the file grows too long its older half is dropped, and a record states how much
that was. Knows the shape of a record (docs/results-schema.md), not the conclusions drawn from it.
"""

import os
import time
from collections import Counter, deque
from collections.abc import Iterable
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import msgspec

from agent.core import events as core
from agent.host.records.qp_activity import Activity, ev_text, path_of, paths_of
from agent.io.host_runtime import HostRuntime, QpEvent
from agent.wire.constants import NackReason
from agent.wire.record_ranges import VERSION

MOST_BYTES = 64 << 20
"""Default size limit of a worker's log, which is kept in memory. A few hundred thousand records fit; a run that loses 1
% of its packets writes some hundred (our choice)."""


class EventDetail(StrEnum):
    """Detail of the event log."""

    OFF = "off"
    DEFAULT = "default"
    """Changes: states, losses, timeouts, refusals, completions, ports."""
    DETAIL = "detail"
    """Also activity: packets by kind, round trips, congestion windows, summed between two flushes."""


class EventLog:
    """Appends events to a file; at half the size limit it becomes the `older` one. Use in a `with`."""

    def __init__(self, path: Path, older: Path | None = None, most_bytes: int = MOST_BYTES) -> None:
        self._path = path
        self._older = older or path.with_name(f"{path.name}.1")
        self._most_bytes = most_bytes
        self._records = self._older_records = 0
        self._pending: list[bytes] = []
        """Records since the last flush."""
        self.cut = 0
        """Records dropped so far, also because the disk was full."""
        self._detail = EventDetail.DEFAULT
        self._activity = Activity()
        self._file: BinaryIO | None = None
        self._clock_offset_ns = time.time_ns() - time.monotonic_ns()
        self._crowds: dict[tuple[int, int, str], Counter[int]] = {}

    def __enter__(self) -> "EventLog":
        """Open the file. Raises OSError."""
        self._file = self._path.open("ab", buffering=0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write what is left and close the file."""
        if self._file is not None:
            self.flush(time.monotonic_ns())
            self._file.close()
            self._file = None

    def choose(self, detail: EventDetail, hosts: Iterable[HostRuntime], most_bytes: int | None = None) -> None:
        """Set detail and size limit from now on; activity of `hosts` before is not recorded."""
        self._detail = detail
        self._most_bytes = most_bytes or self._most_bytes
        self._activity = Activity()
        deque(self._activity.news(hosts), maxlen=0)

    def observe(self, hosts: Iterable[HostRuntime], now_ns: int) -> None:
        """Record activity since the last call, if so configured."""
        if self._detail is EventDetail.DETAIL:
            for act in self._activity.news(hosts):
                self._write(act.host, act.qpn, now_ns, act.event, act.fields)

    def add(self, events: Iterable[QpEvent]) -> None:
        """Record events that queue pairs reported."""
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
                    self._write(item.host, item.qpn, item.event.now_ns, *_record_of(item))

    def flush(self, now_ns: int) -> None:
        """Write the sums so far, and hand everything to the kernel."""
        for (host, qpn, name), by_ev in self._crowds.items():
            evs = {ev_text(ev): count for ev, count in by_ev.items()}
            fields = {"packets": by_ev.total(), "evs": evs, **paths_of(by_ev)}
            self._write(host, qpn, now_ns, name, fields)
        self._crowds.clear()
        if self._file is not None:
            self._put(self._file)
            if 2 * self._file.tell() > self._most_bytes:
                self._begin_anew(now_ns)
                self._put(self._file)

    def _put(self, file: BinaryIO) -> None:
        """Hand pending records to the kernel.

        On a full disk they are dropped and counted: no agent blocks on its log.
        """
        if not self._pending:
            return
        data, count, end = b"".join(self._pending), len(self._pending), file.seek(0, os.SEEK_END)
        self._pending.clear()
        try:
            written = file.write(data)
        except OSError:
            written = 0
        if written == len(data):
            self._records += count
        else:  # a part of a record would corrupt the next one
            file.truncate(end)
            self.cut += count

    def _begin_anew(self, now_ns: int) -> None:
        """Make the newer half the older one; the previous older half is dropped."""
        gone = self._older_records
        self._path.replace(self._older)
        if self._file is not None:
            self._file.close()
        self._file = self._path.open("ab", buffering=0)
        self._older_records, self._records = self._records, 0
        if gone:
            self.cut += gone
            self._append(now_ns, {"node": self._path.stem, "event": "EVENTS_CUT", "records": gone})

    def _crowd(self, item: QpEvent, name: str, rows: tuple[int, ...], counts: tuple[int, ...]) -> None:
        by_ev = self._crowds.setdefault((item.host, item.qpn, name), Counter())
        for row, count in zip(rows, counts, strict=True):
            by_ev[int(item.evs[row])] += count

    def _write(self, host: int, qpn: int | None, mono_ns: int, event: str, fields: dict[str, Any]) -> None:
        who = {"node": f"h{host}", "event": event} | ({} if qpn is None else {"qpn": qpn})
        self._append(mono_ns, {**who, **fields})

    def _append(self, mono_ns: int, fields: dict[str, Any]) -> None:
        if self._file is None:
            return
        when = datetime.fromtimestamp((mono_ns + self._clock_offset_ns) / 1e9, UTC)
        head = {"ts": when.isoformat(timespec="microseconds").replace("+00:00", "Z"), "mono_ns": mono_ns, "v": VERSION}
        self._pending.append(msgspec.json.encode({**head, **fields}) + b"\n")


def _record_of(item: QpEvent) -> tuple[str, dict[str, Any]]:
    match item.event:
        case core.QpStateChanged(old=old, new=new, peer_qpn=peer_qpn):
            ends = {"peer": item.peer_host, "peer_qpn": peer_qpn}
            return "QP_STATE", {"old": old.value, "new": new.value, **ends}
        case core.MessagesCompleted(first_wr_id=first, count=count, length_bytes=size):
            return "MESSAGE_COMPLETE", {"first_wr_id": first, "messages": count, "bytes": size}
        case core.EvStatesChanged(ev_indices=rows, state=state, signal=signal, replacement=replacement, sent=sent):
            moved = [int(item.evs[row]) for row in rows]
            fields = {"state": state.name, "signal": signal.name, "evs": [*map(ev_text, moved)], **paths_of(moved)}
            return "EV_STATE", fields | {"sent": sent} | _replaced_by(item, replacement)
        case core.EvReplaced(old_ev=old, new_ev=new):
            return "EV_REPLACED", {
                "old": ev_text(old),
                "new": ev_text(new),
                **path_of(old, "old"),
                **path_of(new, "new"),
            }
        case core.PortsChanged(owner=owner, up=up, down=down):
            return "PORT", {"side": owner.value, "up": up, "down": down}
        case core.PlaneLossy() as lossy:
            names = ("plane", "lost", "packets", "others_lost", "others_packets", "left")
            return "PLANE_LOSSY", {name: getattr(lossy, name) for name in names}
        case core.PlaneTried(plane=plane):
            return "PLANE_TRIED", {"plane": plane}
        case core.QpFailed(reason=reason, flushed=flushed):
            return "QP_ERROR", {"reason": reason.value, "flushed": flushed}
        case _:
            raise TypeError(f"no record for {item.event!r}")


def _replaced_by(item: QpEvent, row: int) -> dict[str, Any]:
    """Return fields of the value that took the place of another; empty without one."""
    if row < 0:
        return {}
    ev = int(item.evs[row])
    return {"replaced_by": ev_text(ev), **path_of(ev, "replaced_by")}
