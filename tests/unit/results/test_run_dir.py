"""The run folder: named by time, scenario and seed; `latest` points at it; its owner is the invoking user."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from results.errors import RunFolderError
from results.files.run_dir import create, point_latest
from tests.support.run_folder import LINK, write_run
from tests.support.sudo_user import USER, needs_root

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


def test_name_and_latest(tmp_path: Path) -> None:
    run = create(tmp_path / "runs", "gray-link", "7", NOW)
    point_latest(run)
    assert run.name == "20260304T050607Z-gray-link-7"
    assert (tmp_path / "runs/latest").resolve() == run.path
    assert not Path(os.readlink(tmp_path / "runs/latest")).is_absolute()


def test_two_runs_in_one_second(tmp_path: Path) -> None:
    first = create(tmp_path, "a", "1", NOW)
    second = create(tmp_path, "a", "1", NOW)
    assert second.name == f"{first.name}-2"
    point_latest(first)
    point_latest(second)
    assert (tmp_path / "latest").resolve() == second.path


def test_a_latest_that_is_not_ours_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "latest").mkdir()
    run = create(tmp_path, "a", "1", NOW)
    with pytest.raises(RunFolderError, match="cannot point to"):
        point_latest(run)
    assert {path.name for path in tmp_path.iterdir()} == {"latest", run.name}


def test_a_place_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunFolderError, match="cannot make a run folder"):
        create(tmp_path / "file", "a", "1", NOW)


@needs_root
def test_everything_belongs_to_the_invoking_user(user_place: Path) -> None:
    run = create(user_place / "runs", "a", "1", NOW)
    point_latest(run)
    for path in (user_place / "runs", user_place / "runs/latest", run.path):
        assert (path.lstat().st_uid, path.lstat().st_gid) == (USER.uid, USER.gid), path
    run.remove()
    assert not run.path.exists()


@needs_root
def test_no_run_folder_where_only_root_may_write(user_place: Path) -> None:
    os.chown(user_place, 0, 0)
    with pytest.raises(RunFolderError, match=f"Permission denied, for user {USER.uid}"):
        create(user_place / "runs", "a", "1", NOW)
    assert not any(user_place.iterdir())


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
