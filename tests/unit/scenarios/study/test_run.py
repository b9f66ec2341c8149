"""A study goes on where it was broken off, and ends with tables and figures."""

import csv
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from results.detect_log import Said
from results.errors import RecordsError
from scenarios.study.folder import RESULTS, StudyFolder
from scenarios.study.model import Study, failed_links, points_of, without_effect
from scenarios.study.run import open_points, run_points, runs_of, simulated
from scenarios.study.run_points import percent, scenario_of
from scenarios.study.score import row_of
from scenarios.study.simulate import simulate
from tests.unit.scenarios.study.test_model import point

STUDY = Study.model_validate(
    {"version": 1, "name": "x", "rates": ("2%",), "packets": (300, 900), "expectation": ("declared",), "leaves": 4,
     "spines": (4,), "seeds": 2, "healthy_seeds": 1, "miss": 0.01}
)  # fmt: skip


class Quiet:
    def __init__(self):
        self.heard = []

    def begun(self, left, done):
        self.heard.append((left, done))

    def finished(self, row, at):
        self.heard.append(at)


def run(folder, most=None):
    folder.begin(STUDY)
    points = open_points(STUDY, folder, "simulated")[:most]
    watcher = Quiet()
    with ThreadPoolExecutor(1) as pool:
        run_points(points, simulated(points, simulate, pool), folder, watcher, len(folder.done("simulated")))
    return watcher.heard


def test_a_study_goes_on_where_it_was_broken_off(tmp_path):
    folder = StudyFolder(tmp_path / "study")
    assert run(folder, most=2) == [(2, 0), 1, 2]
    with (folder.path / RESULTS).open("ab") as file:
        file.write(b'{"half": ')
    assert run(folder) == [(4, 2), 1, 2, 3, 4]
    assert run(folder) == [(0, 6)]
    assert {row["key"] for row in folder.rows()} == {each.key for each in points_of(STUDY)}


def test_overloaded_points_are_run_again_and_the_last_word_counts(tmp_path):
    folder = StudyFolder(tmp_path)
    first = next(points_of(STUDY))
    row = simulate(first)
    folder.append(msgspec.structs.replace(row, outcome="overloaded"))
    assert first in open_points(STUDY, folder, "simulated")
    folder.append(row)
    assert first not in open_points(STUDY, folder, "simulated")
    assert len(folder.rows()) == 1


def without(row, *names, **changed):
    return msgspec.json.encode({name: value for name, value in row.items() if name not in names} | changed)


def test_every_line_that_is_no_run_is_told_with_its_number_and_what_it_lacks(tmp_path):
    folder = StudyFolder(tmp_path / "study")
    run(folder, most=1)
    (row,) = folder.rows()
    wrong = (b"\xff\x00", b"[]", without(row, "links", "good_scores"), without(row), without(row, seed="a"), b"{}")
    with (folder.path / RESULTS).open("ab") as file:
        file.writelines(line + b"\n" for line in wrong)
    with pytest.raises(RecordsError) as told:
        folder.write_tables()
    file = folder.path / RESULTS
    lines = str(told.value).splitlines()
    assert [line.split(": ")[0] for line in lines] == [f"{file}:{number}" for number in (2, 3, 4, 6, 7)]
    assert lines[2] == f"{file}:4: not a run of a study: it has no links, good_scores"
    assert lines[3] == f"{file}:6: not a run of a study: Expected `int`, got `str` - at `$.seed`"
    assert lines[4].startswith(f"{file}:7: not a run of a study: it has no key, mode, spray")
    assert not (folder.path / "runs.csv").exists()


def test_counts_that_cannot_be_are_refused_with_their_line_and_key(tmp_path):
    folder = StudyFolder(tmp_path / "study")
    run(folder, most=1)
    (row,) = folder.rows()
    wrong = (without(row, bad_failed=99), without(row, good_flows_alarmed=-1, seed=7), without(row, key="no key"))
    with (folder.path / RESULTS).open("ab") as file:
        file.writelines(line + b"\n" for line in wrong)
    with pytest.raises(RecordsError) as told:
        folder.write_tables()
    lines = str(told.value).splitlines()
    assert [line.split(": ")[0] for line in lines] == [f"{folder.path / RESULTS}:{number}" for number in (2, 3, 4)]
    assert "`bad_failed` and `bad_insufficient` together are 99; at most" in lines[0]
    assert "`good_flows_alarmed` is -1; at least 0, `seed` is 7; `key` says 1" in lines[1]
    assert "`key` is no point of a study" in lines[2]
    assert not (folder.path / "runs.csv").exists()


