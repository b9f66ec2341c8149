"""The published schemas are those of the types, and a run's files hold to them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from results.files.event_log import EventLog
from results.files.run_dir import RunDir
from scenarios.record_schemas import TYPES, schema_name, schema_text
from tests.support.run_folder import write_run
from tests.support.run_schemas import problems_in, problems_of, read_file

SCHEMAS = Path(__file__).parents[3] / "docs" / "schemas"


@pytest.mark.parametrize("file", TYPES)
def test_the_committed_schema_is_that_of_the_types(file):
    """`python -m scenarios.record_schemas docs/schemas` after a change."""
    text = (SCHEMAS / schema_name(file)).read_text()
    assert text == schema_text(file)
    Draft202012Validator.check_schema(json.loads(text))


def test_there_is_a_schema_for_every_file_and_no_other():
    assert {path.name for path in SCHEMAS.iterdir()} == {schema_name(file) for file in TYPES}


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> RunDir:
    return write_run(tmp_path_factory.mktemp("runs") / "a-run")


def test_a_runs_files_hold_to_their_schemas(run):
    assert problems_of(run.path) == []


@pytest.mark.parametrize(
    ("event", "by"), [("DENY", "hand spraycheck"), ("ALLOW", "hand probes"), ("DENY_REFUSED", "spraycheck")]
)
def test_what_the_owner_adds_to_the_verdicts_is_in_their_schema(event, by, tmp_path):
    with EventLog(tmp_path / "detect.jsonl") as log:
        for who in ("hand", "spraycheck", "probes"):
            log.write(event, "controller", {"epoch": 1, "link": "p0:leaf1>spine2", "by": who})
    validator = Draft202012Validator(json.loads(schema_text("detect.jsonl")))
    records = list(read_file(tmp_path / "detect.jsonl"))
    assert [record["by"] for record in records if validator.is_valid(record)] == by.split()
    broken = [each for name, each in without(records[by != "hand probes"]) if name in ("epoch", "link", "by")]
    assert not any(map(validator.is_valid, broken))


def test_a_field_that_is_written_and_not_published_is_missed(run):
    """Published schemas let it pass, since fields may come on top; what holds writers against them must not."""
    for file in TYPES:
        for document in read_file(run.path / file):
            more = document | {"not_published": 1}
            assert Draft202012Validator(json.loads(schema_text(file))).is_valid(more), file
            (problem,) = problems_in(file, [more])
            assert "'not_published' was unexpected" in problem, file
    (summary,) = read_file(run.path / "summary.json")
    summary["flows"][3]["not_published"] = 1
    (problem,) = problems_in("summary.json", [summary])
    assert "flows[3]: Additional properties" in problem


def test_a_line_of_no_published_event_is_missed(run):
    assert len(problems_in("agent.jsonl", [{**next(read_file(run.path / "agent.jsonl")), "event": "GAIN"}])) == 1


def without(record: Any) -> Iterator[tuple[str, Any]]:
    """The record with one of its fields gone at a time."""
    for name in record:
        yield name, {key: value for key, value in record.items() if key != name}


def test_what_a_schema_asks_for_is_missed(run):
    """Taking away a field that readers count on is noticed."""
    for file, name in (("summary.json", "totals"), ("counters.jsonl", "acked_bytes"), ("agent.jsonl", "qpn")):
        validator = Draft202012Validator(json.loads(schema_text(file)))
        document = next(read_file(run.path / file))
        broken = dict(without(document))[name]
        assert validator.is_valid(document)
        assert not validator.is_valid(broken), name
