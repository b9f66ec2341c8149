"""Study files: those of the catalog are sound, others are told all that is wrong."""

import pytest

from scenarios.errors import ScenarioRefusedError, UsageError
from scenarios.file.scenario_files import find_scenario
from scenarios.study.load import STUDIES, find_study, load_study, study_from, study_names
from scenarios.study.model import points_of

SOUND = "version: 1\nname: x\nrates: [1%]\npackets: [100]\n"


@pytest.mark.parametrize("name", study_names())
def test_every_study_of_the_catalog_is_sound_and_says_what_it_asks(name):
    study = load_study(find_study(name))
    assert study.name == name
    assert len(list(points_of(study))) > 10
    text = (STUDIES / f"{name}.yaml").read_text()
    assert text.startswith("# Question:")
    assert "# Expectation:" in text


def test_all_problems_are_told_at_once_with_their_lines():
    text = "version: 1\nname: x\nrates: [0.01]\npackts: [100]\nseeds: many\n"
    with pytest.raises(ScenarioRefusedError) as told:
        study_from(text, "file.yaml", {})
    problems = {str(each.where): f"{each.path}: {each.wrong}; {each.right}" for each in told.value.problems}
    assert set(problems) == {"file.yaml:3", "file.yaml:4", "file.yaml:5"}
    assert "did you mean 'packets'?" in problems["file.yaml:4"]


@pytest.mark.parametrize("text", ["[1, 2]", "", "version: 1\nname: x\n", "a: [\n"])
def test_what_is_no_study_is_refused(text):
    with pytest.raises(ScenarioRefusedError):
        study_from(text, "file.yaml", {})


def test_keys_can_be_set_otherwise():
    assert study_from(SOUND, "x", {"seeds": 3, "spines": (4, 2)}).spines == (4, 2)
    with pytest.raises(ScenarioRefusedError):
        study_from(SOUND, "x", {"rates": ("1",)})


def test_a_wrong_name_is_answered_with_the_nearest():
    with pytest.raises(UsageError, match="did you mean paper-table"):
        find_study("paper-tabel")
    with pytest.raises(UsageError, match="the catalog has"):
        find_study("qqqq")


def test_scenarios_and_studies_are_not_mistaken_for_each_other():
    with pytest.raises(UsageError, match="gray-link is a scenario, not a study; run it by `spraylab run gray-link`"):
        find_study("gray-link")
    with pytest.raises(UsageError, match="packets is a study, not a scenario; run it by `spraylab study packets`"):
        find_scenario("packets")
