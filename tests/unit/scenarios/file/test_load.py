"""Scenario files to scenarios; broken ones to every problem at once, as golden pairs of file and text."""

import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from scenarios.errors import ScenarioRefusedError, UsageError
from scenarios.file.json_schema import schema_text
from scenarios.file.load import load_scenario, scenario_from
from scenarios.file.plan import plan_of
from scenarios.file.scenario_files import CATALOG, catalog_names, find_scenario

ROOT = Path(__file__).parents[4]
GOLDEN = sorted((ROOT / "tests/golden/scenarios").glob("*.yaml"))
LEAST = "version: 1\nname: least\nworkloads:\n  - {strides: [1], packets: 256}\n"


@pytest.mark.parametrize("name", catalog_names())
def test_catalog_loads_and_opens_with_its_question(name: str) -> None:
    scenario = load_scenario(CATALOG / f"{name}.yaml")
    assert scenario.name == name
    assert plan_of(scenario).flows
    lines = (CATALOG / f"{name}.yaml").read_text().splitlines()
    assert lines[0].startswith("# Question:")
    assert any(line.startswith("# Expectation:") for line in lines)


@pytest.mark.parametrize("broken", GOLDEN, ids=lambda path: path.stem)
def test_broken_file_tells_all_its_problems(broken: Path) -> None:
    with pytest.raises(ScenarioRefusedError) as refused:
        load_scenario(broken)
    told = str(refused.value).replace(str(broken), broken.name)
    assert told + "\n" == broken.with_suffix(".txt").read_text()


def test_ten_mistakes_are_ten_messages() -> None:
    with pytest.raises(ScenarioRefusedError) as refused:
        load_scenario(ROOT / "tests/golden/scenarios/ten-mistakes.yaml")
    assert len(refused.value.problems) == 10
    assert all(problem.right for problem in refused.value.problems)


@pytest.mark.parametrize(
    ("line", "right"),
    [("type: allreduce", "did you mean all-reduce?"), ("type: write, loop: x", "did you mean 'qps'?|known here")],
)
def test_a_wrong_word_is_answered_with_words(line: str, right: str) -> None:
    with pytest.raises(ScenarioRefusedError) as refused:
        scenario_from(LEAST.replace("strides: [1]", f"strides: [1], {line}"), "x.yaml")
    assert re.search(right, str(refused.value))
    assert "typing" not in str(refused.value)
    assert "<class" not in str(refused.value)


def test_what_is_left_out_has_a_value() -> None:
    scenario = scenario_from(LEAST, "least.yaml")
    assert (scenario.topology.leaves, scenario.topology.spines, scenario.topology.planes) == (8, 8, 2)
    assert scenario.expect.detected is None
    assert scenario.faults == ()


def test_sizes_carry_units() -> None:
    scenario = scenario_from(LEAST.replace("packets: 256", "bytes: 2MiB, message_bytes: 512KiB"), "x.yaml")
    assert (scenario.workloads[0].bytes, scenario.workloads[0].message_bytes) == (2 << 20, 512 << 10)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "the file is empty"),
        ("5", "not a scenario"),
        ("- 1", "not a scenario"),
        ("a: [1", "not YAML"),
        ("version: 1\n---\nversion: 1", "not YAML"),
        ("x: !!python/object:os.system y", "not YAML"),
        ("a: &x [*x]", "alias"),
        ("name: \x00", "not YAML"),
    ],
)
def test_text_that_is_no_scenario_is_refused(text: str, told: str) -> None:
    with pytest.raises(ScenarioRefusedError, match=told):
        scenario_from(text, "x.yaml")


def test_no_type_is_silently_converted() -> None:
    with pytest.raises(ScenarioRefusedError, match=r"x\.yaml:3: seed: True is of the wrong kind"):
        scenario_from("version: 1\nname: x\nseed: true\nworkloads: [{strides: [1], packets: 1}]", "x.yaml")


def test_unreadable_file_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"name: \xe9")
    with pytest.raises(UsageError, match="cannot be read"):
        load_scenario(tmp_path / "latin.yaml")
    with pytest.raises(UsageError, match="cannot be read"):
        load_scenario(tmp_path / "none.yaml")


def test_resolved_scenario_loads_again() -> None:
    scenario = load_scenario(CATALOG / "gray-link.yaml")
    text = yaml.safe_dump(scenario.model_dump(mode="json", exclude_none=True))
    assert scenario_from(text, "resolved.yaml") == scenario


def test_committed_schema_is_that_of_the_model() -> None:
    assert (ROOT / "docs/scenario.schema.json").read_text() == schema_text()


@pytest.mark.parametrize("name", catalog_names())
def test_catalog_fits_the_schema(name: str) -> None:
    schema = yaml.safe_load(schema_text())
    jsonschema.validate(yaml.safe_load((CATALOG / f"{name}.yaml").read_text()), schema)


def test_schema_refuses_what_the_loader_refuses() -> None:
    schema = yaml.safe_load(schema_text())
    broken = yaml.safe_load((ROOT / "tests/golden/scenarios/ten-mistakes.yaml").read_text())
    assert len(list(jsonschema.Draft202012Validator(schema).iter_errors(broken))) >= 6


def test_names_are_found_in_catalog_and_file_system(tmp_path: Path) -> None:
    assert find_scenario("gray-link") == CATALOG / "gray-link.yaml"
    own = tmp_path / "own.yaml"
    own.write_text(LEAST)
    assert find_scenario(str(own)) == own
    with pytest.raises(UsageError, match="did you mean gray-link"):
        find_scenario("grey-link")
    with pytest.raises(UsageError, match="there is no file"):
        find_scenario("nowhere/x.yaml")


@pytest.mark.parametrize(("written", "meant"), [("off", "off"), ('"off"', "off"), ("detail", "detail")])
def test_the_word_off_is_no_truth_value(written: str, meant: str) -> None:
    assert scenario_from(f"{LEAST}events: {written}\n", "x").events == meant
