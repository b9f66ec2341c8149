"""Writes and reads JSON Lines by one schema: every line has a time, a writer, an event and a version.

Writers elsewhere (agents, SprayCheck) keep to the same first fields; `records` names the rest.
"""

import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from agent.wire.record_ranges import VERSION, Nanoseconds, Version
from results.errors import RecordError
from results.files.reading import Decoder
from results.files.user_files import naming, open_regular, open_to_append

Fields = dict[str, Any]
"""One record as decoded JSON; typed at the edge by `results.records.agent_records`."""


def timestamp(unix_ns: int) -> str:
    """RFC 3339, UTC, microseconds."""
    moment = datetime.fromtimestamp(unix_ns // 1_000_000_000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{unix_ns % 1_000_000_000 // 1000:06d}Z"


def stamped(event: str, node: str, fields: Mapping[str, Any]) -> Fields:
    """Return a record of this moment."""
    head: Fields = {"ts": timestamp(time.time_ns()), "mono_ns": time.monotonic_ns(), "v": VERSION}
    return head | {"event": event, "node": node} | dict(fields)


class EventLog:
    """Appends records to a file, a whole line at a time, so that a reader never sees half of one for long."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None

    def __enter__(self) -> "EventLog":
        """Open the file to append."""
        self._file = open_to_append(self._path)
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def append(self, record: Mapping[str, Any]) -> None:
        """Write one record as given."""
        if self._file is None:
            raise ValueError(f"{self._path} is not open")
        try:
            self._file.write(msgspec.json.encode(record) + b"\n")
        except OSError as error:  # a write does not say where
            raise OSError(error.errno, error.strerror, str(self._path)) from error

    def write(self, event: str, node: str, fields: Mapping[str, Any]) -> Fields:
        """Stamp a record with this moment, write it, return it."""
        record = stamped(event, node, fields)
        self.append(record)
        return record


def read_records(path: Path) -> Iterator[Fields]:
    """Read all whole lines of a file; a missing file has none. Raises `RecordError`."""
    if path.exists():
        yield from Tail(path).fresh()


class Tail:
    """Reads a growing file from where it stopped the last time.

    If the file is sometimes started anew, its earlier content is the file `older`, which is read first.
    """

    def __init__(self, path: Path, older: Path | None = None) -> None:
        self._path = path
        self._older = older
        self._first = b""
        """First line of the file that was read: no two are alike, because each has a time."""
        self._offset = 0
        self._line = 0

    def fresh(self) -> Iterator[Fields]:
        """Read records completed since the last call. Raises `RecordError`."""
        for where, text in self._lines():
            yield _decoded(where, text)

    def skip(self) -> None:
        """Skip everything that is there now."""
        deque(self._lines(), maxlen=0)

    def _lines(self) -> Iterator[tuple[str, bytes]]:
        """Yield whole lines, each with its position."""
        if self._older is not None and not self._is_at(self._path):
            yield from self._lines_of(self._older)
        yield from self._lines_of(self._path)

    def _is_at(self, path: Path) -> bool:
        """Return whether this is the file that was read last."""
        with suppress(FileNotFoundError), open_regular(path) as file:
            return bool(self._first) and file.readline() == self._first
        return False

    def _lines_of(self, path: Path) -> Iterator[tuple[str, bytes]]:
        if not path.exists():
            return
        with open_regular(path) as file:
            first = file.readline()
            if not first.endswith(b"\n"):
                return
            if first != self._first:
                self._first, self._offset, self._line = first, 0, 0
            file.seek(self._offset)
            for text in file:
                if not text.endswith(b"\n"):
                    return
                self._offset += len(text)
                self._line += 1
                yield f"{path}:{self._line}", text


def _decoded(where: str, text: bytes) -> Fields:
    record = _ANY.value(text, where)
    if "event" not in record:
        raise RecordError(where, "not a record: it has no `event`")
    if record.get("v") != VERSION:
        raise RecordError(where, f"version {record.get('v')!r}; this program reads version {VERSION}")
    return record


_ANY = Decoder[Fields](Fields)


def write_records(path: Path, records: list[Fields], run: str, seed: int) -> None:
    """Write records into a run folder in the order of time, each with the run's name and seed."""
    with EventLog(path) as log:
        for record in sorted(records, key=lambda record: record["mono_ns"]):
            log.append({"ts": record["ts"], "mono_ns": record["mono_ns"], "run": run, "seed": seed} | record)


class _Stamped(msgspec.Struct):
    """The fields that are read from a record that is copied unchanged."""

    event: str
    mono_ns: Nanoseconds
    v: Version


def merge_records(
    path: Path, sources: Iterable[Path], since_ns: int, more: Iterable[Fields], run: str, seed: int
) -> None:
    """Write the records of several files from a moment on, and some more, into a run folder in the order of time.

    They are copied as text, which takes a fifth of the memory of decoded records: there may be a million. A file that
    is not there has none. Raises `RecordError`.
    """
    lines = [(at, line) for source in sources for at, line in _lines_of(source) if at >= since_ns]
    lines += [(record["mono_ns"], msgspec.json.encode(_with_stamp_first(record)) + b"\n") for record in more]
    lines.sort(key=lambda line: line[0])
    mark = msgspec.json.encode({"run": run, "seed": seed})[1:-1]
    with open_to_append(path, buffering=-1) as file, naming(path):
        for _, line in lines:
            head, found, rest = line.partition(_BEHIND_STAMP)
            file.write(head + b"," + mark + found + rest if found else b"{" + mark + b"," + line[1:])


_BEHIND_STAMP = b',"v":'
"""Return the fields that every writer puts after the time."""


def _with_stamp_first(record: Fields) -> Fields:
    return {"ts": record["ts"], "mono_ns": record["mono_ns"], "v": record["v"]} | record


def _lines_of(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield whole lines of a file, each with its time."""
    if not path.exists():
        return
    decoder = Decoder[_Stamped](_Stamped)
    with open_regular(path) as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            yield decoder.value(line, f"{path}:{number}").mono_ns, line
