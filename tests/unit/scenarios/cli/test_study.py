"""`spraylab study --simulate`, as a user types it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from scenarios.cli.main import main
from scenarios.cli.output import Output
from scenarios.cli.runs.study import _on_fabric, _print
from scenarios.lab.lab_dir import LabDir
from scenarios.study.folder import StudyFolder
from scenarios.study.load import study_from

FILE = """version: 1
name: small
leaves: 4
spines: [4]
expectation: [declared]
rates: [2%]
packets: [900]
seeds: 2
healthy_seeds: 1
"""


def invoke(*words):
    return CliRunner().invoke(main, ["study", *words])


def test_a_small_study_runs_and_is_told_in_a_table(tmp_path):
    file = tmp_path / "small.yaml"
    file.write_text(FILE)
    words = (str(file), "--simulate", "--folder", str(tmp_path / "out"), "--no-figures")
    first = invoke(*words)
    assert first.exit_code == 0, first.output
    assert "3 runs to do" in first.stderr
    assert "2/2" in first.stdout
    last = first.stdout.splitlines()[-1]
    assert last.startswith(f"in {tmp_path / 'out'}: ")
    assert sorted(last.partition(": ")[2].split(", ")) == sorted(each.name for each in (tmp_path / "out").iterdir())
    again = invoke(*words, "--json")
    assert "0 runs to do, 3 runs found done" in again.stderr
    cells = json.loads(again.stdout)
    assert [cell["runs"] for cell in cells] == [2, 1]
    assert [name for name in first.stdout.splitlines()[0].split() if name not in cells[0]] == []


def test_options_take_the_place_of_the_files_lists(tmp_path):
    file = tmp_path / "small.yaml"
    file.write_text(FILE)
    words = ("--seeds", "1", "--packets", "500", "--packets", "600", "--spray", "random", "--no-figures", "--json")
    done = invoke(str(file), "--simulate", "--folder", str(tmp_path / "out"), *words)
    cells = json.loads(done.stdout)
    assert {(cell["spray"], cell["packets"]) for cell in cells} == {("random", 500), ("random", 600)}


def test_a_wrong_name_or_value_starts_nothing(tmp_path):
    assert invoke("papper-table", "--simulate").exit_code == 2
    refused = invoke("paper-table", "--simulate", "--rate", "1", "--folder", str(tmp_path / "out"))
    assert refused.exit_code == 2
    assert not (tmp_path / "out").exists()


def test_a_folder_of_another_study_is_refused_and_left_as_it_is(tmp_path):
    file, folder = tmp_path / "small.yaml", tmp_path / "out"
    file.write_text(FILE)
    assert invoke(str(file), "--simulate", "--folder", str(folder), "--no-figures").exit_code == 0
    before = (folder / "study.yaml").read_text()
    refused = invoke("spines", "--simulate", "--folder", str(folder))
    assert refused.exit_code == 2
    assert "holds the study" in refused.stderr
    assert (folder / "study.yaml").read_text() == before


@pytest.mark.parametrize("garbage", [b"\xff\x00{", b"", b"a: [", b"- 1", b"name: {}", b"planes: 1"])
@pytest.mark.parametrize("also", ["--simulate", "--tables-only"])
def test_a_folder_whose_study_cannot_be_read_is_refused_and_left_as_it_is(tmp_path, garbage, also):
    file, folder = tmp_path / "small.yaml", tmp_path / "out"
    file.write_text(FILE)
    assert invoke(str(file), "--simulate", "--seeds", "1", "--folder", str(folder), "--no-figures").exit_code == 0
    (folder / "study.yaml").write_bytes(garbage)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    refused = invoke(str(file), also, "--folder", str(folder), "--no-figures")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert f"{folder / 'study.yaml'} cannot be read as a study (" in refused.stderr
    assert "name another --folder, or move the file away" in refused.stderr
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize("name", ["study.yaml", "results.jsonl", "runs.csv", "cells.jsonl", "figures"])
def test_a_study_writes_over_nothing_that_is_not_its_own(tmp_path, name):
    file, folder, elsewhere = tmp_path / "small.yaml", tmp_path / "out", tmp_path / "elsewhere"
    file.write_text(FILE)
    folder.mkdir()
    (folder / name).symlink_to(elsewhere)
    refused = invoke(str(file), "--simulate", "--folder", str(folder))
    assert (refused.exit_code, f"{folder / name} exists and is a symbolic link" in refused.stderr) == (2, True)
    assert ([path.name for path in folder.iterdir()], elsewhere.exists()) == ([name], False)


def test_tables_that_are_of_no_study_stay(tmp_path):
    (tmp_path / "small.yaml").write_text(FILE)
    mine = tmp_path / "out" / "runs.csv"
    mine.parent.mkdir()
    mine.write_text("mine")
    refused = invoke(str(tmp_path / "small.yaml"), "--simulate", "--folder", str(mine.parent))
    assert (refused.exit_code, "holds runs.csv, and no results.jsonl of a study" in refused.stderr) == (2, True)
    assert (mine.read_text(), len(list(mine.parent.iterdir()))) == ("mine", 1)


def test_a_folder_in_place_of_a_study_is_told(tmp_path):
    (tmp_path / "mine.yaml").write_text(FILE)
    refused = invoke(str(tmp_path), "--simulate")
    assert (refused.exit_code, refused.stderr) == (
        2,
        f"spraylab: {tmp_path} is a folder, not a study file; in it: {tmp_path}/mine.yaml\n",
    )


def test_tables_of_a_folder_without_runs_are_refused(tmp_path):
    refused = invoke("packets", "--tables-only", "--folder", str(tmp_path / "none"))
    assert refused.exit_code == 2
    assert f"nothing has been run in {tmp_path / 'none'} yet" in refused.stderr
    assert not (tmp_path / "none").exists()


def test_verdicts_that_say_nothing_are_counted_and_healthy_runs_name_nobody(tmp_path):
    file = tmp_path / "small.yaml"
    file.write_text(FILE)
    words = ("--spray", "random", "--packets", "50", "--folder", str(tmp_path / "out"), "--no-figures")
    done = invoke(str(file), "--simulate", *words)
    head, bad, healthy, *_ = (line.split("  ") for line in done.stdout.splitlines())
    columns = [cell.strip() for cell in head if cell.strip()]
    cells = [[cell.strip() for cell in row if cell.strip()] for row in (bad, healthy)]
    named, unsure = columns.index("found"), columns.index("insufficient")
    assert [row[named] == "-" for row in cells] == [False, True]
    assert all(not row[unsure].startswith("0/") for row in cells)
    assert "detector-measurements.md#compared-with-the-paper" in done.stdout
    assert "spraylab detect" not in done.stdout, "a simulated run leaves no folder"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--rate", "0%"), "--rate: 0% drops nothing; more than 0%, as 1%; runs without a failure are made anyway"),
        (("--rate", "5"), "--rate: '5' has no unit; write 5%"),
        (("--spines", "0"), "--spines: 0 is too small; at least 1"),
        (("--packets", "0"), "--packets: 0 is too small; at least 1"),
        (("--seeds", "-1"), None),
        (("--spines", "9", "--packets", "9999999"), None),
    ],
)
def test_an_option_is_called_by_its_name_and_told_once(tmp_path, words, told):
    (tmp_path / "small.yaml").write_text(FILE)
    refused = invoke(str(tmp_path / "small.yaml"), "--simulate", "--folder", str(tmp_path / "out"), *words)
    assert refused.exit_code == 2
    assert not (tmp_path / "out").exists()
    assert "small.yaml" not in refused.stderr
    if told is not None:
        assert refused.stderr == f"spraylab: {told}\n"


def test_a_pair_of_a_study_wants_both_options(tmp_path):
    (tmp_path / "pairs.yaml").write_text(FILE.partition("rates")[0] + "pairs: [{rate: 2%, packets: 900}]\n")
    refused = invoke(str(tmp_path / "pairs.yaml"), "--simulate", "--rate", "1%", "--folder", str(tmp_path / "out"))
    assert (refused.exit_code, refused.stderr.startswith("spraylab: --rate: rates and packets")) == (2, True)


def test_tables_of_another_study_are_refused(tmp_path):
    (tmp_path / "small.yaml").write_text(FILE)
    words = ("--folder", str(tmp_path / "out"), "--no-figures")
    assert invoke(str(tmp_path / "small.yaml"), "--simulate", *words).exit_code == 0
    refused = invoke("packets", "--tables-only", *words)
    assert (refused.exit_code, "holds the study 'small'" in refused.stderr, refused.stdout) == (2, True, "")
    assert invoke(str(tmp_path / "small.yaml"), "--tables-only", *words).exit_code == 0


def test_loss_policies_are_told_apart_where_there_is_more_than_off(tmp_path, capsys):
    (tmp_path / "small.yaml").write_text(FILE)
    words = ("--simulate", "--folder", str(tmp_path / "out"), "--no-figures", "--json")
    cells = json.loads(invoke(str(tmp_path / "small.yaml"), *words).stdout)
    _print(cells, Output())
    assert "loss_policy" not in capsys.readouterr().out
    _print([*cells, *({**cell, "loss_policy": "paper"} for cell in cells)], Output())
    head, *lines = (line.split() for line in capsys.readouterr().out.splitlines()[: 1 + 2 * len(cells)])
    assert [line[head.index("loss_policy")] for line in lines] == ["off"] * len(cells) + ["paper"] * len(cells)


def test_runs_of_an_edited_study_stand_apart_in_the_table_and_say_by_what(tmp_path):
    file, words = tmp_path / "small.yaml", ("--simulate", "--folder", str(tmp_path / "out"), "--no-figures")
    file.write_text(FILE)
    assert "allowed_miss" not in invoke(str(file), *words).stdout
    file.write_text(FILE + "miss: 0.05\nstrides: [1]\n")
    told = invoke(str(file), *words)
    head, *lines = ([cell.strip() for cell in line.split("  ") if cell.strip()] for line in told.stdout.splitlines())
    assert "strides" in head, "the first that tells them apart"
    assert [line[head.index("strides")] for line in lines[:4]] == ["1 3", "1 3", "1", "1"]
    assert [line[head.index("runs")] for line in lines[:4]] == ["2", "1", "2", "1"]


def test_what_a_fabric_does_not_do_is_told_before_it_begins(tmp_path, capsys):
    study = study_from(FILE + "miss: 0.05\n", "x", {"seeds": 0, "healthy_seeds": 0})
    _on_fabric(study, StudyFolder(tmp_path), LabDir("no"), Output())
    assert "`miss: 0.05` has no effect on a fabric: its leaves allow 0.001" in capsys.readouterr().err


def test_workers_end_with_a_study_that_is_killed(tmp_path):
    words = ("study", "packets", "--simulate", "--seeds", "500", "--folder", str(tmp_path / "out"))
    study = subprocess.Popen([sys.executable, "-m", "scenarios.cli", *words], stderr=subprocess.DEVNULL)
    try:
        workers = _until(lambda: _children(study.pid), bool)
    finally:
        study.send_signal(signal.SIGKILL)
        study.wait()
    assert len(workers) == os.cpu_count()
    assert _until(lambda: [pid for pid in workers if _runs(pid)], lambda left: not left) == []


def _until(look, enough):
    until = time.monotonic() + 30
    while not enough(found := look()) and time.monotonic() < until:
        time.sleep(0.1)
    return found


def _children(pid):
    found = [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return found if len(found) == os.cpu_count() else []


def _runs(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False