def test_it_ends_with_tables_and_figures(tmp_path):
    folder = StudyFolder(tmp_path)
    run(folder)
    cells, roc = folder.write_tables()
    folder.draw(cells, roc)
    assert [(cell["packets"], cell["failure"], cell["runs"]) for cell in cells] == [
        (300, "one", 2), (300, "none", 1), (900, "one", 2), (900, "none", 1),
    ]  # fmt: skip
    with (tmp_path / "runs.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 6
    assert lines[0]["links"]
    assert len((tmp_path / "cells.csv").read_text().splitlines()) == 5
    drawn = {path.name for path in (tmp_path / "figures").iterdir()}
    assert drawn == {f"roc.{ending}" for ending in ("svg", "png", "pdf")}


def test_a_point_is_a_scenario_that_asks_for_what_the_point_asks():
    scenario = scenario_of(point("same-spine", rate=0.0125, spines=4, planes=2))
    assert scenario.workloads[0].packets == 1000 * 4 * 2
    assert [fault.drop for fault in scenario.faults] == ["1.25%", "1.25%"]
    assert scenario.expect.detected == tuple(fault.link for fault in scenario.faults)
    host = scenario_of(point("host-link"))
    assert (host.expect.detected, len(host.faults)) == ((), 1)
    assert percent(0.001) == "0.1%"
    assert scenario_of(point(loss_policy="paper")).transport.ev.loss_policy == "paper"


def test_one_run_on_a_fabric_answers_every_expectation():
    study = STUDY.model_copy(update={"expectation": ("uniform", "declared"), "loss_policy": ("off", "paper")})
    runs = runs_of(points_of(study))
    assert len(runs) == 2 * len(list(points_of(STUDY)))
    for points in runs:
        assert [each.expectation for each in points] == ["uniform", "declared"]
        assert len({failed_links(each) for each in points}) == 1
        assert len({scenario_of(each).model_copy(update={"detector": None}) for each in points}) == 1


LATER = ("loss_policy", "strides", "allowed_miss", "allowed_false_alarm")


def test_a_folder_of_old_is_read_and_what_its_rows_lack_is_in_their_keys(tmp_path):
    folder = StudyFolder(tmp_path)
    (done, *_) = points_of(STUDY)
    row = msgspec.to_builtins(simulate(done))
    (tmp_path / RESULTS).write_bytes(without(row, *LATER) + b"\n")
    (cell, *_) = folder.write_tables()[0]
    assert [cell[name] for name in LATER] == ["off", (1, 3), 0.01, 0.001]
    assert folder.done("simulated") == {done.key}
    (tmp_path / RESULTS).write_bytes(without(row, *LATER, key="1 + 1") + b"\n")
    with pytest.raises(RecordsError, match="it has no loss_policy, strides, allowed_miss, allowed_false_alarm"):
        folder.rows()


def test_what_a_study_allows_makes_no_other_run_of_a_fabric(tmp_path):
    """Its leaves have their own settings, so a run that was kept under others is the same one."""
    assert list(without_effect(STUDY)) == [
        "`miss: 0.01` has no effect on a fabric: its leaves allow 0.001; it is for --simulate"
    ]
    folder, first = StudyFolder(tmp_path), next(points_of(STUDY))
    left = open_points(STUDY, folder, "fabric")
    assert {(each.miss, each.false_alarm) for each in left} == {(0.001, 0.001)}
    assert {each.miss for each in open_points(STUDY, folder, "simulated")} == {0.01}
    row = msgspec.to_builtins(row_of(first, "fabric", (), Said("uniform")))
    (tmp_path / RESULTS).write_bytes(without(row, *LATER) + b"\n")
    assert folder.rows()[0]["allowed_miss"] == 0.001
    assert {each.key for each in left} - {each.key for each in open_points(STUDY, folder, "fabric")} == {
        first.on_fabric.key
    }


def test_runs_of_an_edited_study_do_not_join_those_of_before(tmp_path):
    folder = StudyFolder(tmp_path)
    for study in (STUDY, STUDY.model_copy(update={"miss": 0.1, "strides": (1,)})):
        for each in points_of(study):
            folder.append(simulate(each))
    cells, _ = folder.write_tables()
    assert [(cell["allowed_miss"], cell["strides"]) for cell in cells] == [(0.01, (1, 3))] * 4 + [(0.1, (1,))] * 4
    assert [cell["runs"] for cell in cells] == [2, 1, 2, 1] * 2


@pytest.mark.parametrize("failure", ["one", "none"])
def test_a_run_without_any_word_is_scored_as_such(failure):
    row = row_of(point(failure), "fabric", (), Said("uniform"))
    assert (row.state, row.named, row.paths, row.good_dispersion) == ("none", (), 0, None)
