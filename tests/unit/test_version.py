"""The version is stated in one place; the command, the doctor, the record of a run and its report show it."""

import json
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from click.testing import CliRunner

from results.report.run_data import read_run
from results.report.tables import environment
from scenarios.cli.main import main
from testbed.version import VERSION
from tests.support.documents import ROOT
from tests.support.run_folder import write_run


@pytest.fixture
def another_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clone also runs by the Python of another one, whose installed version is not that of the clone's code."""
    monkeypatch.setattr(metadata, "version", lambda package: "9.9.9")


def said_by(*words: str) -> str:
    return CliRunner().invoke(main, words, prog_name="spraylab").stdout


@pytest.mark.usefixtures("another_is_installed")
def test_command_and_doctor_show_the_version_of_their_own_code() -> None:
    assert said_by("--version") == f"spraylab, version {VERSION}\n"
    assert said_by("doctor").startswith(f"spraylab {VERSION} on kernel ")
    assert json.loads(said_by("doctor", "--json"))["version"] == VERSION


@pytest.mark.usefixtures("another_is_installed")
def test_a_run_records_and_reports_the_version_of_its_code(tmp_path: Path) -> None:
    run = write_run(tmp_path / "20260304T050607Z-gray-link-1")
    assert json.loads(run.environment.read_text())["packages"]["spraylab"] == VERSION
    assert f"spraylab {VERSION}" in str(environment(read_run(run)).rows)


def test_the_package_takes_its_version_from_the_module() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert declared["project"]["dynamic"] == ["version"]
    assert declared["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "testbed.version.VERSION"}
