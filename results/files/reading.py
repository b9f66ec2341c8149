"""Reads the files of a run's folder, whoever edited them: within size limits and by type, or with one error.

The only place that makes records of bytes that may be damaged. An error names the file, the line and the field.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from agent.wire.record_ranges import VERSION
from results.errors import RecordError, RecordsError, TooLargeError
from results.files.user_files import open_regular
from results.text import count_text

MOST_LINE_BYTES = 1 << 24
"""Most bytes of one record. The longest has a number or two per flow, or 0.1 KiB per path (our choice)."""

MOST_DOCUMENT_BYTES = 1 << 26
"""Most bytes of `summary.json`, which has about 0.6 KiB per flow, and of the other documents (our choice)."""

_PLACE = re.compile(r"(?P<reason>.*) - at (?P<key>`key` in )?`\$\.?(?P<field>.*)`", re.DOTALL)
"""Pattern of msgspec's messages, with the field."""

T = TypeVar("T")


class Decoder(Generic[T]):
    """Decodes JSON to values of one type, or states what is wrong with it."""

    def __init__(self, kind: type[T] | Any) -> None:
        self._decode = msgspec.json.Decoder(kind).decode

    def value(self, text: bytes, where: str) -> T:
        """Decode a value. Raises `RecordError` with `where` and the field."""
        try:
            value: T = self._decode(text)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise RecordError(where, _flaw(text, error)) from error
        return value


class _Head(msgspec.Struct):
    """The fields of every record and document."""

    v: msgspec.Raw = msgspec.Raw(b"1")


def _flaw(text: bytes, error: Exception) -> str:
    """State what is wrong with a text; the version first, because other flaws follow from it."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if (version := _version(text)) not in (None, VERSION):
        return f"version {version!r}; this program reads version {VERSION}"
    found = _PLACE.fullmatch(str(error))
    return f"{found['key'] or ''}`{found['field']}`: {found['reason']}" if found and found["field"] else str(error)


def _version(text: bytes) -> Any:
    """Return the version that the text states; None if it cannot be read."""
    try:
        return msgspec.json.decode(msgspec.json.decode(text, type=_Head).v, type=int | float | str | None)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def checked_records(path: Path, kind: Any) -> Iterator[dict[str, Any]]:
    """Read all lines of a file as complete records of `kind`.

    Raises `RecordsError` with every line that is none, at the end; OSError.
    """
    wrong = []
    for record in records_or_errors(path, kind, Decoder[dict[str, Any]](dict[str, Any])):
        if isinstance(record, RecordError):
            wrong.append(record)
        else:
            yield record
    if wrong:
        raise RecordsError(tuple(RecordError(f"{path}:{each.where}", each.reason) for each in wrong))


def read_document(path: Path, kind: type[T]) -> T:
    """Read the document in a file. Raises OSError, `TooLargeError`, `RecordError`."""
    return Decoder(kind).value(read_limited(path, MOST_DOCUMENT_BYTES), str(path))


def read_limited(path: Path, most_bytes: int) -> bytes:
    """Read a whole file. Raises `TooLargeError`; OSError, also for what is no regular file."""
    with open_regular(path) as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise TooLargeError(path, most_bytes)
    return data


def lines_of(file: Any) -> Iterator[bytes | None]:
    """Yield lines of a binary file; None for one that is longer than MOST_LINE_BYTES."""
    while text := file.readline(MOST_LINE_BYTES):
        if len(text) < MOST_LINE_BYTES or text.endswith(b"\n"):
            yield text
            continue
        while text and not text.endswith(b"\n"):
            text = file.readline(MOST_LINE_BYTES)
        yield None


def event_of(record: msgspec.Struct) -> str:
    """Return the event of a record."""
    return str(type(record).__struct_config__.tag)


def left_aside(*events: str) -> tuple[Any, ...]:
    """Return types of records of which only the event and the moment are read."""
    return tuple(msgspec.defstruct(name, [("mono_ns", int, 0)], tag_field="event", tag=name) for name in events)


class Lines:
    """Reads the lines of a file one by one as records; lines that cannot be read are counted, not raised."""

    def __init__(self, path: Path, problems: list[str]) -> None:
        self._path = path
        self._problems = problems
        self.found = 0
        """Number of records read so far."""
        self.is_whole = False
        """Whether the file could be read and every line was a record; known once all were read."""

    @property
    def name(self) -> str:
        """The file's name."""
        return self._path.name

    def of_type(self, kind: Any) -> Iterator[Any]:
        """Yield records in the order of the file; for a missing file, yield none and note the problem."""
        bad, first = 0, ""
        try:
            for record in records_or_errors(self._path, kind):
                if isinstance(record, RecordError):
                    bad += 1
                    first = first or f"line {record}"
                else:
                    self.found += 1
                    yield record
        except OSError as error:
            self._problems.append(f"{self._path.name}: {error.strerror}")
            return
        self.is_whole = not bad
        if bad:
            self._problems.append(f"{self._path.name}: {count_text(bad, 'line')} cannot be read (the first: {first})")


def records_or_errors(path: Path, kind: Any, instead: Decoder[Any] | None = None) -> Iterator[Any]:
    """Yield every line of a file as a record of `kind`, or as an error whose `where` is the line number.

    With `instead` a line is checked as that and given as this. Raises OSError.
    """
    decoder: Decoder[Any] = Decoder(kind)
    with open_regular(path) as file:
        for number, text in enumerate(lines_of(file), 1):
            try:
                if text is None:
                    raise RecordError(str(number), f"longer than {MOST_LINE_BYTES >> 20} MiB")
                record = decoder.value(text, str(number))
                yield record if instead is None else instead.value(text, str(number))
            except RecordError as error:
                yield error
