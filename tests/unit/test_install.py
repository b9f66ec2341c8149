"""`make install`: the link, and what stands in the way of other users."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("mode", "told"), [(0o700, True), (0o750, True), (0o711, False), (0o755, False)])
def test_a_home_that_others_may_not_enter_is_told(tmp_path: Path, mode: int, told: bool) -> None:
    home, link = tmp_path / "home", tmp_path / "spraylab"
    program = home / "clone/.venv/bin/spraylab"
    program.parent.mkdir(parents=True)
    program.touch()
    home.chmod(mode)
    try:
        done = subprocess.run((ROOT / ".ci/install", program, link), capture_output=True, text=True, check=True)
    finally:
        home.chmod(0o755)
    assert link.readlink() == program
    assert (f"other users may not enter {home} (mode {mode:o})" in done.stderr) == told


def test_make_install_is_that_script() -> None:
    assert "\t@.ci/install " in (ROOT / "Makefile").read_text()
