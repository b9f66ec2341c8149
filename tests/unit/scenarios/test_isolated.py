"""Which code runs: never that of the current folder, of PYTHONPATH or of another clone."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scenarios.isolated import CODE_FOLDER, OWN_PACKAGES, isolated_command, own_code
from scenarios.lab.processes import spawn
from testbed.root_environment import MARK

PLANTED = ("agent.py", "faults.py", "results.py", "random.py", "json.py", "click.py", "numpy.py", "sitecustomize.py")


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A folder whose modules say that they ran."""
    folder = tmp_path / "foreign"
    folder.mkdir()
    for name in PLANTED:
        (folder / name).write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r})\nraise SystemExit(99)\n")
    return folder


def test_children_run_nothing_of_the_current_folder_or_pythonpath(
    foreign: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(foreign)
    monkeypatch.setenv("PYTHONPATH", str(foreign))
    monkeypatch.setenv("PATH", f":{foreign}:{os.environ['PATH']}")
    (foreign / "ip").write_text(f"#!/bin/sh\ntouch {tmp_path / 'ran'}\n")
    (foreign / "ip").chmod(0o755)
    for command in (isolated_command("agent.host", "/nonexistent"), ("ip", "-V")):
        process = spawn(command, "tiso", tmp_path / "log")
        assert process.wait(60) in (0, 2), (tmp_path / "log").read_text()
    said = (tmp_path / "log").read_text()
    assert "/nonexistent" in said
    assert "iproute2" in said
    assert not (tmp_path / "ran").exists()


def test_children_have_a_clean_environment_in_the_root_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LD_PRELOAD", "CPATH", "TMPDIR", "PYTHONSTARTUP", "BASH_ENV"):
        monkeypatch.setenv(name, str(tmp_path / "nothing"))
    monkeypatch.setenv("PATH", "/usr/games")
    process = spawn(("sh", "-c", "pwd; env"), "tiso", tmp_path / "log")
    assert process.wait(60) == 0
    folder, *environment = (tmp_path / "log").read_text().splitlines()
    assert folder == "/"
    names = {line.partition("=")[0] for line in environment}
    assert names <= {"PATH", "LC_ALL", MARK, "PWD", "SHLVL", "_"}


@pytest.mark.parametrize("program", ["module", "script"])
def test_the_command_runs_nothing_of_the_current_folder(foreign: Path, tmp_path: Path, program: str) -> None:
    """`-m` searches the current folder by Python's rule, so it must be a clone or reach one by PYTHONPATH."""
    for name in ("sitecustomize.py", "click.py"):
        (foreign / name).unlink(missing_ok=program == "module")
    words = {"module": ["-m", "scenarios.cli"], "script": [str(script_of(tmp_path))]}[program]
    done = subprocess.run(
        [sys.executable, *words, "validate", "gray-link"], cwd=foreign, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert not (tmp_path / "ran").exists()


def script_of(folder: Path) -> Path:
    """As pip makes it of `[project.scripts]`, in a folder of its own."""
    file = folder / "spraylab"
    file.write_text("import sys\nfrom scenarios.cli.__main__ import run\nsys.exit(run())\n")
    return file


def test_each_clone_runs_its_own_code(tmp_path: Path) -> None:
    """With one interpreter for both, from the other's folder, whichever of them is installed."""
    clone = tmp_path / "clone"
    for name in OWN_PACKAGES:
        shutil.copytree(Path(CODE_FOLDER) / name, clone / name, ignore=shutil.ignore_patterns("__pycache__"))
    (clone / "agent/where.py").write_text("import agent, scenarios.isolated as c; print(agent.__file__, c.own_code())")
    command = (sys.executable, "-I", str(clone / "scenarios/isolated.py"), "agent.where")
    done = subprocess.run(command, cwd=CODE_FOLDER, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"{clone}/agent/__init__.py SourceCode(folder='{clone}', sha256=")
    assert own_code().sha256 not in done.stdout, "a file more is other code"
    (clone / "agent/where.py").unlink()
    again = (sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(clone)!r}); "
             "from scenarios.isolated import own_code; print(own_code().sha256)")  # fmt: skip
    assert subprocess.run(again, capture_output=True, text=True, check=True).stdout.strip() == own_code().sha256
