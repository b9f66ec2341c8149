"""What documents list is what there is: keys, options, fields of files."""

import json
import re
import tomllib

import pytest

from agent.spraycheck.statistics.declared import declared_packets_needed, packets_needed
from agent.spraycheck.statistics.uniform import uniform_packets_needed
from agent.spraycheck.statistics.verdicts import Requirements
from agent.wire.constants import SprayPolicyCode
from faults.request import WORDS
from results.study.tables import cells_table, roc_table
from scenarios import api
from scenarios.cli.exit_codes import ExitCode
from scenarios.file.model import Scenario
from scenarios.file.reference import keys_tables, with_names
from scenarios.file.scenario_files import catalog_names
from scenarios.study.folder import CalibrationRecord
from scenarios.study.score import Row
from tests.support.command_words import commands
from tests.support.documents import ROOT
from tests.unit.results.test_study_table import row


def test_the_names_of_scenario_keys_are_the_models() -> None:
    text = (ROOT / "docs/scenarios.md").read_text()
    assert with_names(text) == text, "make them anew: python -m scenarios.file.reference docs/scenarios.md"


def test_every_key_has_a_line_with_what_it_takes_and_a_sentence() -> None:
    schema = Scenario.model_json_schema()
    keys = [name for part in (schema, *schema["$defs"].values()) for name in part["properties"]]
    words = {word.key for word in WORDS}
    rows = [row for row in keys_tables().splitlines() if row.startswith("- `")]
    explained = [row for row in rows if ": [words]" not in row]
    assert len(explained) == len(keys) - len(words)
    assert [row for row in explained if not re.fullmatch(r"- `[^`]+` \(.+\): .{10,}", row)] == []
    (of_faults,) = [row for row in rows if ": [words]" in row]
    assert {*re.findall(r"`(\w+)`", of_faults)} == words


def test_ranges_units_and_defaults_are_told() -> None:
    rows = keys_tables().splitlines()
    assert any(row.startswith("- `transport.window_pkts` (1 to 16384 packets; `256`): ") for row in rows)
    assert any(row.startswith("- `detector.reset_s` (number, more than 0, to 3600 s; `60`): ") for row in rows)
    assert any(row.startswith("- `expect.retransmissions_within` (`1%`; `5%`): ") for row in rows)


def test_every_command_is_listed() -> None:
    text = (ROOT / "docs/cli.md").read_text().partition("## Every command")[2].partition("\n## ")[0]
    listed = [cell for row in text.splitlines() if row.startswith("| `") for cell in [row.split(" | ")[0]]]
    assert [name for name, _ in commands() if not any(re.search(rf"`{name}[` ]", cell) for cell in listed)] == []


def test_every_file_and_event_of_a_run_is_documented() -> None:
    text = (ROOT / "docs/results-schema.md").read_text()
    missing = []
    for path in sorted((ROOT / "docs/schemas").glob("*.json")):
        schema = json.loads(path.read_text())
        properties = [part.get("properties", {}) for part in (schema, *schema.get("$defs", {}).values())]
        events = [event for each in properties for event in each.get("event", {}).get("enum", [])]
        missing += [f"{path.name}: {name}" for name in sorted({*events}) if not re.search(rf"\b{name}\b", text)]
        missing += [] if f"`{path.name.partition('.')[0]}.json" in text else [path.name]
    assert missing == []


def test_every_field_of_a_studys_rows_and_tables_is_documented() -> None:
    text = (ROOT / "docs/studies.md").read_text()
    told = {*re.findall(r"\w+", text)}
    rates = {f"{name}_{end}" for name in told for end in ("of", "rate", "low", "high")}  # explained once for all
    (cell,), curve = cells_table([row()]), roc_table([row()])[0]
    names = {*Row.__struct_fields__, *CalibrationRecord.__struct_fields__, *cell, *curve}
    assert names - told - rates == set()


def test_the_catalog_is_listed() -> None:
    text = (ROOT / "docs/scenarios.md").read_text().partition("## The catalog")[2].partition("\n## ")[0]
    assert sorted(re.findall(r"^\| `([a-z-]+)`", text, re.MULTILINE)) == sorted(catalog_names())


@pytest.mark.parametrize("spines", [8, 4, 2])
def test_the_packets_that_a_detector_needs_are_those_it_says(spines: int) -> None:
    asked = Requirements(0.01)
    numbers = (
        uniform_packets_needed(SprayPolicyCode.ROTATION, spines, 1, asked),
        declared_packets_needed(spines, asked),
        uniform_packets_needed(SprayPolicyCode.RANDOM, spines, 1, asked),
    )
    row = f"| {spines} | " + " | ".join(map(spaced, numbers)) + " |"
    assert row in (ROOT / "docs/scenarios.md").read_text()


@pytest.mark.parametrize("rate", [0.015, 0.01, 0.005, 0.001])
def test_the_detectors_table_of_declared_packets_is_what_it_computes(rate: float) -> None:
    cells = []
    for paths, miss in ((8, 0.01), (8, 0.001), (2, 0.01), (64, 0.01)):
        asked = Requirements(rate, miss=miss)
        bound = packets_needed(rate, paths, asked.test_level, miss)
        cells.append(f"{spaced(bound)}, {spaced(declared_packets_needed(paths, asked))}")
    assert f"| {100 * rate:g} % | {' | '.join(cells)} |" in (ROOT / "docs/detector.md").read_text()


@pytest.mark.parametrize("rate", [0.015, 0.01, 0.005, 0.002])
def test_the_detectors_table_of_packets_under_rotation_is_what_it_computes(rate: float) -> None:
    needed = uniform_packets_needed(SprayPolicyCode.ROTATION, 8, 1, Requirements(rate))
    assert f"| {100 * rate:g} % | {spaced(needed)} |" in (ROOT / "docs/detector.md").read_text()


def spaced(number: int | None) -> str:
    """As the documents write numbers of many digits."""
    return f"{number:,}".replace(",", " ")


def test_every_package_that_is_used_is_listed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    text = (ROOT / "docs/dependencies.md").read_text()
    assert [name for name in (re.split(r"[<>=\[]", each)[0] for each in wanted) if name not in text] == []


def test_the_stages_of_a_run_and_the_layers_of_imports_are_listed() -> None:
    text = (ROOT / "docs/architecture.md").read_text()
    stages = re.findall(r'stage\("([a-z ]+)"', (ROOT / "scenarios/run/runner.py").read_text())
    assert len(stages) > 10
    assert ", ".join(stages) in " ".join(text.split())
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = [each["layers"] for each in contracts if each["type"] == "layers" and "containers" in each]
    assert [each for each in layers if " > ".join(each) not in text] == []


def test_every_call_of_the_python_api_is_told() -> None:
    text = (ROOT / "docs/api.md").read_text()
    between_them = {"request", "keep", "forget"}
    calls = [name for part in (api.Lab, api.Host, api.Region, api.QueuePair) for name in vars(part)]
    told = [name for name in calls if not name.startswith("_") and name not in between_them]
    assert len(told) > 15
    assert [name for name in told if not re.search(rf"\.{name}\b", text)] == []


def test_every_exit_code_is_told() -> None:
    table = (ROOT / "docs/cli.md").read_text().partition("## Exit codes")[2]
    assert sorted(int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)) == sorted(map(int, ExitCode))
