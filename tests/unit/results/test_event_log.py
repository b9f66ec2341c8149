"""JSON Lines: written whole, read back, refused when they are not what they should be."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from results.errors import RecordError
from results.files.event_log import EventLog, Tail, merge_records, read_records, stamped, timestamp, write_records


def record(mono_ns: int, event: str) -> dict[str, Any]:
    return {"ts": "t", "mono_ns": mono_ns, "v": 1, "node": "h0", "event": event}


def written(path: Path, *records: dict[str, Any]) -> Path:
    path.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in records))
    return path


def test_files_are_merged_as_they_would_be_written(tmp_path: Path) -> None:
    one, two = [record(5, "B"), record(9, "D")], [record(3, "A"), record(7, "C") | {"text": ',"v":'}]
    more = [stamped("END", "runner", {"n": 1}) | {"mono_ns": 8}]
    files = (written(tmp_path / "1", *one), written(tmp_path / "2", *two), tmp_path / "none")
    merge_records(tmp_path / "merged", files, 4, more, "run-1", 7)
    write_records(tmp_path / "same", [each for each in (*one, *two, *more) if each["mono_ns"] >= 4], "run-1", 7)
    assert list(read_records(tmp_path / "merged")) == list(read_records(tmp_path / "same"))
    assert [each["event"] for each in read_records(tmp_path / "merged")] == ["B", "C", "END", "D"]


def test_a_line_that_is_being_written_is_left_and_a_wrong_one_is_told(tmp_path: Path) -> None:
    file = written(tmp_path / "1", record(1, "A"))
    file.write_bytes(file.read_bytes() + b'{"ts":')
    merge_records(tmp_path / "merged", [file], 0, (), "run-1", 7)
    assert [each["event"] for each in read_records(tmp_path / "merged")] == ["A"]
    with pytest.raises(RecordError, match="2:1: Object missing required field `event`"):
        merge_records(tmp_path / "merged", [written(tmp_path / "2", {"ts": ""})], 0, (), "run-1", 7)


def test_records_read_back(tmp_path: Path) -> None:
    with EventLog(tmp_path / "x.jsonl") as log:
        log.write("A", "h0", {"n": 1})
        log.write("B", "h1", {"links": ["p0:leaf3>spine5"]})
    records = list(read_records(tmp_path / "x.jsonl"))
    assert [(r["event"], r["node"], r["v"]) for r in records] == [("A", "h0", 1), ("B", "h1", 1)]
    assert records[0]["mono_ns"] <= records[1]["mono_ns"]


def test_no_file_has_no_records(tmp_path: Path) -> None:
    assert list(read_records(tmp_path / "none.jsonl")) == []


def test_a_tail_waits_for_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    tail = Tail(path)
    assert list(tail.fresh()) == []
    path.write_bytes(b'{"event":"A","v":1}\n{"event":')
    assert [r["event"] for r in tail.fresh()] == ["A"]
    with path.open("ab") as file:
        file.write(b'"B","v":1}\n')
    assert [r["event"] for r in tail.fresh()] == ["B"]
    assert list(tail.fresh()) == []


def test_a_file_that_is_begun_anew_is_read_to_its_end_first(tmp_path: Path) -> None:
    path, older = tmp_path / "x.jsonl", tmp_path / "x.older.jsonl"
    tail, late = Tail(path, older), Tail(path, older)
    written(path, record(1, "A"), record(2, "B"))
    assert [r["event"] for r in tail.fresh()] == ["A", "B"]
    written(path, record(1, "A"), record(2, "B"), record(3, "C")).replace(older)
    assert [r["event"] for r in tail.fresh()] == ["C"]
    for begun in (b"", b'{"event":'):
        path.write_bytes(begun)
        assert not [*tail.fresh()]
    written(path, record(4, "D"))
    assert [r["event"] for r in tail.fresh()] == ["D"]
    written(path, record(4, "D"), record(5, "E")).replace(older)
    written(path, record(6, "F"))
    assert [r["event"] for r in tail.fresh()] == ["E", "F"]
    assert [r["event"] for r in late.fresh()] == ["D", "E", "F"]
    assert not [*tail.fresh(), *late.fresh()]


def test_what_is_there_can_be_passed_over(tmp_path: Path) -> None:
    path = written(tmp_path / "x.jsonl", record(1, "A"))
    tail = Tail(path)
    tail.skip()
    written(path, record(1, "A"), record(2, "B"))
    assert [r["event"] for r in tail.fresh()] == ["B"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "Input data was truncated"),
        (b"[]", "Expected `object`, got `array`"),
        (b'{"v":1}', "no `event`"),
        (b'{"event":"A","v":9}', "version 9"),
    ],
)
def test_a_line_that_is_no_record_is_named(tmp_path: Path, line: bytes, reason: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"event":"A","v":1}\n' + line + b"\n")
    with pytest.raises(RecordError, match=rf"x\.jsonl:2: .*{reason}"):
        list(read_records(path))


def test_collected_records_are_in_order_and_carry_the_run(tmp_path: Path) -> None:
    write_records(tmp_path / "x.jsonl", [record(2, "B"), record(1, "A")], "run-1", 7)
    records = list(read_records(tmp_path / "x.jsonl"))
    assert [(r["event"], r["run"], r["seed"]) for r in records] == [("A", "run-1", 7), ("B", "run-1", 7)]
    assert list(records[0])[:4] == ["ts", "mono_ns", "run", "seed"]


def test_time_is_rfc_3339_in_utc_with_microseconds() -> None:
    assert timestamp(1_700_000_000_123_456_789) == "2023-11-14T22:13:20.123456Z"


def test_a_log_that_is_not_open_says_so(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not open"):
        EventLog(tmp_path / "x").append({})
