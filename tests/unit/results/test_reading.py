from pathlib import Path
from typing import Any

import msgspec
import pytest

from faults import records as written_truth
from results.detect_log import DETECT_LINES, said_in
from results.errors import RecordError, RecordsError, TooLargeError
from results.files.reading import MOST_LINE_BYTES, Decoder, Lines, checked_records, read_document, read_limited
from results.files.yaml_document import MOST_BYTES
from results.records.agent_records import Loss, Topology
from results.report import detection
from results.summary import Summary
from tests.support.run_folder import detect_records, write_run

LOSS = {"ts": "", "mono_ns": 1, "v": 1, "event": "LOSS", "node": "h1", "qpn": 1, "packets": 2, "evs": {"0xc0001005": 2}}


def refusal(changes: dict[str, Any]) -> str:
    with pytest.raises(RecordError) as caught:
        Decoder[Loss](Loss).value(msgspec.json.encode(LOSS | changes), "agent.jsonl:7")
    return str(caught.value)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"packets": "2"}, "agent.jsonl:7: `packets`: Expected `int`, got `str`"),
        ({"packets": 2**53}, "agent.jsonl:7: `packets`: Expected `int` <= 9007199254740991"),
        ({"packets": -1}, "agent.jsonl:7: `packets`: Expected `int` >= 0"),
        ({"mono_ns": 2**63}, "agent.jsonl:7: `mono_ns`: Expected `int` <= 4611686018427387904"),
        ({"mono_ns": 2**64}, "agent.jsonl:7: `mono_ns`: "),
        ({"qpn": 2**24}, "agent.jsonl:7: `qpn`: Expected `int` <= 16777215"),
        ({"evs": {"0xc000": 2}}, "agent.jsonl:7: `key` in `evs`: Expected `str` matching regex"),
        ({"node": "h" * 256}, "agent.jsonl:7: `node`: Expected `str` of length <= 255"),
        ({"v": 2, "packets": "2"}, "agent.jsonl:7: version 2; this program reads version 1"),
    ],
)
def test_an_error_names_file_line_and_field(changes, said):
    assert said in refusal(changes)


@pytest.mark.parametrize("text", [b'{"evs":' + b"[" * 100_000, b'{"new":' + b'{"a":' * 100_000, b"[" * 100_000])
def test_deep_nesting_is_refused_also_in_what_nobody_reads(text):
    with pytest.raises(RecordError):
        Decoder[Loss](Loss).value(text, "agent.jsonl:7")


@pytest.mark.parametrize(("file", "kind"), [("summary.json", Summary), ("topology.json", Topology)])
def test_a_document_of_another_version_is_refused_as_that(tmp_path, file, kind):
    run = write_run(tmp_path / "x")
    (run.path / file).write_bytes(msgspec.json.encode({"v": 2, "all": "else"}))
    with pytest.raises(RecordError, match=f"{file}: version 2; this program reads version 1$"):
        read_document(run.path / file, kind)


def test_too_large_a_file_is_not_read(tmp_path):
    large = tmp_path / "scenario.yaml"
    large.write_bytes(b"#" * (MOST_BYTES + 1))
    with pytest.raises(TooLargeError, match="larger than 1 MiB, so it is not read"):
        read_limited(large, MOST_BYTES)


def test_a_line_without_an_end_is_passed_over(tmp_path):
    file, problems = tmp_path / "agent.jsonl", []
    loss = msgspec.json.encode(LOSS)
    file.write_bytes(loss + b"\n" + b"x" * (2 * MOST_LINE_BYTES + 5) + b"\n" + loss + b"\n")
    assert len(list(Lines(file, problems).of_type(Loss))) == 2
    assert problems == ["agent.jsonl: 1 line cannot be read (the first: line 2: longer than 16 MiB)"]


def test_all_bad_lines_are_told_at_once(tmp_path):
    file = tmp_path / "detect.jsonl"
    records = [detect_records()[0] | changes for changes in ({}, {"plane": 16}, {"spine": "5"}, {"event": "NEWS"})]
    file.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in records))
    with pytest.raises(RecordsError) as caught:
        list(checked_records(file, DETECT_LINES))
    assert str(caught.value).splitlines() == [
        f"{file}:2: `plane`: Expected `int` <= 15",
        f"{file}:3: `spine`: Expected `int`, got `str`",
        f"{file}:4: `event`: Invalid value 'NEWS'",
    ]


def fields_of(kind: Any) -> dict[str, Any]:
    """Type of each field by its name in the file."""
    return {field.encode_name: field.type for field in msgspec.structs.fields(kind)}


VIEWS = {written_truth.FaultSet: detection.Set, written_truth.FaultClear: detection.Cleared}
ADDED_LATER = {"by"}
"""What the injector's owner adds to a record."""


@pytest.mark.parametrize("written", VIEWS, ids=lambda kind: kind.__name__)
def test_a_field_is_read_by_the_type_it_is_written_by(written):
    fields, read = fields_of(written), fields_of(VIEWS[written])
    for name in read.keys() - ADDED_LATER:
        assert read[name] == fields[name], name


def test_lines_of_older_versions_are_read_but_for_their_sums(tmp_path):
    """Those told sums of flows in records of their own, and had no conclusions."""
    old = {"DETECT": {"plane": 0, "src_leaf": 3, "spine": 5, "dst_leaf": 4, "count": 9, "lambda": 9.0,
                      "threshold": None, "verdict": "healthy", "reason": None},
           "LOCALIZE": {"state": "none", "links": [], "candidates": [], "pending": 0}}  # fmt: skip
    records = [
        {"event": event, "ts": "", "mono_ns": 1, "node": "x", "epoch": 1} | fields for event, fields in old.items()
    ]
    records += [{"event": event, "mono_ns": 1, "verdict": "healthy"} for event in ("ADDED_UP", "LINK_SUM")]
    said = said_in(records, "uniform")
    assert (len(said.flows), said.is_whole, said.paths, said.links) == (1, True, {}, {})


def test_a_pipe_in_the_place_of_a_file_is_no_wait(tmp_path):
    import os

    os.mkfifo(tmp_path / "agent.jsonl")
    problems: list[str] = []
    assert not list(Lines(Path(tmp_path / "agent.jsonl"), problems).of_type(Loss))
    assert problems == ["agent.jsonl: not a regular file"]
