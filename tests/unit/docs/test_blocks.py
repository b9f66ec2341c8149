"""What stands in the blocks of the documents is right, as far as a lab is not needed; the rest is run on one."""

import ast
import json
import shlex
from typing import Any

import pytest
import yaml

from scenarios.errors import ScenarioRefusedError
from scenarios.file.load import load_scenario
from scenarios.file.plan import plan_of
from scenarios.record_schemas import TYPES, schema_name
from tests.support.command_words import complaint_about, resolved
from tests.support.documents import PAGES, ROOT, Block, blocks_of
from tests.support.run_schemas import problems_in

LANGUAGES = {"sh", "python", "yaml", "json", "wireshark", "text"}
MARKS = (
    "skip:",
    "as in ",
    "file ",
    "refused as ",
    "ends with ",
    "instead of ",
    "output of ",
    "schema ",
    "into ",
)
MOST_SKIPPED = 6
"""Blocks of commands that no test runs: what installs, and what takes an hour."""

BLOCKS = [block for page in PAGES for block in blocks_of(page)]


def of_language(*languages: str) -> list[Any]:
    return [pytest.param(block, id=str(block)) for block in BLOCKS if block.language in languages]


def test_every_block_says_what_it_is_and_every_mark_is_understood() -> None:
    assert [str(block) for block in BLOCKS if block.language not in LANGUAGES] == []
    assert [str(block) for block in BLOCKS if not all(mark.startswith(MARKS) for mark in block.marks)] == []


def test_few_blocks_are_not_run_and_each_says_why() -> None:
    skipped = {str(block): block.marked("skip") for block in BLOCKS if block.marked("skip") is not None}
    assert all(len(why or "") > 10 for why in skipped.values())
    assert len(skipped) <= MOST_SKIPPED, skipped


@pytest.mark.parametrize("block", of_language("sh"))
def test_commands_exist_with_their_options(block: Block) -> None:
    for line in block.lines:
        for each in line.split(" | ")[0].split("; "):
            words = shlex.split(each.removeprefix("sudo "))
            if words[0] == "make":
                assert f"\n{words[1]}:" in (ROOT / "Makefile").read_text(), line
            elif words[0] == "spraylab":
                assert complaint_about(words[1:]) is None, line
                command, rest = resolved(words[1:])
                command.make_context(line, rest, resilient_parsing=False)


@pytest.mark.parametrize("block", [each for each in of_language("sh") if each.values[0].marked("as in") is not None])
def test_what_another_page_runs_stands_there_in_this_order(block: Block) -> None:
    page = ROOT / (block.marked("as in") or "")
    there = iter([line for other in blocks_of(page) if other.language == "sh" for line in other.lines])
    assert all(line in there for line in block.lines), f"{block}: not the lines of {page.name}"


@pytest.mark.parametrize("block", of_language("yaml"))
def test_scenarios_and_parts_of_them_are_valid(block: Block, tmp_path: Any) -> None:
    path = tmp_path / (block.marked("refused as") or "part.yaml")
    path.write_text(framed(block.text))
    if block.marked("refused as") is None:
        plan_of(load_scenario(path))
    else:
        with pytest.raises(ScenarioRefusedError) as refused:
            load_scenario(path)
        answer = BLOCKS[BLOCKS.index(block) + 1]
        assert str(refused.value).replace(str(path), path.name).splitlines() == answer.text.splitlines()


def framed(text: str) -> str:
    """A whole scenario as it is; a part of one with what else is required before it."""
    given = yaml.safe_load(text)
    least = {"version": 1, "name": "frame", "workloads": [{"strides": [1, 3], "packets": 4096}]}
    needed = {key: value for key, value in least.items() if key not in given}
    return (yaml.safe_dump(needed) if needed else "") + text


@pytest.mark.parametrize("block", of_language("json"))
def test_records_are_what_their_schema_says(block: Block) -> None:
    name = block.marked("schema")
    (file,) = (file for file in TYPES if schema_name(file) == f"{name}.schema.json")
    assert problems_in(file, [json.loads(block.text)]) == []


@pytest.mark.parametrize("block", [each for each in of_language("python") if each.values[0].marked("into") is None])
def test_programs_are_python(block: Block) -> None:
    ast.parse(block.text)
    assert len([line for line in block.text.splitlines() if line.strip()]) <= 20, "longer than docs/api.md says it is"
