"""The run folder: named by time, scenario and seed; `latest` points at it; its owner is the invoking user."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from results.errors import RunFolderError
from results.run_dir import Invoker, create, point_latest
from tests.support.run_folder import LINK, write_run

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


def test_name_and_latest(tmp_path: Path) -> None:
    run = create(tmp_path / "runs", "gray-link", "7", None, NOW)
    point_latest(run)
    assert run.name == "20260304T050607Z-gray-link-7"
    assert (tmp_path / "runs/latest").resolve() == run.path
    assert not Path(os.readlink(tmp_path / "runs/latest")).is_absolute()


def test_two_runs_in_one_second(tmp_path: Path) -> None:
    first = create(tmp_path, "a", "1", None, NOW)
    second = create(tmp_path, "a", "1", None, NOW)
    assert second.name == f"{first.name}-2"
    point_latest(first)
    point_latest(second)
    assert (tmp_path / "latest").resolve() == second.path


def test_a_latest_that_is_not_ours_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "latest").mkdir()
    run = create(tmp_path, "a", "1", None, NOW)
    with pytest.raises(RunFolderError, match="cannot be made to lead"):
        point_latest(run)
    assert {path.name for path in tmp_path.iterdir()} == {"latest", run.name}


def test_a_place_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunFolderError, match="cannot make a run folder"):
        create(tmp_path / "file", "a", "1", None, NOW)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give files away")
def test_everything_belongs_to_the_invoking_user(tmp_path: Path) -> None:
    run = create(tmp_path / "runs", "a", "1", Invoker(12345, 23456), NOW)
    point_latest(run)
    run.pcap.mkdir()
    (run.pcap / "x.pcap").touch()
    run.hand_over()
    for path in (tmp_path / "runs", tmp_path / "runs/latest", run.path, run.pcap, run.pcap / "x.pcap"):
        stat = path.lstat()
        assert (stat.st_uid, stat.st_gid) == (12345, 23456), path


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give files away")
def test_a_folder_of_runs_that_was_there_keeps_its_owner(tmp_path: Path) -> None:
    create(tmp_path, "a", "1", Invoker(12345, 23456), NOW)
    assert tmp_path.stat().st_uid == os.geteuid()


def test_a_run_is_read_as_the_manual_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/latest").symlink_to(write_run(tmp_path / "runs/a-run").path)
    monkeypatch.chdir(tmp_path)
    told = (Path(__file__).parents[3] / "docs/api.md").read_text().partition("## Data of runs")[2]
    names: dict[str, Any] = {}
    exec(told.partition("```python\n")[2].partition("```")[0], names)
    assert names["summary"]["detected"]["named"][0]["link"] == LINK
    assert [each["verdict"] for each in names["verdicts"]].count("failed") == 2
    assert (names["short"] > 0).sum() == 2
