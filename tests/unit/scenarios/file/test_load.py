"""Scenario files to scenarios; broken ones to every problem at once, as golden pairs of file and text."""

import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from results.files.yaml_document import read_document
from scenarios.errors import EnvironmentLackingError, ScenarioRefusedError, UsageError
from scenarios.file.load import load_scenario, scenario_from
from scenarios.file.plan import plan_of
from scenarios.file.reference import schema_text
from scenarios.file.scenario_files import CATALOG, catalog_names, find_scenario
from scenarios.file.transport import Transport
from scenarios.study.load import find_study

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
        (
            "version: 1\nname: !!int x",
            r"x\.yaml:2: name: !!int x cannot be read as !!int; write a plain word or number",
        ),
        ("seed: 190:20:30", r"x\.yaml:1: seed: 190:20:30 would be read as 685230, in base 60; write 685230, or text"),
        ("topology: {leaves: 010}", r"leaves: 010 would be read as 8, in base 8; write 10 or 8, whichever is meant"),
        ("topology: {leaves: 007}", r"leaves: 007 would be read as 7, in base 8; write 7"),
        ("topology: {planes: 0b10}", r"planes: 0b10 would be read as 2, in base 2; write 2"),
        ("limits: {x: .nan}", r"limits\.x: \.nan is not a number; write a plain one"),
        ("limits: {x: -.inf}", r"limits\.x: -\.inf is not a number; write a plain one"),
        ("version: 1\nseed: !!bool maybe", r"x\.yaml:2: seed: !!bool maybe cannot be read as !!bool"),
        (f"version: 1\nseed: {'9' * 5000}", r"x\.yaml:2: seed: 9{40}\.\.\. cannot be read as !!int"),
    ],
)
def test_text_that_is_no_scenario_is_refused(text: str, told: str) -> None:
    with pytest.raises(ScenarioRefusedError, match=told):
        scenario_from(text, "x.yaml")


def test_no_type_is_silently_converted() -> None:
    with pytest.raises(ScenarioRefusedError, match=r"x\.yaml:3: seed: true is of the wrong kind"):
        scenario_from("version: 1\nname: x\nseed: true\nworkloads: [{strides: [1], packets: 1}]", "x.yaml")


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("? [a, b]\n: 1", r"x\.yaml:5: \[a, b\]: a list where a key should be; a key is one word, as `name`"),
        ("? {a: 1}\n: 1", r"x\.yaml:5: \{a: 1\}: keys and values where a key should be"),
        ("topology:\n  ? - a\n  : 1", r"x\.yaml:6: topology\.- a: a list where a key should be"),
        ("seed: [1, [2, a]]", r"seed: \[1, \[2, a\]\] is of the wrong kind; write a whole number"),
        ("events: {a: true}", r"events: \{a: true\} is not known; write off or default"),
        ("detector: {min_rate: [1%]}", r"min_rate: \[1%\] is of the wrong kind; write it as 1%"),
        ("faults: [{link: x, drop: [1%]}]", r"faults\.0\.drop: \[1%\] is of the wrong kind; write it as 1%"),
        ("faults: [{link: x, delay: [1, 2]}]", r"faults\.0\.delay: \[1, 2\] is of the wrong kind; write a word"),
        ("seed: 2024-01-01", r"x\.yaml:5: seed: '2024-01-01' is of the wrong kind; write a whole number"),
        ("workloads:\n - {type: write, packets: 8, pairs: [[1]]}", r"pairs\.0\.1: missing; add item 1 here"),
    ],
)
def test_what_is_wrong_is_told_as_it_is_written(written: str, told: str) -> None:
    text = LEAST.replace("strides: [1]", "strides: [1, 3]")
    if written.startswith("workloads"):
        text = "version: 1\nname: x\n"
    with pytest.raises(ScenarioRefusedError, match=told) as refused:
        scenario_from(f"{text}{written}\n", "x.yaml")
    assert not re.search(r"Node\(|tag:yaml|,\)|datetime|True", str(refused.value))


@pytest.mark.parametrize(("written", "value"), [("8", 8), ("0", 0), ("-3", -3), ("0x1f", 31), ("1_000", 1000)])
def test_numbers_that_mean_what_they_look_like_are_read(written: str, value: int) -> None:
    document = read_document(f"a: {written}\nb: '010'\nc: 0.5")
    assert (document.values, document.flaws) == ({"a": value, "b": "010", "c": 0.5}, ())


def test_a_fault_is_told_all_that_is_wrong_with_it() -> None:
    with pytest.raises(ScenarioRefusedError) as refused:
        scenario_from(LEAST + "faults: [{link: 'p0:leaf99>spine1', drop: 0.01}, {drop: 1}]\n", "x.yaml")
    assert {problem.path for problem in refused.value.problems} == {
        "faults.0.link", "faults.0.drop", "faults.1", "faults.1.drop",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["2024-01-01", "2024-99-99"])
def test_a_name_like_a_date_is_a_name(name: str) -> None:
    assert scenario_from(LEAST.replace("least", name), "x.yaml").name == name


def test_a_file_that_cannot_be_a_scenario_is_told_from_one_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"name: \xe9")
    with pytest.raises(UsageError, match=r"latin\.yaml:1: byte 0xe9 is not UTF-8; save the file as UTF-8"):
        load_scenario(tmp_path / "latin.yaml")
    (tmp_path / "large.yaml").write_bytes(b"# nothing\n" * 200_000)
    with pytest.raises(UsageError, match=r"large\.yaml: larger than 1 MiB, so it is not read"):
        load_scenario(tmp_path / "large.yaml")
    with pytest.raises(EnvironmentLackingError, match=r"none\.yaml: cannot be read: No such file"):
        load_scenario(tmp_path / "none.yaml")


@pytest.mark.parametrize("find", [find_scenario, find_study])
def test_an_empty_name_is_told_as_that(find) -> None:
    with pytest.raises(UsageError, match="the name is empty"):
        find("")


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


def test_names_are_found_in_catalog_and_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_scenario("gray-link") == CATALOG / "gray-link.yaml"
    own = tmp_path / "own.yaml"
    own.write_text(LEAST)
    assert find_scenario(str(own)) == own
    with pytest.raises(UsageError, match="did you mean gray-link"):
        find_scenario("grey-link")
    with pytest.raises(UsageError, match="there is no file"):
        find_scenario("nowhere/x.yaml")
    with pytest.raises(UsageError, match=f"{tmp_path} is a folder, not a scenario file; in it: {own}$"):
        find_scenario(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    Path("bare").mkdir()
    with pytest.raises(UsageError, match=r"^bare is a folder, not a scenario file; no YAML file is in it$"):
        find_scenario("bare")


@pytest.mark.parametrize(("written", "meant"), [("off", "off"), ('"off"', "off"), ("detail", "detail")])
def test_the_word_off_is_no_truth_value(written: str, meant: str) -> None:
    assert scenario_from(f"{LEAST}events: {written}\n", "x").events == meant


def problems(*lines: str) -> list[str]:
    with pytest.raises(ScenarioRefusedError) as refused:
        scenario_from("\n".join((LEAST, *lines)), "x.yaml")
    return [f"{each.path}: {each.wrong}; {each.right}" for each in refused.value.problems]


def test_what_a_flaw_took_is_not_missed_besides() -> None:
    (told,) = problems("faults:", "  - {link: 'p0:leaf0>spine0', drop: .nan}")
    assert told.startswith("faults.0.drop: .nan is not a number")
    (told,) = problems("faults:", "  - {link: 'p0:leaf0>spine0', gemodel: 'p=-1,r=10%'}")
    assert told == "faults.0.gemodel: p: '-1' is not a rate; write it as 1%, 0.5% or 50bp"
    first, second = problems("faults:", "  - {link: 'p0:leaf0>spine99', drop: .nan}")
    assert first.startswith("faults.0.")
    assert second.startswith("faults.0.")
    assert "no such link" in first + second


def test_a_tag_is_refused() -> None:
    assert problems("topology: !!python/object:os.system {}") == [
        "topology: the tag !!python/object:os.system is not supported; leave it out"
    ]
    assert "capture: the tag !mine is not supported; leave it out" in problems("capture: !mine [p0:leaf0-spine0]")


def test_a_host_that_is_not_there_is_told_at_the_word() -> None:
    (told,) = problems("faults:", "  - {link: 'p0:leaf0>spine0', drop: 1%, only_to: h77}")
    assert told.startswith("faults.0.only_to: there is no host h77; hosts are h0 to h")


@pytest.mark.parametrize("key", Transport.model_fields)
@pytest.mark.parametrize("value", ["[[1]]", "{a: 1}"])
def test_what_is_of_no_kind_that_is_wanted_is_told_with_what_would_be_right(key: str, value: str) -> None:
    told = problems(f"transport: {{{key}: {value}}}")
    assert all("another kind" not in each for each in told)


def test_true_and_false_are_told_where_they_are_wanted() -> None:
    told = problems("transport: {port_mask: 1}")
    assert told == ["transport.port_mask: 1 is of the wrong kind; write true or false"]


@pytest.mark.parametrize(
    ("key", "right"),
    [("faults", "write a list"), ("topology", "write keys and values"), ("seed", "write a whole number such as 8")],
)
def test_a_key_without_a_value_is_told_as_such(key: str, right: str) -> None:
    (told,) = problems(f"{key}:")
    assert told.startswith(f"{key}: has no value; {right}")
    assert told.endswith("or leave the key out")


def test_keys_are_told_as_a_file_has_them() -> None:
    (told,) = problems("faults:", "  - {link: 'p0:leaf0>spine0', drop: 1%, zzz: 1}")
    assert " for, " in told
    assert "for_" not in told
    (told,) = problems("faults:", "  - {link: 'p0:leaf0>spine0', drop: 1%, foor: 1s}")
    assert told == "faults.0.foor: unknown key; did you mean 'for'?"
    (told,) = problems("faults:", "  - {link: 'p0:leaf0>spine0', drop: 1%, for: [1]}")
    assert told.startswith("faults.0.for: [1] is of the wrong kind; ")
    assert "docs/scenarios.md" not in told, "the meaning of the key is known"


@pytest.mark.parametrize(
    "line",
    ["seed: １", "topology: {planes: ٢}", "faults: [{link: 'p0:leaf0>spine0', drop: １%}]",
     "faults: [{link: 'p0:leaf１>spine0', drop: 1%}]", "faults: [{target: 'h٣', down: true}]",
     "faults: [{link: 'p0:leaf0>spine0', drop: 1%, for: '１０ms'}]", "limits: {captures: １MiB}",
     "faults: [{link: 'p0:leaf0>spine0', drop: '1\\t%'}]", "limits: {captures: '１0'}"],
)  # fmt: skip
def test_digits_are_0_to_9_as_in_the_json_schema(line: str) -> None:
    assert problems(line)


@pytest.mark.parametrize("text", ['name: "\\ud800"\n', '"\\udc00": x\n', 'a: ["\\ud83d\\ude00"]\n'])
def test_half_a_character_is_no_text(text: str) -> None:
    assert [flaw.wrong for flaw in read_document(text).flaws] == ["half a character (a UTF-16 surrogate)"]
